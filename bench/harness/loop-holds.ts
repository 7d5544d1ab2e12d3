// How long the threads of a scheduler were held: CPU time between two rounds of a thread's loop, as `/metrics` shows it, compared with a fixed piece of
// work in this process at the same time. A slow or busy machine stretches both.

/** A fixed piece of work: about 10 ms of a machine where the limit for every hold is 100 ms. */
const referenceText = JSON.stringify(
  Array.from({ length: 12_000 }, (_, at) => ({ id: at, name: `n${at}`, place: { x: at, y: [1, 2] } })),
);
export const holdsPerReferenceMax = 10;

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

/** The median of some, as what ran before leaves memory to be collected. */
export function measureReference(): number {
  const times = Array.from({ length: 5 }, () => {
    const before = cpuMs();
    for (let round = 0; round < 2; round++) JSON.parse(referenceText);
    return cpuMs() - before;
  });
  return times.toSorted((a, b) => a - b)[2] ?? 0;
}

export interface LoopHolds {
  /** How many holds were up to each bound, by thread. */
  readonly buckets: Readonly<Record<string, readonly (readonly [bound: number, count: number])[]>>;
  readonly engineTicks: number;
}

export async function readLoopHolds(http: string, token?: string): Promise<LoopHolds> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const text = await (await fetch(`${http}/metrics`, { headers })).text();
  const rows = [...text.matchAll(/^event_loop_cpu_ms_bucket\{thread="(\w+)",le="([^"]+)"\} (\d+)$/gm)];
  if (rows.length === 0) throw new Error(`no times of the loops in the metrics: ${text.slice(0, 300)}`);
  const buckets: Record<string, [number, number][]> = {};
  for (const [, thread = "", bound = "", count = ""] of rows)
    (buckets[thread] ??= []).push([bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound), Number(count)]);
  return { buckets, engineTicks: buckets["engine"]?.at(-1)?.[1] ?? 0 };
}

/** The bound of the longest hold between two readings. */
export function longestHold(before: LoopHolds, after: LoopHolds, thread: string): number {
  const counted = (after.buckets[thread] ?? []).map(([bound, count], at) => {
    const own = count - (after.buckets[thread]?.[at - 1]?.[1] ?? 0);
    const ownBefore = (before.buckets[thread]?.[at]?.[1] ?? 0) - (before.buckets[thread]?.[at - 1]?.[1] ?? 0);
    return own > ownBefore ? bound : 0;
  });
  return Math.max(...counted);
}
