// A scheduler and its database are often started together, and the database takes longer. A store that does not answer at the start is tried
// again for a while, with a line in the log; every other problem ends the start at once. Why a PostgreSQL server refuses a connection is
// explained with a way out: waiting helps with none of those.

import { setTimeout as pause } from "node:timers/promises";
import { Fault } from "@astraflow/protocol";
import { passwordEscapeHint } from "../settings/store-address.ts";

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
 * A store that could not be opened only because nobody answered is unavailable, which is worth waiting for. The innermost error tells: one
 * that a server has sent has a code of five characters and a severity. A refusal of the server is explained with its way out.
 */
export function toUnavailableFault(cause: unknown): unknown {
  if (!(cause instanceof Fault) || cause.code !== "E.STORE.OPEN" || !(cause.cause instanceof Fault)) return cause;
  if (cause.cause.code !== "E.STORE.BUSY") return cause;
  const refusal = explainConnectionRefusal(cause);
  if (refusal !== null) {
    const address = String(cause.details?.["place"] ?? "the store");
    const details = { ...cause.details, isExplained: true };
    return new Fault("E.STORE.OPEN", `${address} ${refusal.problem}; ${refusal.fix}`, details, cause);
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

export interface ConnectionRefusal {
  /** Completes a sentence that begins with the address: "db:5432/astra" + " " + problem. */
  readonly problem: string;
  readonly fix: string;
}

const unknownSigner: ConnectionRefusal = {
  problem: "presents a certificate from an untrusted CA",
  fix: "pass its CA with sslmode=verify-full&sslrootcert=FILE in --store, or skip verification with sslmode=no-verify",
};

/** By the code of the innermost error: of OpenSSL, of Node, or of PostgreSQL (five characters). */
const refusalsByCode: Readonly<Record<string, ConnectionRefusal>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownSigner,
  SELF_SIGNED_CERT_IN_CHAIN: unknownSigner,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownSigner,
  UNABLE_TO_GET_ISSUER_CERT: unknownSigner,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownSigner,
  CERT_HAS_EXPIRED: { problem: "presents a certificate that has expired", fix: "renew it at the server" },
  CERT_NOT_YET_VALID: { problem: "presents a certificate that is not valid yet", fix: "check the clocks of both machines" },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    problem: "presents a certificate for another name",
    fix: "use the name in the certificate in --store, or skip verification with sslmode=no-verify",
  },
  "28P01": {
    problem: "rejects this user and password",
    fix: `correct user and password in --store; ${passwordEscapeHint}`,
  },
  "28000": {
    problem: "does not accept this user from this host",
    fix: "correct the user in --store, or check pg_hba.conf; if it requires TLS, add ?sslmode=verify-full",
  },
  "3D000": { problem: "has no such database", fix: "create it with createdb, or correct --store" },
};

/** This error has no code. */
const noTlsMessage = "The server does not support SSL connections";

/** Why the server refused the connection; null for any other problem. */
export function explainConnectionRefusal(problem: unknown): ConnectionRefusal | null {
  let error = problem;
  while (error instanceof Fault) error = error.cause;
  if (!(error instanceof Error)) return null;
  if (error.message === noTlsMessage)
    return { problem: "does not support TLS", fix: "enable ssl at the server, or use sslmode=disable in --store" };
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? (refusalsByCode[code] ?? null) : null;
}
