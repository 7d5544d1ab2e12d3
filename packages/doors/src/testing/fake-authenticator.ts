// An authenticator that a test controls: it accepts the given tokens, remembers every session token, and revokes credentials on demand.

import { fault } from "@astraflow/protocol";
import type { AuthenticateToken } from "../auth/token-registry.ts";
import type { AuthenticatedWorker, WorkerAuthenticator } from "../auth/worker-authenticator.ts";
import type { SessionTokenClaims } from "../auth/worker-session-tokens.ts";

export interface FakeAuthenticator extends WorkerAuthenticator {
  /** Everything issued, oldest first; the token of the n-th is `session-token-<n>`. */
  readonly issued: SessionTokenClaims[];
  /** The credential of this user is no longer valid. */
  revoke(user: string): void;
  /** Workers of this tenant need a client certificate. */
  requireCertificate(tenant: string): void;
  /** The session tokens issued so far are no longer valid. */
  expireSessionTokens(): void;
}

export interface FakeAuthenticatorOptions {
  readonly authenticate: AuthenticateToken;
  readonly now: () => number;
  readonly tokenMs?: number;
}

export function createFakeAuthenticator({ authenticate, now, tokenMs = 3_600_000 }: FakeAuthenticatorOptions): FakeAuthenticator {
  const issued: SessionTokenClaims[] = [];
  const revoked = new Set<string>();
  const strict = new Set<string>();
  const listeners = new Set<() => void>();
  let expired = 0;
  return {
    issued,
    revoke(user) {
      revoked.add(user);
      for (const listener of listeners) listener();
    },
    requireCertificate: (tenant) => void strict.add(tenant),
    expireSessionTokens() {
      expired = issued.length;
    },
    authenticate({ tenant, mode, token, certificate }) {
      if ((mode === "mtls" || strict.has(tenant)) && (certificate === null || certificate.problem !== null))
        return fault("E.AUTH.MTLS_REQUIRED", "a trusted certificate is needed");
      const thumbprint = certificate?.thumbprint ?? null;
      if (mode === "mtls") return { tenant, user: "certificate", credential: "certificate", thumbprint };
      if (token === null || token === "") return fault("E.AUTH.MISSING_TOKEN", "auth.token is missing");
      const identity = authenticate(token, tenant);
      if (identity === null || revoked.has(identity.user)) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid");
      if (!identity.grants.includes("worker")) return fault("E.SESSION.DENIED", "this token may not open worker sessions");
      return { tenant: identity.tenant, user: identity.user, credential: identity.user, thumbprint };
    },
    isStillValid: (admitted: AuthenticatedWorker) => !revoked.has(admitted.credential),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    issueSessionToken({ sid, wid, tenant, dialect, thumbprint }) {
      const iat = Math.floor(now() / 1000);
      const jti = `jti-${issued.length}`;
      const times = { iat, exp: iat + tokenMs / 1000 };
      issued.push({
        sid,
        wid,
        tenant,
        dialect,
        jti,
        kid: "k",
        aud: "test",
        ...times,
        ...(thumbprint !== null && { cnf: thumbprint }),
      });
      return { token: `session-token-${issued.length - 1}`, jti, expiresAt: now() + tokenMs };
    },
    readSessionToken(token) {
      const at = Number(/^session-token-(\d+)$/.exec(token)?.[1] ?? "NaN");
      const claims = at >= expired ? issued[at] : undefined;
      return claims ?? fault("E.SESSION.INVALID_TOKEN", "the session token is wrong or expired");
    },
  };
}
