// One cycle in a set of pairs, or none. Nothing here recurses: a chain may be as long as a workflow.

/** Numbers on a cycle in their order, the first repeated at the end; null when the pairs have an order. */
export function findCycle(count: number, pairs: readonly (readonly [number, number])[]): number[] | null {
  const after: number[][] = Array.from({ length: count }, () => []);
  const before: number[][] = Array.from({ length: count }, () => []);
  const incoming = Array.from({ length: count }, () => 0);
  for (const [source, target] of pairs) {
    after[source]?.push(target);
    before[target]?.push(source);
    incoming[target] = (incoming[target] ?? 0) + 1;
  }
  const ready = incoming.flatMap((incomingCount, number) => (incomingCount === 0 ? [number] : []));
  for (let number = ready.pop(); number !== undefined; number = ready.pop())
    for (const next of after[number] ?? []) {
      incoming[next] = (incoming[next] ?? 0) - 1;
      if (incoming[next] === 0) ready.push(next);
    }
  let at = incoming.findIndex((incomingCount) => incomingCount > 0);
  if (at < 0) return null;
  // Every number left over has a predecessor left over: walking back must come around.
  const walked = new Map<number, number>();
  while (!walked.has(at)) {
    walked.set(at, walked.size);
    at = before[at]?.find((number) => (incoming[number] ?? 0) > 0) ?? at;
  }
  return [...[...walked.keys()].slice(walked.get(at)), at].reverse();
}
