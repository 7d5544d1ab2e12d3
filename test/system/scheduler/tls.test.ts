import { once } from "node:events";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { connect as connectPlain } from "node:net";
import { join as joinPath } from "node:path";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { beforeAll, describe, expect, it } from "vitest";
import {
  type CertificateAuthority,
  type CertificateFiles,
  loopbackNames,
  makeAuthority,
  makeSelfSigned,
} from "../harness/certificates.ts";
import { startScheduler, type TestScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, runAstra, spawnAstra } from "../harness/processes.ts";
import {
  type HandshakeAuth,
  handshakeAndRegister,
  openRawWorker,
  type RawWorkerSocket,
  sendHandshake,
} from "../harness/raw-worker-socket.ts";

const domain = "prod.test";
const spiffeName = (rest: string): string => `URI:spiffe://${domain}/${rest}`;
const byCertificate: HandshakeAuth = { mode: "mtls", fingerprint: "whatever the worker says" };
const byToken: HandshakeAuth = { mode: "token", token: "dev-token" };

interface TlsInstallation {
  readonly scheduler: TestScheduler;
  readonly authority: CertificateAuthority;
  /** Files that the scheduler reads, and that tests change. */
  readonly files: { cert: string; key: string; ca: string };
}

async function startWithTls(tenants: object = {}): Promise<TlsInstallation> {
  const authority = makeAuthority();
  const own = authority.sign("server", { names: loopbackNames, use: "serverAuth" });
  const folder = makeTemporaryFolder();
  const files = { cert: joinPath(folder, "cert"), key: joinPath(folder, "key"), ca: joinPath(folder, "ca") };
  copyFileSync(own.certFile, files.cert);
  copyFileSync(own.keyFile, files.key);
  copyFileSync(authority.certFile, files.ca);
  const config = joinPath(folder, "config.json");
  writeFileSync(config, JSON.stringify({ tenants }));
  const tls = ["--tls-cert", files.cert, "--tls-key", files.key, "--client-ca", files.ca, "--trust-domain", domain];
  const scheduler = await startScheduler({ flags: [...tls, "--config", config] });
  return { scheduler, authority, files };
}

const clientTlsOptions = (authority: CertificateFiles, pair: CertificateFiles | null): ConnectionOptions => ({
  ca: authority.cert,
  ...(pair !== null && { cert: pair.cert, key: pair.key }),
});

/** The code a peer receives before it is disconnected. */
async function refusalCodeOf(socket: RawWorkerSocket): Promise<unknown> {
  const reset = await socket.nextFrame("control.reset");
  await socket.closed;
  return reset.payload["code"];
}

/** One TLS connection to the scheduler, looked at and ended. */
async function tlsHandshake<T>(scheduler: TestScheduler, options: ConnectionOptions, look: (socket: TLSSocket) => T): Promise<T> {
  const { hostname: host, port } = new URL(scheduler.http);
  return new Promise<T>((resolve, reject) => {
    const socket = connect({ host, port: Number(port), ...options }, () => {
      resolve(look(socket));
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

function httpsStatus(url: string, ca: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request(url, { ca, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on("error", reject)
      .end();
  });
}

describe("a scheduler with TLS", () => {
  it("[O31] a scheduler with TLS has https and wss in its ready line, serves both on one port, and nothing in plain text", async () => {
    const { scheduler, authority } = await startWithTls();

    expect(scheduler.http).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    expect(scheduler.ws).toBe(`wss://${scheduler.listen}/ws/worker`);
    for (const path of ["/healthz", "/readyz", "/api/v1/openapi.json"]) {
      const status = await httpsStatus(`${scheduler.http}${path}`, authority.cert);
      expect([path, status]).not.toEqual([path, undefined]);
      expect(status).toBeLessThan(500);
    }
    await expect(fetch(scheduler.http.replace("https:", "http:"))).rejects.toThrow("fetch failed");
    const worker = await openRawWorker(scheduler.ws, { tls: clientTlsOptions(authority, null) });
    expect((await handshakeAndRegister(worker, byToken)).payload["resumed"]).toBe(false);
  });

  it("[O31] a scheduler with TLS accepts TLS 1.2 and 1.3 with authenticated ciphers, and nothing weaker", async () => {
    const { scheduler, authority } = await startWithTls();
    const old = { ca: authority.cert, ciphers: "DEFAULT@SECLEVEL=0" };
    const speak = (options: ConnectionOptions) =>
      tlsHandshake(scheduler, { ca: authority.cert, ...options }, (socket) => socket.getProtocol());

    expect(await speak({})).toBe("TLSv1.3");
    expect(await speak({ maxVersion: "TLSv1.2" })).toBe("TLSv1.2");
    await expect(speak({ ...old, minVersion: "TLSv1.1", maxVersion: "TLSv1.1" })).rejects.toThrow(/protocol version/);
    await expect(speak({ ...old, minVersion: "TLSv1", maxVersion: "TLSv1" })).rejects.toThrow(/protocol version/);
    await expect(speak({ maxVersion: "TLSv1.2", ciphers: "ECDHE-ECDSA-AES128-SHA" })).rejects.toThrow(/handshake failure/);
  });

  it("[O12] a scheduler with TLS shuts down in order even while a client has connected and sends nothing", async () => {
    const { scheduler } = await startWithTls();
    const { hostname, port } = new URL(scheduler.http);
    const mute = connectPlain({ host: hostname, port: Number(port) });
    mute.on("error", () => mute.destroy());
    await once(mute, "connect");
    expect(await tlsHandshake(scheduler, { rejectUnauthorized: false }, (socket) => socket.encrypted)).toBe(true);

    scheduler.process.kill("SIGTERM");

    expect(await scheduler.process.ended).toEqual({ code: 0, signal: null });
    expect(scheduler.process.stderr()).not.toContain("scheduler.grace.over");
  });

  it("[L3] the CLI trusts the certificate authority it is given, and without one explains what to do", async () => {
    const { scheduler, authority } = await startWithTls();

    const blind = await runAstra(["workers", "list", "--url", scheduler.http]);
    expect(blind.code).not.toBe(0);
    expect(blind.stderr).toMatch(/certificate of .* could not be verified .*--ca FILE/);
    expect(await runAstra(["workers", "list", "--url", scheduler.http, "--ca", authority.certFile])).toMatchObject({ code: 0 });
    expect(await runAstra(["workers", "list", "--url", scheduler.http], { ASTRA_CA: authority.certFile })).toMatchObject({
      code: 0,
    });
    expect((await runAstra(["workers", "list", "--url", scheduler.http, "--ca", makeAuthority().certFile])).code).not.toBe(0);
  });

  it("[O31] a scheduler refuses to start with TLS files that cannot be used and explains what is wrong with them", async () => {
    const authority = makeAuthority();
    const own = authority.sign("server", { names: loopbackNames });
    const other = authority.sign("other", { names: loopbackNames });
    const folder = makeTemporaryFolder();
    const start = (...flags: string[]) =>
      runAstra(["scheduler", "--dev", "--listen", "127.0.0.1:0", "--data-dir", joinPath(folder, "data"), ...flags]);
    const tls = ["--tls-cert", own.certFile, "--tls-key", own.keyFile];

    const absent = await start("--tls-cert", "/nowhere/cert.pem", "--tls-key", own.keyFile);
    expect(absent).toMatchObject({ code: 2, stdout: "" });
    expect(absent.stderr).toMatch(/--tls-cert cannot be read .*\/nowhere\/cert\.pem/);
    const mixed = await start("--tls-cert", own.certFile, "--tls-key", other.keyFile);
    expect(mixed).toMatchObject({ code: 2, stdout: "" });
    expect(mixed.stderr).toContain("cannot be used together");
    const empty = await start("--tls-cert", own.keyFile, "--tls-key", own.keyFile);
    expect(empty.stderr).toContain("contains no PEM certificate");
    const leaf = await start(...tls, "--client-ca", other.certFile, "--trust-domain", domain);
    expect(leaf.stderr).toContain("which is not a CA certificate");
    expect([mixed, empty, leaf].map(({ stderr }) => stderr.includes("PRIVATE KEY"))).toEqual([false, false, false]);
  });
});

describe("workers with certificates", () => {
  let installation: TlsInstallation;
  let wrong: Record<string, CertificateFiles | null>;
  const worker = { names: [spiffeName("tenant/default/worker/w-1")], use: "clientAuth" } as const;
  beforeAll(() => {
    const authority = makeAuthority("another");
    wrong = { "wrong authority": authority.sign("w-1", worker), none: null, "self-signed": makeSelfSigned("w-1", worker) };
  });

  async function open(): Promise<void> {
    installation = await startWithTls({ strict: { requireCertificate: true }, default: { requireCertificate: true } });
  }
  const dial = (pair: CertificateFiles | null, instance = "w-1") =>
    openRawWorker(installation.scheduler.ws, { tls: clientTlsOptions(installation.authority, pair), instance });

  it("[D89] a worker is admitted by a trusted certificate with its name, and by none that is missing, foreign, expired, a CA's or for other uses", async () => {
    await open();
    const { authority } = installation;
    const bad: Record<string, CertificateFiles | null> = {
      ...wrong,
      expired: authority.sign("w-1", { ...worker, isExpired: true }),
      "an authority": authority.sign("w-1", { ...worker, isAuthority: true }),
      "a server's": authority.sign("w-1", { ...worker, use: "serverAuth" }),
      "another trust domain": authority.sign("w-1", { ...worker, names: ["URI:spiffe://test.test/tenant/default/worker/w-1"] }),
      "two names": authority.sign("w-1", { ...worker, names: [...worker.names, spiffeName("tenant/default")] }),
      "no name": authority.sign("w-1", { ...worker, names: [] }),
    };

    const codes: Record<string, unknown> = {};
    for (const [what, pair] of Object.entries(bad)) {
      for (const auth of [byCertificate, byToken]) {
        const socket = await dial(pair);
        sendHandshake(socket, auth);
        codes[`${what}, ${auth.mode}`] = await refusalCodeOf(socket);
      }
    }
    const good = await handshakeAndRegister(await dial(authority.sign("w-1", worker)), byCertificate);
    const ofTenant = authority.sign("any", { ...worker, names: [spiffeName("tenant/default")] });
    const second = await handshakeAndRegister(await dial(ofTenant, "w-2"), byCertificate, "w-2");

    expect(new Set(Object.values(codes))).toEqual(new Set(["E.AUTH.MTLS_REQUIRED"]));
    expect(Object.keys(codes)).toHaveLength(18);
    expect([good.payload["worker_instance_id"], second.payload["worker_instance_id"]]).toEqual(["w-1", "w-2"]);
    const thief = await dial(authority.sign("w-1", worker), "w-3");
    sendHandshake(thief, byCertificate, "w-3");
    expect(await refusalCodeOf(thief)).toBe("E.SESSION.DENIED");
  });

  it("[D89] astra worker joins with its certificate alone, and without one is refused with E.AUTH.MTLS_REQUIRED", async () => {
    await open();
    const { scheduler, authority } = installation;
    const own = authority.sign("any", { ...worker, names: [spiffeName("tenant/default")] });
    const place = () => [
      "--data-dir",
      joinPath(makeTemporaryFolder(), "worker"),
      "--url",
      scheduler.ws,
      "--ca",
      authority.certFile,
    ];

    const good = spawnAstra(["worker", ...place(), "--tls-cert", own.certFile, "--tls-key", own.keyFile]);
    await good.ready();
    const bare = spawnAstra(["worker", ...place()], { ASTRA_WORKER_AUTH_TOKEN: "dev-token" });
    await pollUntil("a word about the certificate", async () => bare.stderr().includes("E.AUTH.MTLS_REQUIRED"));

    expect(bare.stdout()).not.toContain(`"ready":true`);
  });

  it("[D90] a worker resumes with the certificate key it began with; the same session token with another key is refused", async () => {
    await open();
    const [mine, stolen] = [installation.authority.sign("w-1", worker), installation.authority.sign("w-1", worker)];
    const first = await dial(mine);
    const { payload } = await handshakeAndRegister(first, byCertificate);
    const resume = { session_id: payload["session_id"], session_token: payload["session_token"], last_seen_seq: -1 };
    first.terminate();

    const thief = await dial(stolen);
    thief.sendFrame("control.resume", resume);
    expect(await refusalCodeOf(thief)).toBe("E.SESSION.INVALID_TOKEN");
    const owner = await dial(mine);
    owner.sendFrame("control.resume", resume);

    expect((await owner.nextFrame("control.session.accept")).payload).toMatchObject({
      resumed: true,
      session_id: payload["session_id"],
    });
    const replay = await dial(mine);
    replay.sendFrame("control.resume", resume);
    expect(await refusalCodeOf(replay)).toBe("E.SESSION.INVALID_TOKEN");
  });

  it("[O35] changed certificate files are used, broken ones are reported and change nothing, and live sessions continue", async () => {
    await open();
    const { scheduler, authority, files } = installation;
    const serial = () => tlsHandshake(scheduler, { ca: authority.cert }, (socket) => socket.getPeerCertificate().serialNumber);
    const live = await dial(authority.sign("w-1", worker));
    await handshakeAndRegister(live, byCertificate);
    const before = await serial();

    writeFileSync(files.cert, "-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n");
    await pollUntil("a word about the broken file", async () => scheduler.process.stderr().includes("tls.kept"));
    expect(await serial()).toBe(before);

    const fresh = authority.sign("server", { names: loopbackNames });
    copyFileSync(fresh.keyFile, files.key);
    copyFileSync(fresh.certFile, files.cert);
    await pollUntil("the new certificate", async () => (await serial()) !== before);

    expect(live.isOpen()).toBe(true);
    expect(scheduler.process.stderr()).not.toContain(readFileSync(files.key, "utf8").split("\n")[1]);
  });

  it("[O35] adding a second certificate authority disturbs no session; removing the first ends the sessions that relied on it", async () => {
    await open();
    const { authority, files } = installation;
    const next = makeAuthority("next");
    const old = authority.sign("w-1", worker);
    const first = await dial(old);
    await handshakeAndRegister(first, byCertificate);

    writeFileSync(files.ca, authority.cert + next.cert);
    const newcomer = next.sign("w-2", { ...worker, names: [spiffeName("tenant/default")] });
    const second = await pollUntil("a session under the second authority", async () => {
      const socket = await dial(newcomer, "w-2");
      await handshakeAndRegister(socket, byCertificate, "w-2");
      return socket;
    });
    expect([first, second].map((one) => one.isOpen())).toEqual([true, true]);

    writeFileSync(files.ca, next.cert);
    expect(await refusalCodeOf(first)).toBe("E.AUTH.INVALID_TOKEN");
    const again = await dial(old);
    sendHandshake(again, byCertificate);
    expect(await refusalCodeOf(again)).toBe("E.AUTH.MTLS_REQUIRED");
  });

  it("[O35] the scheduler resumes no TLS session, so that every connection presents its certificate again", async () => {
    await open();
    const { scheduler, authority } = installation;
    const { hostname: host, port } = new URL(scheduler.http);
    const tickets: Buffer[] = [];
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
      const socket = connect({ host, port: Number(port), ca: authority.cert, maxVersion });
      socket.on("session", (ticket) => tickets.push(ticket));
      // An answer proves that whatever comes after the handshake has come.
      await new Promise<void>((resolve) => {
        socket.once("data", () => resolve());
        socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
      });
      socket.destroy();
    }

    const reused = await Promise.all(
      tickets.map((session) => tlsHandshake(scheduler, { ca: authority.cert, session }, (socket) => socket.isSessionReused())),
    );
    expect(reused).not.toContain(true);
  });
});
