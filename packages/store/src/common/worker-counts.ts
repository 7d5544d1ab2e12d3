// The order in which counts of workers are shown, the same from every store.

import type { WorkerCount } from "@astraflow/engine";

export function compareWorkerCounts(a: WorkerCount, b: WorkerCount): number {
  const [x, y] = [workerCountKey(a), workerCountKey(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

const workerCountKey = ({ tenant, phase, draining }: WorkerCount): string => `${tenant}\n${phase}\n${draining}`;
