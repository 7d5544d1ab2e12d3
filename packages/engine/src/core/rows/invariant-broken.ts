// The error for a promise of the engine's own code that does not hold: a bug or a damaged row, never a caller's mistake.

import { Fault } from "@astraflow/protocol";

/** Inside a turn it undoes what was being decided and ends in the quarantine; elsewhere it ends the process. */
export class InvariantBroken extends Error {
  readonly rule: string;
  readonly details: Readonly<Record<string, unknown>>;
  constructor(rule: string, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(`${rule}: ${message}`);
    this.rule = rule;
    this.details = details;
  }
}

/** The row after a move that the caller knows to be possible. */
export function requireLegalMove<R>(moved: R | Fault): R {
  if (moved instanceof Fault) throw new InvariantBroken("legal move", moved.message, moved.details);
  return moved;
}
