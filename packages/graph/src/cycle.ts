// One cycle in a set of pairs, or none. Nothing here recurses: a chain may be as long as a workflow.

/** Numbers on a cycle in their order, the first repeated at the end; null when the pairs have an order. */
export function cycleIn(count: number, pairs: readonly (readonly [number, number])[]): number[] | null {
  const after: number[][] = Array.from({ length: count }, () => []);
  const before: number[][] = Array.from({ length: count }, () => []);
  const open = Array.from({ length: count }, () => 0);
  for (const [source, target] of pairs) {
    after[source]?.push(target);
    before[target]?.push(source);
    open[target] = (open[target] ?? 0) + 1;
  }
  const free = open.flatMap((left, number) => (left === 0 ? [number] : []));
  for (let number = free.pop(); number !== undefined; number = free.pop())
    for (const next of after[number] ?? []) {
      open[next] = (open[next] ?? 0) - 1;
      if (open[next] === 0) free.push(next);
    }
  let at = open.findIndex((left) => left > 0);
  if (at < 0) return null;
  // Every number left over has a predecessor left over: walking back must come around.
  const walked = new Map<number, number>();
  while (!walked.has(at)) {
    walked.set(at, walked.size);
    at = before[at]?.find((number) => (open[number] ?? 0) > 0) ?? at;
  }
  return [...[...walked.keys()].slice(walked.get(at)), at].reverse();
}
