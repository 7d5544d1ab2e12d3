// A scheduler and its database are often started together, and the database takes longer. A store that does not answer at the start is tried
// again for a while, with a line in the log; every other problem ends the start at once.

import { setTimeout as pause } from "node:timers/promises";
import { Fault } from "@astraflow/protocol";
import { explainConnectionRefusal } from "./connection-refusal.ts";

export interface StoreRetryPolicy {
  readonly giveUpAfterMs: number;
  readonly retryDelayMs: number;
  /** Monotonic, milliseconds. */
  now(): number;
  /** Called once, when the waiting begins. */
  onFirstFailure(cause: Fault): void;
}

export const startupRetryPolicy = { giveUpAfterMs: 60_000, retryDelayMs: 250, now: () => performance.now() } as const;

/** PostgreSQL codes for a server that is starting, stopping or full. */
const temporaryErrorCodes = /^(57P0|53)/;

/**
 * A store that could not be opened only because nobody answered is away, which is worth waiting for. Told from the error at the
 * bottom: one that a server has sent has a code of five characters and a severity, one of the connection has not. What the server
 * denied is said in words of our own, which hold their way out.
 */
export function toUnavailableFault(cause: unknown): unknown {
  if (!(cause instanceof Fault) || cause.code !== "E.STORE.OPEN" || !(cause.cause instanceof Fault)) return cause;
  if (cause.cause.code !== "E.STORE.BUSY") return cause;
  const refusal = explainConnectionRefusal(cause);
  if (refusal !== null) {
    const address = String(cause.details?.["place"] ?? "the store");
    return new Fault(
      "E.STORE.OPEN",
      `${address} ${refusal.problem}; ${refusal.fix}`,
      { ...cause.details, isExplained: true },
      cause,
    );
  }
  const { code, severity } = (cause.cause.cause ?? {}) as { code?: unknown; severity?: unknown };
  const isFromServer = severity !== undefined && typeof code === "string";
  return isFromServer && !temporaryErrorCodes.test(code) ? cause : new Fault("E.STORE.BUSY", cause.message, cause.details, cause);
}

export async function waitForStore<T>(start: () => Promise<T>, policy: StoreRetryPolicy): Promise<T> {
  const until = policy.now() + policy.giveUpAfterMs;
  for (let tries = 0; ; tries++) {
    try {
      return await start();
    } catch (cause) {
      if (!(cause instanceof Fault) || cause.code !== "E.STORE.BUSY" || policy.now() >= until) throw cause;
      if (tries === 0) policy.onFirstFailure(cause);
      await pause(policy.retryDelayMs);
    }
  }
}
