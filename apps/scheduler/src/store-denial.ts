// A server that answers and says no, in a sentence with the way out: TLS that does not come about, a user, a password or a database
// that it does not know. Time mends none of these. Servers that do not answer at all are the business of store-wait.ts.

import { Fault } from "@astraflow/protocol";

export interface Denial {
  /** Follows the place: "db:5432/astra" + " " + found. */
  readonly found: string;
  readonly wayOut: string;
}

const namedAuthority =
  "name its authority with sslmode=verify-full&sslrootcert=FILE in --store, or check nothing with sslmode=no-verify";
export const writtenPassword = "in a password write % as %25, / as %2F, # as %23, ? as %3F and @ as %40";

const unknownSigner: Denial = { found: "shows a certificate that nobody trusted here has signed", wayOut: namedAuthority };
const wrongUser: Denial = {
  found: "does not let this user in with this password",
  wayOut: `correct user and password in --store; ${writtenPassword}`,
};

/** By the code of the error at the bottom: OpenSSL's, Node's, or the server's own five characters. */
const denials: Readonly<Record<string, Denial>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownSigner,
  SELF_SIGNED_CERT_IN_CHAIN: unknownSigner,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownSigner,
  UNABLE_TO_GET_ISSUER_CERT: unknownSigner,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownSigner,
  CERT_HAS_EXPIRED: { found: "shows a certificate that has expired", wayOut: "renew it at the server" },
  CERT_NOT_YET_VALID: { found: "shows a certificate that is not valid yet", wayOut: "look at the clocks of both machines" },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    found: "shows a certificate for another name",
    wayOut: "use the name that the certificate is for in --store, or check nothing with sslmode=no-verify",
  },
  "28P01": wrongUser,
  "28000": {
    found: "does not let this user in from here",
    wayOut: "correct the user in --store, or look at pg_hba.conf; where it wants TLS, add ?sslmode=verify-full",
  },
  "3D000": { found: "has no such database", wayOut: "make it with createdb, or correct --store" },
};

/** The library gives these no code. */
const withoutTls = "The server does not support SSL connections";

/** What the server denied; null where the problem is another. */
export function readDenial(problem: unknown): Denial | null {
  let error = problem;
  while (error instanceof Fault) error = error.cause;
  if (!(error instanceof Error)) return null;
  if (error.message === withoutTls)
    return { found: "does not speak TLS", wayOut: "switch ssl on at the server, or write sslmode=disable in --store" };
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? (denials[code] ?? null) : null;
}
