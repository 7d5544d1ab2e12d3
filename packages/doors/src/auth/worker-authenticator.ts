// The contract between the session door and whoever knows credentials: who may open a session, what a session token says, what was revoked.
// Types only. The books behind it are identity.ts, session-tokens.ts and certificates.ts; when it is asked is the session door's business.

import type { Dialect, Fault } from "@astraflow/protocol";

/** The certificate a peer has shown on its TLS connection. */
export interface PeerCertificate {
  /** base64url of the SHA-256 of its DER form. */
  readonly thumbprint: string;
  /** Why it is not trusted; null where the chain, the dates and the purpose are in order. */
  readonly problem: string | null;
  /** URI names of its subject (SPIFFE ids). */
  readonly uris: readonly string[];
  /** Wall time in ms after which it is worth nothing. */
  readonly expiresAt: number;
}

/** Who a peer says it is, and what it brings as proof. */
export interface WorkerCredentials {
  readonly tenant: string;
  readonly instance: string;
  readonly mode: "token" | "mtls";
  readonly token: string | null;
  readonly certificate: PeerCertificate | null;
}

export interface AuthenticatedWorker {
  readonly tenant: string;
  /** For the log and the audit: the name of the token or certificate, never its secret. */
  readonly user: string;
  /** The proof that was accepted, as a name that `endedWell` knows. */
  readonly credential: string;
  /** Thumbprint of the certificate the session is bound to; null where none was shown. */
  readonly thumbprint: string | null;
}

/** What a session token says once its signature and times were checked. Times in seconds. */
export interface SessionTokenClaims {
  readonly sid: string;
  readonly wid: string;
  readonly tenant: string;
  readonly dialect: Dialect;
  readonly jti: string;
  readonly kid: string;
  readonly aud: string;
  readonly iat: number;
  readonly exp: number;
  /** Thumbprint the token is bound to; absent where the session has no certificate. */
  readonly cnf?: string;
}

export interface IssuedSessionToken {
  readonly token: string;
  readonly jti: string;
  /** Wall time in ms. */
  readonly expiresAt: number;
}

/** The keeper of the session door's credentials. Nothing here waits or throws. */
export interface WorkerAuthenticator {
  /** E.AUTH.MISSING_TOKEN, E.AUTH.INVALID_TOKEN, E.AUTH.MTLS_REQUIRED, E.AUTH.MODE_UNSUPPORTED or E.SESSION.DENIED where not. */
  authenticate(credentials: WorkerCredentials): AuthenticatedWorker | Fault;
  /** Still true of someone who was admitted earlier? Asked after every `changed`, and for certificates at their end. */
  isStillValid(authenticated: AuthenticatedWorker): boolean;
  /** Credentials were revoked or rotated: live sessions are looked at again. The returned function ends the listening. */
  onChange(listener: () => void): () => void;
  issueSessionToken(of: {
    sid: string;
    wid: string;
    tenant: string;
    dialect: Dialect;
    thumbprint: string | null;
  }): IssuedSessionToken;
  /** E.SESSION.INVALID_TOKEN where signature, key, audience or time is wrong. */
  readSessionToken(token: string): SessionTokenClaims | Fault;
}
