// Explains why a PostgreSQL server refuses a connection, and how to fix it: TLS, user, password or database. Waiting helps with none of these;
// servers that do not answer at all are handled in store-retry.ts.

import { Fault } from "@astraflow/protocol";
import { passwordEscapeHint } from "../settings/store-address.ts";

export interface ConnectionRefusal {
  /** Completes a sentence that begins with the address: "db:5432/astra" + " " + problem. */
  readonly problem: string;
  readonly fix: string;
}

const authorityHint =
  "pass its CA with sslmode=verify-full&sslrootcert=FILE in --store, or skip verification with sslmode=no-verify";

const unknownSigner: ConnectionRefusal = {
  problem: "presents a certificate from an untrusted CA",
  fix: authorityHint,
};
const wrongUser: ConnectionRefusal = {
  problem: "rejects this user and password",
  fix: `correct user and password in --store; ${passwordEscapeHint}`,
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
  "28P01": wrongUser,
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
