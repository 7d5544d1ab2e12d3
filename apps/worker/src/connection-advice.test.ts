import type { LinkLogEvent } from "@astraflow/runtime";
import { describe, expect, it } from "vitest";
import { adviseOnConnectionFailure } from "./connection-advice.ts";

const known = { urls: ["ws://127.0.0.1:1/ws/worker"], tenant: "acme", tokenFile: "w.token" };
const lost = (message: string): LinkLogEvent => ({ level: "warn", event: "lost", message });
const refused = (code: string): LinkLogEvent => ({ level: "warn", event: "refused", message: "no", details: { code } });

describe("advice on a session that did not come up", () => {
  it.each([
    ["self-signed certificate in certificate chain", "--ca FILE"],
    ["unable to verify the first certificate", "--ca FILE"],
    ["certificate has expired", "renew it"],
    ["Hostname/IP does not match certificate's altnames: Host: a", "a name in --url"],
    ["error:05800074:x509 certificate routines::key values mismatch", "not a pair"],
    ["write EPROTO error:0A00010B:SSL routines::wrong version number", "ws://"],
    ["socket hang up", "wss://"],
    ["Unexpected server response: 404", "/ws/worker"],
  ])("[W145] the advice on a failed connection names what to change for: %s", (reason, word) => {
    expect(adviseOnConnectionFailure(lost(reason), known)).toContain(word);
  });

  it("[W145] the advice names token file and tenant for a refused token, and the URI name for a required certificate", () => {
    expect(adviseOnConnectionFailure(refused("E.AUTH.INVALID_TOKEN"), known)).toMatch(/"acme" into w\.token/);
    expect(adviseOnConnectionFailure(refused("E.AUTH.INVALID_TOKEN"), { ...known, tokenFile: undefined })).toMatch(
      /^start it with the token/,
    );
    expect(adviseOnConnectionFailure(refused("E.AUTH.MTLS_REQUIRED"), known)).toMatch(
      /spiffe:\/\/TRUST-DOMAIN\/tenant\/acme.*--tls-cert/,
    );
  });

  it("[W145] there is no advice on a failed connection if the reason is clear by itself, or if a hang-up happened over TLS", () => {
    expect(adviseOnConnectionFailure(lost("connect ECONNREFUSED 127.0.0.1:1"), known)).toBeUndefined();
    expect(adviseOnConnectionFailure(lost("socket hang up"), { ...known, urls: ["wss://a.example/ws/worker"] })).toBeUndefined();
    expect(adviseOnConnectionFailure(refused("E.SESSION.DENIED"), known)).toBeUndefined();
    expect(
      adviseOnConnectionFailure({ level: "info", event: "ready", message: "self-signed certificate" }, known),
    ).toBeUndefined();
  });
});
