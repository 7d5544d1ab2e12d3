import { Fault } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import type { AdmittedWorker, ShownCertificate, WorkerClaim } from "./gate.ts";
import { createGate, type GateOptions } from "./gate-keeper.ts";
import { allGrants, createTokenBook, type TokenEntry } from "./identity.ts";
import { createFakeOutside } from "./testing/fake-outside.ts";

const ann: TokenEntry = { token: "secret-a", tenant: "acme", user: "ann", grants: allGrants };
const viewer: TokenEntry = { token: "viewer", tenant: "acme", user: "vic", grants: ["view"] };

function stage(options: Partial<GateOptions> = {}) {
  const outside = createFakeOutside();
  const tokens = createTokenBook([ann, viewer]);
  const keys = { keys: () => [{ kid: "k", secret: Buffer.from("a key of this test"), madeAt: 0 }] };
  const gate = createGate({ tokens, keys, audience: "c/r", sessionTokenMs: 60_000, outside, trustDomain: "prod", ...options });
  const shown = (more: Partial<ShownCertificate> = {}): ShownCertificate => ({
    thumbprint: "thumb",
    problem: null,
    uris: ["spiffe://prod/tenant/acme/worker/w-1"],
    expiresAt: outside.clock.now() + 60_000,
    ...more,
  });
  const claim = (more: Partial<WorkerClaim> = {}): WorkerClaim => ({
    tenant: "acme",
    instance: "w-1",
    mode: "token",
    token: "secret-a",
    certificate: null,
    ...more,
  });
  const code = (more: Partial<WorkerClaim>): string => {
    const answer = gate.admit(claim(more));
    return answer instanceof Fault ? answer.code : "admitted";
  };
  const admitted = (more: Partial<WorkerClaim> = {}): AdmittedWorker => {
    const answer = gate.admit(claim(more));
    if (answer instanceof Fault) throw answer;
    return answer;
  };
  return { gate, tokens, outside, shown, code, admitted };
}

describe("the gate and tokens", () => {
  it("[D87] lets a worker in by a token of its tenant, and nobody by none, a wrong one, another tenant's or one for readers", () => {
    const { code, admitted } = stage();

    expect(admitted()).toMatchObject({ tenant: "acme", user: "ann", thumbprint: null });
    expect(code({ token: null })).toBe("E.AUTH.MISSING_TOKEN");
    expect(code({ token: "" })).toBe("E.AUTH.MISSING_TOKEN");
    expect(code({ token: "wrong" })).toBe("E.AUTH.INVALID_TOKEN");
    expect(code({ tenant: "other" })).toBe("E.AUTH.INVALID_TOKEN");
    expect(code({ token: "viewer" })).toBe("E.SESSION.DENIED");
  });

  it("[D88] tells its listeners of a change, and a session is good exactly as long as its own token is in the book", () => {
    const { gate, tokens, admitted } = stage();
    const heard: boolean[] = [];
    const before = admitted();
    const stop = gate.onChange(() => heard.push(gate.isGood(before)));

    tokens.replace([ann, { ...ann, token: "secret-b" }]);
    gate.changed();
    const after = admitted({ token: "secret-b" });
    tokens.replace([{ ...ann, token: "secret-b" }]);
    gate.changed();
    stop();
    gate.changed();

    expect(heard).toEqual([true, false]);
    expect(gate.isGood(after)).toBe(true);
    expect(gate.isGood({ ...after, credential: "" })).toBe(false);
    expect(gate.isGood({ ...after, credential: "|x|y|z" })).toBe(false);
  });
});

describe("the gate and certificates", () => {
  it("[D86] in mode mtls a trusted certificate that names this worker or its tenant is proof, and its key is noted", () => {
    const { admitted, shown } = stage();

    const one = admitted({ mode: "mtls", token: null, certificate: shown() });
    expect(one).toMatchObject({ tenant: "acme", user: "spiffe://prod/tenant/acme/worker/w-1", thumbprint: "thumb" });
    const any = admitted({
      mode: "mtls",
      token: null,
      instance: "w-9",
      certificate: shown({ uris: ["spiffe://prod/tenant/acme"] }),
    });
    expect(any.thumbprint).toBe("thumb");
  });

  it("[D86] in mode mtls no certificate, an untrusted or expired one, other names, and a token instead are refused", () => {
    const { code, shown, outside } = stage();
    const mtls = (certificate: ShownCertificate | null, more: Partial<WorkerClaim> = {}) =>
      code({ mode: "mtls", certificate, ...more });

    expect(mtls(null)).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ problem: "self-signed" }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ expiresAt: outside.clock.now() }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ expiresAt: Number.NaN, problem: "no dates" }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ uris: ["spiffe://test/tenant/acme"] }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown({ uris: [] }))).toBe("E.AUTH.MTLS_REQUIRED");
    expect(mtls(shown(), { tenant: "other" })).toBe("E.SESSION.DENIED");
    expect(mtls(shown(), { instance: "w-2" })).toBe("E.SESSION.DENIED");
  });

  it("[D87] where certificates are not asked for, mode mtls is not offered", () => {
    const { code, shown } = stage({ trustDomain: null });

    expect(code({ mode: "mtls", token: null, certificate: shown() })).toBe("E.AUTH.MODE_UNSUPPORTED");
  });

  it("[D87] a tenant that demands a certificate gets E.AUTH.MTLS_REQUIRED without a trusted one, whatever the mode and the token", () => {
    const { code, shown } = stage({ isCertificateRequired: (tenant) => tenant === "acme" });

    expect(code({})).toBe("E.AUTH.MTLS_REQUIRED");
    expect(code({ token: "wrong" })).toBe("E.AUTH.MTLS_REQUIRED");
    expect(code({ certificate: shown({ problem: "wrong authority" }) })).toBe("E.AUTH.MTLS_REQUIRED");
    expect(code({ certificate: shown({ uris: ["spiffe://test/tenant/acme"] }) })).toBe("E.AUTH.MTLS_REQUIRED");
    expect(code({ certificate: shown({ uris: ["spiffe://prod/tenant/other"] }) })).toBe("E.SESSION.DENIED");
    expect(code({ certificate: shown(), token: "wrong" })).toBe("E.AUTH.INVALID_TOKEN");
    expect(code({ certificate: shown() })).toBe("admitted");
    expect(code({ tenant: "other" })).toBe("E.AUTH.INVALID_TOKEN");
  });

  it("[D88] who came in by a certificate is good until it ends, or until its authority is no longer trusted", () => {
    const { gate, outside, shown, admitted } = stage();
    let heard = 0;
    gate.onChange(() => (heard += 1));
    const byCertificate = admitted({ mode: "mtls", token: null, certificate: shown() });
    const byToken = admitted({ certificate: shown() });

    outside.advance(59_999);
    expect([byCertificate, byToken].map(gate.isGood)).toEqual([true, true]);
    outside.advance(1);
    expect([byCertificate, byToken].map(gate.isGood)).toEqual([false, true]);

    const fresh = admitted({ mode: "mtls", token: null, certificate: shown() });
    expect(gate.isGood(fresh)).toBe(true);
    gate.distrust();
    expect([gate.isGood(fresh), gate.isGood(byToken), heard]).toEqual([false, true, 1]);
    expect(gate.isGood(admitted({ mode: "mtls", token: null, certificate: shown() }))).toBe(true);
  });

  it("[D88] with a token and a certificate that is demanded, both must stay good", () => {
    const { gate, tokens, outside, shown, admitted } = stage({ isCertificateRequired: () => true });
    const both = admitted({ certificate: shown() });
    const shorter = admitted({ certificate: shown({ expiresAt: outside.clock.now() + 10 }) });

    outside.advance(10);
    expect([both, shorter].map(gate.isGood)).toEqual([true, false]);
    tokens.replace([viewer]);
    expect(gate.isGood(both)).toBe(false);
  });

  it("[D82] a session token is bound to the key that was shown, and read back under the gate's own keys only", () => {
    const { gate } = stage();

    const { token, jti } = gate.issue({ sid: "s", wid: "w-1", tenant: "acme", dialect: "v2", thumbprint: "thumb" });

    expect(gate.read(token)).toMatchObject({ jti, cnf: "thumb", aud: "c/r" });
    expect(gate.read(`${token}x`)).toMatchObject({ code: "E.SESSION.INVALID_TOKEN" });
  });
});
