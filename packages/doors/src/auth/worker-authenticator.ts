// Decides who may open a worker session: by token, by client certificate, or by both; and issues the tokens that resume sessions.

import { Fault, fault } from "@astraflow/protocol";
import { type PeerCertificate, parseCertificateSubject } from "./certificates.ts";
import type { TokenRegistry } from "./token-registry.ts";
import {
  type IssuedSessionToken,
  type SessionTokenClaims,
  type SessionTokenSubject,
  SessionTokens,
  type SessionTokensOptions,
} from "./worker-session-tokens.ts";

/** Who a peer claims to be, and its proof. */
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
  /** Names the accepted proof, for `isStillValid`. */
  readonly credential: string;
  /** Thumbprint of the certificate that the session is bound to; null without a certificate. */
  readonly thumbprint: string | null;
}

/** Authenticates workers and issues session tokens for the session door. Nothing here waits or throws. */
export interface WorkerAuthenticator {
  /** E.AUTH.MISSING_TOKEN, E.AUTH.INVALID_TOKEN, E.AUTH.MTLS_REQUIRED, E.AUTH.MODE_UNSUPPORTED or E.SESSION.DENIED where not. */
  authenticate(credentials: WorkerCredentials): AuthenticatedWorker | Fault;
  /** Whether the proof is still good. Asked after every change, and when a certificate expires. */
  isStillValid(authenticated: AuthenticatedWorker): boolean;
  /** Calls the listener when credentials were revoked or rotated. The returned function ends that. */
  onChange(listener: () => void): () => void;
  issueSessionToken(subject: SessionTokenSubject): IssuedSessionToken;
  /** E.SESSION.INVALID_TOKEN where signature, key, audience or time is wrong. */
  readSessionToken(token: string): SessionTokenClaims | Fault;
}

export const invalidCredentialFault = (): Fault => fault("E.AUTH.INVALID_TOKEN", "this worker's credential is no longer valid");

export interface WorkerAuthenticatorOptions extends SessionTokensOptions {
  readonly tokens: TokenRegistry;
  /** Trust domain of the workers' certificates; null where certificates are not accepted. */
  readonly trustDomain?: string | null;
  /** Tenants whose workers must have a client certificate, whatever else they send. */
  readonly isCertificateRequired?: (tenant: string) => boolean;
}

export interface RefreshableAuthenticator extends WorkerAuthenticator {
  /** The token registry has changed. */
  notifyTokensChanged(): void;
  /** A CA is not trusted any more: workers that were authenticated by a certificate have to connect again. */
  distrustCertificates(): void;
}

export function createWorkerAuthenticator(options: WorkerAuthenticatorOptions): RefreshableAuthenticator {
  const { tokens, environment, trustDomain = null, isCertificateRequired = () => false } = options;
  const listeners = new Set<() => void>();
  const sessionTokens = new SessionTokens(options);
  let trustEpoch = 1;
  const notifyListeners = (): void => {
    for (const listener of [...listeners]) listener();
  };

  return {
    authenticate(credentials) {
      const { tenant, mode, certificate } = credentials;
      if (mode === "mtls" && trustDomain === null && !isCertificateRequired(tenant))
        return fault("E.AUTH.MODE_UNSUPPORTED", "auth mode mtls is not offered here; use token");
      // Checked first: a peer without a certificate must not learn whether its token is valid.
      const certified =
        mode === "mtls" || isCertificateRequired(tenant)
          ? verifyCertificate(credentials, trustDomain, environment.clock.now())
          : null;
      if (certified instanceof Fault) return certified;
      const proof = mode === "token" ? authenticateByToken(credentials, tokens) : null;
      if (proof instanceof Fault) return proof;
      return {
        tenant,
        user: proof?.user ?? certified?.uris[0] ?? "",
        credential: formatCredential(proof?.credential ?? null, certified, trustEpoch),
        // Any certificate, trusted or not, proves its key: the session is bound to that key.
        thumbprint: certificate?.thumbprint ?? null,
      };
    },

    isStillValid({ tenant, credential }) {
      const parts = parseCredential(credential);
      if (parts === null || (parts.token === null && parts.expiresAt === null)) return false;
      if (parts.token !== null && !tokens.hasCredential(parts.token)) return false;
      if (parts.expiresAt === null) return !isCertificateRequired(tenant);
      return parts.trust === trustEpoch && parts.expiresAt > environment.clock.now();
    },

    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },

    issueSessionToken: (subject) => sessionTokens.issue(subject),
    readSessionToken: (token) => sessionTokens.read(token),
    notifyTokensChanged: notifyListeners,
    distrustCertificates() {
      trustEpoch += 1;
      notifyListeners();
    },
  };
}

/** The certificate, if it proves that the peer is this worker. */
function verifyCertificate(
  { tenant, instance, certificate }: WorkerCredentials,
  trustDomain: string | null,
  now: number,
): PeerCertificate | Fault {
  if (trustDomain === null)
    return fault("E.AUTH.MTLS_REQUIRED", "a client certificate is required, but this address does not accept one");
  if (certificate === null) return fault("E.AUTH.MTLS_REQUIRED", "a client certificate is required on the TLS connection");
  const problem = certificate.problem ?? (certificate.expiresAt <= now ? "it has expired" : null);
  const subject = problem ?? parseCertificateSubject(certificate, trustDomain);
  if (typeof subject === "string") return fault("E.AUTH.MTLS_REQUIRED", `the client certificate cannot be used: ${subject}`);
  const isOwn = subject.tenant === tenant && (subject.instance === null || subject.instance === instance);
  return isOwn ? certificate : fault("E.SESSION.DENIED", "the client certificate belongs to another tenant or worker");
}

function authenticateByToken(
  { token, tenant }: WorkerCredentials,
  tokens: TokenRegistry,
): Pick<AuthenticatedWorker, "user" | "credential"> | Fault {
  if (token === null || token === "") return fault("E.AUTH.MISSING_TOKEN", "auth.token is missing");
  const found = tokens.find(token, tenant);
  // The same answer for a valid token of another tenant: it must not reveal what exists.
  if (found === null) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid for this tenant");
  const { identity, credential } = found;
  if (!identity.grants.includes("worker")) return fault("E.SESSION.DENIED", "this token may not open worker sessions");
  return { user: identity.user, credential };
}

/** What must stay valid: the token, and the expiry and the trust of the certificate if one was needed. */
function formatCredential(token: string | null, certificate: PeerCertificate | null, trustEpoch: number): string {
  return [token ?? "", ...(certificate === null ? [] : [certificate.expiresAt, trustEpoch, certificate.thumbprint])].join("|");
}

function parseCredential(credential: string): { token: string | null; expiresAt: number | null; trust: number } | null {
  const [token = "", expiresAt, trustEpoch] = credential.split("|");
  if (expiresAt === undefined) return { token: token || null, expiresAt: null, trust: 0 };
  const read = { token: token || null, expiresAt: Number(expiresAt), trust: Number(trustEpoch) };
  return Number.isFinite(read.expiresAt) && Number.isInteger(read.trust) ? read : null;
}
