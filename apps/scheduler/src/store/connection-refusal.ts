// A server that answers and says no, in a sentence with the way out: TLS that does not come about, a user, a password or a database
// that it does not know. Time mends none of these. Servers that do not answer at all are the business of store-retry.ts.

import { Fault } from "@astraflow/protocol";
import { passwordEscapeHint } from "../settings/store-address.ts";

export interface ConnectionRefusal {
  /** Follows the place: "db:5432/astra" + " " + found. */
  readonly problem: string;
  readonly fix: string;
}

const authorityHint =
  "name its authority with sslmode=verify-full&sslrootcert=FILE in --store, or check nothing with sslmode=no-verify";

const unknownSigner: ConnectionRefusal = {
  problem: "shows a certificate that nobody trusted here has signed",
  fix: authorityHint,
};
const wrongUser: ConnectionRefusal = {
  problem: "does not let this user in with this password",
  fix: `correct user and password in --store; ${passwordEscapeHint}`,
};

/** By the code of the error at the bottom: OpenSSL's, Node's, or the server's own five characters. */
const refusalsByCode: Readonly<Record<string, ConnectionRefusal>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownSigner,
  SELF_SIGNED_CERT_IN_CHAIN: unknownSigner,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownSigner,
  UNABLE_TO_GET_ISSUER_CERT: unknownSigner,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownSigner,
  CERT_HAS_EXPIRED: { problem: "shows a certificate that has expired", fix: "renew it at the server" },
  CERT_NOT_YET_VALID: { problem: "shows a certificate that is not valid yet", fix: "look at the clocks of both machines" },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    problem: "shows a certificate for another name",
    fix: "use the name that the certificate is for in --store, or check nothing with sslmode=no-verify",
  },
  "28P01": wrongUser,
  "28000": {
    problem: "does not let this user in from here",
    fix: "correct the user in --store, or look at pg_hba.conf; where it wants TLS, add ?sslmode=verify-full",
  },
  "3D000": { problem: "has no such database", fix: "make it with createdb, or correct --store" },
};

/** The library gives these no code. */
const noTlsMessage = "The server does not support SSL connections";

/** What the server denied; null where the problem is another. */
export function explainConnectionRefusal(problem: unknown): ConnectionRefusal | null {
  let error = problem;
  while (error instanceof Fault) error = error.cause;
  if (!(error instanceof Error)) return null;
  if (error.message === noTlsMessage)
    return { problem: "does not speak TLS", fix: "switch ssl on at the server, or write sslmode=disable in --store" };
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? (refusalsByCode[code] ?? null) : null;
}
