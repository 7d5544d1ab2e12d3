// The order in which counts of workers and of tasks are shown, the same from every store.

interface Count {
  readonly tenant: string;
  readonly phase: string;
  readonly draining?: boolean;
}

export function compareCounts(a: Count, b: Count): number {
  const [x, y] = [countKey(a), countKey(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

const countKey = ({ tenant, phase, draining }: Count): string => `${tenant}\n${phase}\n${draining}`;
