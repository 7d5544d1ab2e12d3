// The keeper of the session door: tokens, certificates and session tokens behind the one contract of gate.ts. When it is asked, and
// what becomes of a session that is no longer good, is the session door's business.

import { Fault, fault } from "@astraflow/protocol";
import type { DoorEnvironment } from "../environment/door-environment.ts";
import { type CertificateSubject, parseCertificateSubject } from "./certificates.ts";
import { createSessionTokens, type KeyRing } from "./session-tokens.ts";
import type { TokenRegistry } from "./token-registry.ts";
import type { AuthenticatedWorker, PeerCertificate, WorkerAuthenticator, WorkerCredentials } from "./worker-authenticator.ts";

export interface WorkerAuthenticatorOptions {
  readonly tokens: TokenRegistry;
  readonly keys: KeyRing;
  /** Cluster and replica: session tokens of others are worth nothing here. */
  readonly audience: string;
  readonly sessionTokenMs: number;
  readonly environment: Pick<DoorEnvironment, "clock" | "ids">;
  /** Of the workers' certificates; null where none are asked for, and then they prove nothing. */
  readonly trustDomain?: string | null;
  /** Tenants whose workers must show a certificate, whatever else they bring. */
  readonly isCertificateRequired?: (tenant: string) => boolean;
}

export interface RefreshableAuthenticator extends WorkerAuthenticator {
  /** The book of tokens has changed: everybody who listens looks at their sessions again. */
  notifyTokensChanged(): void;
  /** An authority is not trusted any more: whoever came in by a certificate has to show it again, on a new connection. */
  distrustCertificates(): void;
}

export function createWorkerAuthenticator(options: WorkerAuthenticatorOptions): RefreshableAuthenticator {
  const { tokens, environment, trustDomain = null, isCertificateRequired = () => false } = options;
  const listeners = new Set<() => void>();
  const sessionTokens = createSessionTokens({ ...options, lifeMs: options.sessionTokenMs });
  let trustEpoch = 1;
  const notifyListeners = (): void => {
    for (const listener of [...listeners]) listener();
  };

  /** The worker a certificate proves, or the fault to answer. */
  const verifyCertificate = ({ tenant, instance, certificate }: WorkerCredentials): PeerCertificate | Fault => {
    if (trustDomain === null)
      return fault("E.AUTH.MTLS_REQUIRED", "a certificate is needed, and none can be shown on this address");
    if (certificate === null) return fault("E.AUTH.MTLS_REQUIRED", "show a client certificate on the TLS connection");
    const problem = certificate.problem ?? (certificate.expiresAt <= environment.clock.now() ? "it has expired" : null);
    const name = problem ?? parseCertificateSubject(certificate, trustDomain);
    if (typeof name === "string") return fault("E.AUTH.MTLS_REQUIRED", `the client certificate cannot be used: ${name}`);
    return isSubjectOf(name, tenant, instance)
      ? certificate
      : fault("E.SESSION.DENIED", "the client certificate is of another tenant or worker");
  };

  const authenticateByToken = ({
    token,
    tenant,
  }: WorkerCredentials): Pick<AuthenticatedWorker, "user" | "credential"> | Fault => {
    if (token === null || token === "") return fault("E.AUTH.MISSING_TOKEN", "auth.token is missing");
    const found = tokens.find(token, tenant);
    // A valid token of another tenant answers exactly as a wrong one: neither tells what exists.
    if (found === null) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid for this tenant");
    const { identity, credential } = found;
    if (!identity.grants.includes("worker")) return fault("E.SESSION.DENIED", "this token may not open worker sessions");
    return { user: identity.user, credential };
  };

  return {
    authenticate(credentials) {
      const { tenant, mode, certificate } = credentials;
      if (mode === "mtls" && trustDomain === null && !isCertificateRequired(tenant))
        return fault("E.AUTH.MODE_UNSUPPORTED", "auth mode mtls is not offered here; use token");
      // The demand comes first: who shows no certificate learns nothing about a token either.
      const certified = mode === "mtls" || isCertificateRequired(tenant) ? verifyCertificate(credentials) : null;
      if (certified instanceof Fault) return certified;
      const proof = mode === "token" ? authenticateByToken(credentials) : null;
      if (proof instanceof Fault) return proof;
      return {
        tenant,
        user: proof?.user ?? certified?.uris[0] ?? "",
        credential: formatCredential(proof?.credential ?? null, certified, trustEpoch),
        // One that was shown of the peer's own accord, trusted or not, still proves its key: the session stays with that key.
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

    issueSessionToken: sessionTokens.issue,
    readSessionToken: sessionTokens.read,
    notifyTokensChanged: notifyListeners,
    distrustCertificates() {
      trustEpoch += 1;
      notifyListeners();
    },
  };
}

const isSubjectOf = (name: CertificateSubject, tenant: string, instance: string): boolean =>
  name.tenant === tenant && (name.instance === null || name.instance === instance);

/** Everything that has to stay true of a session's proofs: the token's name, and the end and the trust of the certificate it needed. */
function formatCredential(token: string | null, certificate: PeerCertificate | null, trustEpoch: number): string {
  return [token ?? "", ...(certificate === null ? [] : [certificate.expiresAt, trustEpoch, certificate.thumbprint])].join("|");
}

function parseCredential(credential: string): { token: string | null; expiresAt: number | null; trust: number } | null {
  const [token = "", expiresAt, trustEpoch] = credential.split("|");
  if (expiresAt === undefined) return { token: token || null, expiresAt: null, trust: 0 };
  const read = { token: token || null, expiresAt: Number(expiresAt), trust: Number(trustEpoch) };
  return Number.isFinite(read.expiresAt) && Number.isInteger(read.trust) ? read : null;
}
