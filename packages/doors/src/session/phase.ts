// The life of a worker connection as a table: every move it can make. What happens on the way is in connection.ts.

/** new: a stranger. greeted: authenticated. describing: inventory awaited. joining: the engine decides. live: work flows. */
export type Phase = "new" | "greeted" | "describing" | "joining" | "live" | "closed";

export const connectionMoves = {
  new: ["greeted", "closed"],
  greeted: ["describing", "joining", "closed"],
  describing: ["joining", "closed"],
  joining: ["live", "closed"],
  live: ["closed"],
  closed: [],
} as const satisfies Record<Phase, readonly Phase[]>;

/** A move that is not in the table is a bug of ours, never the peer's doing. */
export function movePhase(from: Phase, to: Phase): Phase {
  const allowed: readonly Phase[] = connectionMoves[from];
  if (!allowed.includes(to)) throw new Error(`a connection cannot go from ${from} to ${to}`);
  return to;
}
