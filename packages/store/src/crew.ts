// The order in which counts of workers are shown, the same from every store.

import type { WorkerCount } from "@astraflow/engine";

export function byCrew(a: WorkerCount, b: WorkerCount): number {
  const [x, y] = [nameOf(a), nameOf(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

const nameOf = ({ tenant, phase, draining }: WorkerCount): string => `${tenant}\n${phase}\n${draining}`;
