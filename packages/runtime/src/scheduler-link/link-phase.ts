// The phases of a worker's session and every move between them. What happens on a move lives in connection-lifecycle.ts.

export type LinkPhase = "NEW" | "HANDSHAKING" | "REGISTERED" | "READY" | "DRAINING" | "BACKOFF" | "CLOSED";

/** Every move a link can make; a move that is not here does not exist. */
export const linkTransitions = {
  NEW: { open: "HANDSHAKING", lose: "BACKOFF", stop: "CLOSED" },
  HANDSHAKING: { welcome: "REGISTERED", resume: "READY", resumeDraining: "DRAINING", lose: "BACKOFF", stop: "CLOSED" },
  REGISTERED: { accept: "READY", lose: "BACKOFF", stop: "CLOSED" },
  READY: { drain: "DRAINING", lose: "BACKOFF", stop: "CLOSED" },
  DRAINING: { undrain: "READY", lose: "BACKOFF", stop: "CLOSED" },
  BACKOFF: { retry: "NEW", stop: "CLOSED" },
  CLOSED: {},
} as const satisfies Record<LinkPhase, Readonly<Record<string, LinkPhase>>>;

/**
 * open: the socket is up, the handshake or the resume leaves. welcome: the handshake was acked and the register leaves.
 * accept: the scheduler opened the session. resume, resumeDraining: the session goes on over this socket. drain: no new work from
 * here on. undrain: it is welcome again. lose: socket gone, reset, or silence. retry: the pause is over. stop: the process is done
 * with this link for good.
 */
export type LinkTransition = { [P in LinkPhase]: keyof (typeof linkTransitions)[P] }[LinkPhase];

export function nextPhase(phase: LinkPhase, move: LinkTransition): LinkPhase | undefined {
  const moves: Partial<Record<LinkTransition, LinkPhase>> = linkTransitions[phase];
  return moves[move];
}

/** In these phases frames of work may travel. */
export function isInSession(phase: LinkPhase): boolean {
  return phase === "READY" || phase === "DRAINING";
}

export interface BackoffSettings {
  readonly baseMs: number;
  readonly maxMs: number;
  /** Share of the delay that the dice may add or take away, so that a crowd does not come back in step. */
  readonly jitter: number;
}

/** The pause before the next dial: first none, then doubling. The cap includes the jitter, so that no crowd is in step there. */
export function computeBackoffMs(settings: BackoffSettings, failures: number, roll: number): number {
  if (failures === 0) return 0;
  const delay = Math.min(settings.maxMs / (1 + settings.jitter), settings.baseMs * 2 ** Math.min(failures - 1, 30));
  return delay * (1 - settings.jitter + 2 * settings.jitter * roll);
}
