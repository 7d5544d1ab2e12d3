import { Fault } from "@astraflow/protocol";
import { allGrants } from "@astraflow/services";
import { createFakeEnvironment } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import type { PeerCertificate } from "./certificates.ts";
import { type TokenEntry, TokenRegistry } from "./token-registry.ts";
import {
  type AuthenticatedWorker,
  createWorkerAuthenticator,
  type WorkerAuthenticatorOptions,
  type WorkerCredentials,
} from "./worker-authenticator.ts";

const ann: TokenEntry = { token: "secret-a", tenant: "acme", user: "ann", grants: allGrants };
const viewer: TokenEntry = { token: "viewer", tenant: "acme", user: "vic", grants: ["view"] };

function createFixture(options: Partial<WorkerAuthenticatorOptions> = {}) {
  const environment = createFakeEnvironment();
  const tokens = new TokenRegistry([ann, viewer]);
  const keys = { keys: () => [{ kid: "k", secret: Buffer.from("a key of this test"), madeAt: 0 }] };
  const authenticator = createWorkerAuthenticator({
    tokens,
    keys,
    audience: "c/r",
    sessionTokenMs: 60_000,
    environment,
    trustDomain: "prod",
    ...options,
  });
  const shown = (more: Partial<PeerCertificate> = {}): PeerCertificate => ({
    thumbprint: "thumb",
    problem: null,
    uris: ["spiffe://prod/tenant/acme/worker/w-1"],
    expiresAt: environment.clock.now() + 60_000,
    ...more,
  });
  const credentials = (more: Partial<WorkerCredentials> = {}): WorkerCredentials => ({
    tenant: "acme",
    instance: "w-1",
    mode: "token",
    token: "secret-a",
    certificate: null,
    ...more,
  });
  const code = (more: Partial<WorkerCredentials>): string => {
    const answer = authenticator.authenticate(credentials(more));
    return answer instanceof Fault ? answer.code : "admitted";
  };
  const authenticated = (more: Partial<WorkerCredentials> = {}): AuthenticatedWorker => {
    const answer = authenticator.authenticate(credentials(more));
    if (answer instanceof Fault) throw answer;
    return answer;
  };
  return { authenticator, tokens, environment, shown, code, authenticated };
}

describe("the gate and tokens", () => {
  it("[D87] the worker authenticator admits a worker with a token of its tenant, not a missing, wrong, foreign or view-only one", () => {
    const { code, authenticated } = createFixture();

    expect(authenticated()).toMatchObject({ tenant: "acme", user: "ann", thumbprint: null });
    expect(code({ token: null })).toBe("E.AUTH.MISSING_TOKEN");
    expect(code({ token: "" })).toBe("E.AUTH.MISSING_TOKEN");
    expect(code({ token: "wrong" })).toBe("E.AUTH.INVALID_TOKEN");
    expect(code({ tenant: "other" })).toBe("E.AUTH.INVALID_TOKEN");
    expect(code({ token: "viewer" })).toBe("E.SESSION.DENIED");
  });

  it("[D88] the worker authenticator notifies of changes, and a session is valid exactly while its own token is in the registry", () => {
    const { authenticator, tokens, authenticated } = createFixture();
    const validities: boolean[] = [];
    const before = authenticated();
    const stop = authenticator.onChange(() => validities.push(authenticator.isStillValid(before)));

    tokens.replace([ann, { ...ann, token: "secret-b" }]);
    authenticator.notifyTokensChanged();
    const after = authenticated({ token: "secret-b" });
    tokens.replace([{ ...ann, token: "secret-b" }]);
    authenticator.notifyTokensChanged();
    stop();
    authenticator.notifyTokensChanged();

    expect(validities).toEqual([true, false]);
    expect(authenticator.isStillValid(after)).toBe(true);
    expect(authenticator.isStillValid({ ...after, credential: "" })).toBe(false);
    expect(authenticator.isStillValid({ ...after, credential: "|x|y|z" })).toBe(false);
  });
});

describe("the gate and certificates", () => {
  it("[D86] in mode mtls a trusted certificate for this worker or its tenant authenticates it, and its thumbprint is recorded", () => {
    const { authenticated, shown } = createFixture();

    const one = authenticated({ mode: "mtls", token: null, certificate: shown() });
    expect(one).toMatchObject({ tenant: "acme", user: "spiffe://prod/tenant/acme/worker/w-1", thumbprint: "thumb" });
    const any = authenticated({
      mode: "mtls",
      token: null,
      instance: "w-9",
      certificate: shown({ uris: ["spiffe://prod/tenant/acme"] }),
    });
    expect(any.thumbprint).toBe("thumb");
  });

  it("[D86] in mode mtls a missing, untrusted or expired certificate, or one with other names, is refused despite a valid token", () => {
    const { code, shown, environment } = createFixture();
    const mtls = (certificate: PeerCertificate | null, more: Partial<WorkerCredentials> = {}) =>
      code({ mode: "mtls", certificate, ...more });

    expect(mtls(null)).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ problem: "self-signed" }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ expiresAt: environment.clock.now() }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ expiresAt: Number.NaN, problem: "no dates" }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ uris: ["spiffe://test/tenant/acme"] }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ uris: [] }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown(), { tenant: "other" })).toBe("E.SESSION.DENIED");
    expect(mtls(shown(), { instance: "w-2" })).toBe("E.SESSION.DENIED");
  });

  it("[D87] the worker authenticator refuses mode mtls if no trust domain is configured", () => {
    const { code, shown } = createFixture({ trustDomain: null });

    expect(code({ mode: "mtls", token: null, certificate: shown() })).toBe("E.AUTH.MODE_UNSUPPORTED");
  });

  it("[D87] a worker of a tenant that requires certificates gets E.AUTH.MTLS_REQUIRED without a trusted one, whatever its token", () => {
    const { code, shown } = createFixture({ isCertificateRequired: (tenant) => tenant === "acme" });

    expect(code({})).toBe("E.AUTH.MTLS_REQUIRED");
    expect(code({ token: "wrong" })).toBe("E.AUTH.MTLS_REQUIRED");
    expect(code({ certificate: shown({ problem: "wrong authority" }) })).toBe("E.AUTH.MTLS_REQUIRED");
    expect(code({ certificate: shown({ uris: ["spiffe://test/tenant/acme"] }) })).toBe("E.AUTH.MTLS_REQUIRED");
    expect(code({ certificate: shown({ uris: ["spiffe://prod/tenant/other"] }) })).toBe("E.SESSION.DENIED");
    expect(code({ certificate: shown(), token: "wrong" })).toBe("E.AUTH.INVALID_TOKEN");
    expect(code({ certificate: shown() })).toBe("admitted");
    expect(code({ tenant: "other" })).toBe("E.AUTH.INVALID_TOKEN");
  });

  it("[D88] a worker authenticated by certificate stays valid until it expires or certificates are distrusted", () => {
    const { authenticator, environment, shown, authenticated } = createFixture();
    let changeCount = 0;
    authenticator.onChange(() => (changeCount += 1));
    const byCertificate = authenticated({ mode: "mtls", token: null, certificate: shown() });
    const byToken = authenticated({ certificate: shown() });

    environment.advance(59_999);
    expect([byCertificate, byToken].map(authenticator.isStillValid)).toEqual([true, true]);
    environment.advance(1);
    expect([byCertificate, byToken].map(authenticator.isStillValid)).toEqual([false, true]);

    const fresh = authenticated({ mode: "mtls", token: null, certificate: shown() });
    expect(authenticator.isStillValid(fresh)).toBe(true);
    authenticator.distrustCertificates();
    expect([authenticator.isStillValid(fresh), authenticator.isStillValid(byToken), changeCount]).toEqual([false, true, 1]);
    expect(authenticator.isStillValid(authenticated({ mode: "mtls", token: null, certificate: shown() }))).toBe(true);
  });

  it("[D88] with a token and a required certificate, a worker stays valid only while both are valid", () => {
    const { authenticator, tokens, environment, shown, authenticated } = createFixture({ isCertificateRequired: () => true });
    const both = authenticated({ certificate: shown() });
    const shorter = authenticated({ certificate: shown({ expiresAt: environment.clock.now() + 10 }) });

    environment.advance(10);
    expect([both, shorter].map(authenticator.isStillValid)).toEqual([true, false]);
    tokens.replace([viewer]);
    expect(authenticator.isStillValid(both)).toBe(false);
  });

  it("[D82] the worker authenticator issues a session token bound to the certificate's thumbprint, and refuses an altered one", () => {
    const { authenticator } = createFixture();

    const { token, jti } = authenticator.issueSessionToken({
      sid: "s",
      wid: "w-1",
      tenant: "acme",
      dialect: "v2",
      thumbprint: "thumb",
    });

    expect(authenticator.readSessionToken(token)).toMatchObject({ jti, cnf: "thumb", aud: "c/r" });
    expect(authenticator.readSessionToken(`${token}x`)).toMatchObject({ code: "E.SESSION.INVALID_TOKEN" });
  });
});
