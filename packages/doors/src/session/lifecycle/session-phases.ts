// The lives of a connection and of a session as tables: every move each can make. What happens on the way is in connection.ts and session.ts.

/**
 * new: a stranger. greeted: authenticated. describing: inventory awaited. joining: the engine decides.
 * resuming: a known session asked for, the engine decides. live: work flows.
 */
export type ConnectionPhase = "new" | "greeted" | "describing" | "joining" | "resuming" | "live" | "closed";

export const connectionTransitions = {
  new: ["greeted", "resuming", "closed"],
  greeted: ["describing", "joining", "closed"],
  describing: ["joining", "closed"],
  joining: ["live", "closed"],
  resuming: ["live", "closed"],
  live: ["closed"],
  closed: [],
} as const satisfies Record<ConnectionPhase, readonly ConnectionPhase[]>;

/** describing, joining: not accepted yet. detached: its socket is gone, it can be resumed. resuming: on a new socket, the engine decides. */
export type SessionPhase = "describing" | "joining" | "live" | "detached" | "resuming" | "ended";

export const sessionTransitions = {
  describing: ["joining", "ended"],
  joining: ["live", "ended"],
  live: ["detached", "resuming", "ended"],
  detached: ["resuming", "ended"],
  resuming: ["live", "detached", "resuming", "ended"],
  ended: [],
} as const satisfies Record<SessionPhase, readonly SessionPhase[]>;

/** A move that is not in the table is a bug of ours, never the peer's doing. */
export function transitionConnection(from: ConnectionPhase, to: ConnectionPhase): ConnectionPhase {
  const allowed: readonly ConnectionPhase[] = connectionTransitions[from];
  if (!allowed.includes(to)) throw new Error(`a connection cannot go from ${from} to ${to}`);
  return to;
}

export function transitionSession(from: SessionPhase, to: SessionPhase): SessionPhase {
  const allowed: readonly SessionPhase[] = sessionTransitions[from];
  if (!allowed.includes(to)) throw new Error(`a session cannot go from ${from} to ${to}`);
  return to;
}
