import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { WebSocketServer } from "ws";
import { type TlsCredentials, WebSocketDialer } from "./websocket-dialer.ts";

// Certificates are made by the openssl program, which every system that runs TLS can install (package `openssl`).
const folder = mkdtempSync(path.join(tmpdir(), "dial-tls-"));
const at = (name: string) => path.join(folder, name);
const read = (name: string) => readFileSync(at(name), "utf8");
const openssl = (...words: string[]) => execFileSync("openssl", words, { cwd: folder, stdio: "pipe" });

function authority(name: string): void {
  openssl(
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-days",
    "2",
    "-subj",
    `/CN=${name}`,
    "-keyout",
    `${name}.key`,
    "-out",
    `${name}.pem`,
  );
}

function certificate(name: string, names: string, by = "ca"): void {
  openssl(
    "req",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-subj",
    `/CN=${name}`,
    "-keyout",
    `${name}.key`,
    "-out",
    `${name}.csr`,
  );
  writeFileSync(at(`${name}.ext`), `subjectAltName=${names}\n`);
  openssl(
    "x509",
    "-req",
    "-in",
    `${name}.csr`,
    "-CA",
    `${by}.pem`,
    "-CAkey",
    `${by}.key`,
    "-CAcreateserial",
    "-days",
    "2",
    "-extfile",
    `${name}.ext`,
    "-out",
    `${name}.pem`,
  );
}

beforeAll(() => {
  authority("ca");
  authority("stranger");
  certificate("server", "IP:127.0.0.1");
  certificate("elsewhere", "DNS:elsewhere.example");
  certificate("w-1", "URI:spiffe://house/tenant/acme/worker/w-1");
  certificate("w-2", "URI:spiffe://house/tenant/acme/worker/w-2");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const endings: (() => void)[] = [];
afterEach(() => {
  for (const end of endings.splice(0)) end();
});

/** A door with TLS that notes which certificates it was shown. */
async function door(server = "server") {
  const web = createServer({
    key: read(`${server}.key`),
    cert: read(`${server}.pem`),
    ca: read("ca.pem"),
    requestCert: true,
    rejectUnauthorized: false,
  });
  const shown: (string | undefined)[] = [];
  new WebSocketServer({ server: web }).on("connection", (_, request) => {
    shown.push((request.socket as TLSSocket).getPeerCertificate().subject?.CN as string | undefined);
  });
  web.listen(0, "127.0.0.1");
  await once(web, "listening");
  endings.push(() => {
    web.closeAllConnections();
    web.close();
  });
  return { url: `wss://127.0.0.1:${(web.address() as AddressInfo).port}/ws/worker`, shown };
}

/** Dials and returns the result. */
function caller(urls: readonly string[], tls: () => TlsCredentials) {
  let onResult: (result: string) => void = () => {};
  const dialer = new WebSocketDialer(
    urls,
    { connectionOpened: () => onResult("opened"), messageReceived: () => {}, connectionLost: (reason) => onResult(reason) },
    {
      after(ms, call) {
        const timer = setTimeout(call, ms);
        return () => clearTimeout(timer);
      },
      defer: setImmediate,
    },
    { tls },
  );
  endings.push(() => dialer.closeConnection(1000, "done"));
  return {
    dialler: dialer,
    dial: (target: "same" | "next" = "same") =>
      new Promise<string>((resolve) => {
        onResult = resolve;
        dialer.dial(target);
      }),
  };
}

describe("dialling over TLS", () => {
  it("[W140] the TLS dialer trusts only the authorities it is given, and no server whose certificate is not for its address", async () => {
    const [good, wrong] = [await door(), await door("elsewhere")];

    expect(await caller([good.url], () => ({ ca: read("ca.pem") })).dial()).toBe("opened");
    expect(await caller([good.url], () => ({})).dial()).toMatch(/certificate/);
    expect(await caller([good.url], () => ({ ca: read("stranger.pem") })).dial()).toMatch(/certificate/);
    expect(await caller([wrong.url], () => ({ ca: read("ca.pem") })).dial()).toMatch(
      /IP: 127\.0\.0\.1 is not in the cert's list/,
    );
  });

  it("[W141] the TLS dialer presents its own certificate, and from the next dial on the one that replaced it", async () => {
    const { url, shown } = await door();
    const own = (kind: "pem" | "key", from: string) => copyFileSync(at(`${from}.${kind}`), at(`own.${kind}`));
    const call = caller([url], () => ({ ca: read("ca.pem"), cert: read("own.pem"), key: read("own.key") }));
    for (const worker of ["w-1", "w-2"]) {
      own("pem", worker);
      own("key", worker);

      expect(await call.dial()).toBe("opened");
      call.dialler.closeConnection(1000, "next");
    }

    expect(shown).toEqual(["w-1", "w-2"]);
  });

  it("[W141] a TLS file that is unreadable or invalid fails the dial with its reason, and a later dial succeeds", async () => {
    const { url } = await door();
    let isMissing = true;
    const call = caller([url], () => {
      if (isMissing) throw new Error("the ca file for TLS cannot be read: ENOENT");
      return { ca: read("ca.pem"), cert: "no certificate", key: "no key" };
    });

    expect(await call.dial()).toBe("the ca file for TLS cannot be read: ENOENT");
    isMissing = false;
    expect(await call.dial()).toMatch(/PEM/i);
    expect(await caller([url], () => ({ ca: read("ca.pem") })).dial()).toBe("opened");
  });

  it("[W143] the TLS dialer dials the same address again or the next one, as requested", async () => {
    const [one, two] = [await door(), await door()];
    const call = caller([one.url, two.url], () => ({ ca: read("ca.pem") }));
    const seen: string[] = [];
    for (const target of ["next", "same", "next", "same", "next"] as const) {
      const before = one.shown.length;
      await call.dial(target);
      seen.push(one.shown.length > before ? "one" : "two");
      call.dialler.closeConnection(1000, "again");
    }

    expect(seen).toEqual(["one", "one", "two", "two", "one"]);
  });
});
