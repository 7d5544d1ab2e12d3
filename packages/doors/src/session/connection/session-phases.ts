// The phases of a connection and of a session as tables: every transition that each can make.

/** handshake: there is no session yet. attached: its frames belong to a session. */
export type ConnectionPhase = "handshake" | "attached" | "closed";

export const connectionTransitions = {
  handshake: ["attached", "closed"],
  attached: ["closed"],
  closed: [],
} as const satisfies Record<ConnectionPhase, readonly ConnectionPhase[]>;

/**
 * describing: the worker's inventory is awaited. joining: the engine's answer to the join is awaited. live: work flows.
 * detached: the socket is gone and the session can be resumed. resuming: on a new socket, the engine's answer is awaited.
 */
export type SessionPhase = "describing" | "joining" | "live" | "detached" | "resuming" | "ended";

export const sessionTransitions = {
  describing: ["joining", "ended"],
  joining: ["live", "ended"],
  live: ["detached", "resuming", "ended"],
  detached: ["resuming", "ended"],
  resuming: ["live", "detached", "resuming", "ended"],
  ended: [],
} as const satisfies Record<SessionPhase, readonly SessionPhase[]>;

/** Throws where the table has no such transition: that is a bug of ours, never the worker's doing. */
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
