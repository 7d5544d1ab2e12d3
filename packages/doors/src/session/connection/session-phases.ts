// The phases of a connection and of a session as tables: every transition that each can make.

/** handshake: there is no session yet. attached: its frames belong to a session. */
export type ConnectionPhase = "handshake" | "attached" | "closed";

export const connectionTransitions: Readonly<Record<ConnectionPhase, readonly ConnectionPhase[]>> = {
  handshake: ["attached", "closed"],
  attached: ["closed"],
  closed: [],
};

/**
 * joining: the engine's answer to the join is awaited. live: work flows.
 * detached: the socket is gone and the session can be resumed. resuming: on a new socket, the engine's answer is awaited.
 */
export type SessionPhase = "joining" | "live" | "detached" | "resuming" | "ended";

export const sessionTransitions: Readonly<Record<SessionPhase, readonly SessionPhase[]>> = {
  joining: ["live", "ended"],
  live: ["detached", "resuming", "ended"],
  detached: ["resuming", "ended"],
  resuming: ["live", "detached", "resuming", "ended"],
  ended: [],
};

/** Throws where the table has no such transition: that is a bug of ours, never the worker's doing. */
export function transition<P extends string>(table: Readonly<Record<P, readonly P[]>>, from: P, to: P): P {
  if (!table[from].includes(to)) throw new Error(`a connection or session cannot go from ${from} to ${to}`);
  return to;
}
