// The keeper of the session door: tokens, certificates and session tokens behind the one contract of gate.ts. When it is asked, and
// what becomes of a session that is no longer good, is the session door's business.

import { Fault, fault } from "@astraflow/protocol";
import { type CertifiedName, readCertifiedName } from "./certificates.ts";
import type { AdmittedWorker, Gate, ShownCertificate, WorkerClaim } from "./gate.ts";
import type { TokenBook } from "./identity.ts";
import type { Outside } from "./outside.ts";
import { createSessionTokens, type KeyRing } from "./session-tokens.ts";

export interface GateOptions {
  readonly tokens: TokenBook;
  readonly keys: KeyRing;
  /** Cluster and replica: session tokens of others are worth nothing here. */
  readonly audience: string;
  readonly sessionTokenMs: number;
  readonly outside: Pick<Outside, "clock" | "ids">;
  /** Of the workers' certificates; null where none are asked for, and then they prove nothing. */
  readonly trustDomain?: string | null;
  /** Tenants whose workers must show a certificate, whatever else they bring. */
  readonly isCertificateRequired?: (tenant: string) => boolean;
}

export interface GateKeeper extends Gate {
  /** The book of tokens has changed: everybody who listens looks at their sessions again. */
  changed(): void;
  /** An authority is not trusted any more: whoever came in by a certificate has to show it again, on a new connection. */
  distrust(): void;
}

export function createGate(options: GateOptions): GateKeeper {
  const { tokens, outside, trustDomain = null, isCertificateRequired = () => false } = options;
  const listeners = new Set<() => void>();
  const sessionTokens = createSessionTokens({ ...options, lifeMs: options.sessionTokenMs });
  let trust = 1;
  const tell = (): void => {
    for (const hear of [...listeners]) hear();
  };

  /** The worker a certificate proves, or the fault to answer. */
  const certify = ({ tenant, instance, certificate }: WorkerClaim): ShownCertificate | Fault => {
    if (trustDomain === null)
      return fault("E.AUTH.MTLS_REQUIRED", "a certificate is needed, and none can be shown on this address");
    if (certificate === null) return fault("E.AUTH.MTLS_REQUIRED", "show a client certificate on the TLS connection");
    const problem = certificate.problem ?? (certificate.expiresAt <= outside.clock.now() ? "it has expired" : null);
    const name = problem ?? readCertifiedName(certificate, trustDomain);
    if (typeof name === "string") return fault("E.AUTH.MTLS_REQUIRED", `the client certificate cannot be used: ${name}`);
    return isNamed(name, tenant, instance)
      ? certificate
      : fault("E.SESSION.DENIED", "the client certificate is of another tenant or worker");
  };

  const admitByToken = ({ token, tenant }: WorkerClaim): Pick<AdmittedWorker, "user" | "credential"> | Fault => {
    if (token === null || token === "") return fault("E.AUTH.MISSING_TOKEN", "auth.token is missing");
    const found = tokens.find(token, tenant);
    // A valid token of another tenant answers exactly as a wrong one: neither tells what exists.
    if (found === null) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid for this tenant");
    const { identity, credential } = found;
    if (!identity.grants.includes("worker")) return fault("E.SESSION.DENIED", "this token may not open worker sessions");
    return { user: identity.user, credential };
  };

  return {
    admit(claim) {
      const { tenant, mode, certificate } = claim;
      if (mode === "mtls" && trustDomain === null && !isCertificateRequired(tenant))
        return fault("E.AUTH.MODE_UNSUPPORTED", "auth mode mtls is not offered here; use token");
      // The demand comes first: who shows no certificate learns nothing about a token either.
      const certified = mode === "mtls" || isCertificateRequired(tenant) ? certify(claim) : null;
      if (certified instanceof Fault) return certified;
      const proof = mode === "token" ? admitByToken(claim) : null;
      if (proof instanceof Fault) return proof;
      return {
        tenant,
        user: proof?.user ?? certified?.uris[0] ?? "",
        credential: joinCredential(proof?.credential ?? null, certified, trust),
        // One that was shown of the peer's own accord, trusted or not, still proves its key: the session stays with that key.
        thumbprint: certificate?.thumbprint ?? null,
      };
    },

    isGood({ tenant, credential }) {
      const parts = readCredential(credential);
      if (parts === null || (parts.token === null && parts.expiresAt === null)) return false;
      if (parts.token !== null && !tokens.has(parts.token)) return false;
      if (parts.expiresAt === null) return !isCertificateRequired(tenant);
      return parts.trust === trust && parts.expiresAt > outside.clock.now();
    },

    onChange(hear) {
      listeners.add(hear);
      return () => void listeners.delete(hear);
    },

    issue: sessionTokens.issue,
    read: sessionTokens.read,
    changed: tell,
    distrust() {
      trust += 1;
      tell();
    },
  };
}

const isNamed = (name: CertifiedName, tenant: string, instance: string): boolean =>
  name.tenant === tenant && (name.instance === null || name.instance === instance);

/** Everything that has to stay true of a session's proofs: the token's name, and the end and the trust of the certificate it needed. */
function joinCredential(token: string | null, certificate: ShownCertificate | null, trust: number): string {
  return [token ?? "", ...(certificate === null ? [] : [certificate.expiresAt, trust, certificate.thumbprint])].join("|");
}

function readCredential(credential: string): { token: string | null; expiresAt: number | null; trust: number } | null {
  const [token = "", expiresAt, trust] = credential.split("|");
  if (expiresAt === undefined) return { token: token || null, expiresAt: null, trust: 0 };
  const read = { token: token || null, expiresAt: Number(expiresAt), trust: Number(trust) };
  return Number.isFinite(read.expiresAt) && Number.isInteger(read.trust) ? read : null;
}
