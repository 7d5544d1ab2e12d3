import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { SseTestReader } from "@astraflow/protocol/testing";
import { describe, expect, it } from "vitest";
import { type CertificateFiles, loopbackNames, makeAuthority } from "../harness/certificates.ts";
import { startScheduler } from "../harness/installation.ts";
import {
  type AstraProcess,
  makeTemporaryFolder,
  pollUntil,
  repositoryRoot,
  spawnAstra,
  withTimeout,
} from "../harness/processes.ts";

const domain = "prod.test";
const examples = join(repositoryRoot, "examples", "packages");

function startWorker(ws: string, args: readonly string[]): AstraProcess {
  const fast = { ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1", ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.2" };
  return spawnAstra(["worker", "--url", ws, "--data-dir", join(makeTemporaryFolder(), "data"), ...args], fast);
}

describe("a worker and a scheduler with TLS", () => {
  it("[W141] a worker joins with its certificate alone, and with a renewed one after it was refused with another worker's", async () => {
    const authority = makeAuthority();
    const server = authority.sign("server", { names: loopbackNames, use: "serverAuth" });
    const own = (worker: string) => authority.sign(worker, { names: [`URI:spiffe://${domain}/tenant/default/worker/${worker}`] });
    const trust = ["--client-ca", authority.certFile, "--trust-domain", domain];
    const scheduler = await startScheduler({ flags: ["--tls-cert", server.certFile, "--tls-key", server.keyFile, ...trust] });
    const files = { cert: join(makeTemporaryFolder(), "cert"), key: join(makeTemporaryFolder(), "key") };
    const put = ({ certFile, keyFile }: CertificateFiles) => {
      copyFileSync(certFile, files.cert);
      copyFileSync(keyFile, files.key);
    };
    put(own("w-2"));

    const certificate = ["--ca", authority.certFile, "--tls-cert", files.cert, "--tls-key", files.key];
    const worker = startWorker(scheduler.ws, ["--instance-id", "w-1", "--packages-dir", examples, ...certificate]);
    await pollUntil("the refusal", async () => worker.stderr().includes('"event":"refused"'));
    put(own("w-1"));

    expect(await worker.ready()).toMatchObject({ ready: true, worker: "w-1" });
  });
});

describe("vendors' frames between a caller and a package", () => {
  it("[W126] a vendor frame posted at the scheduler reaches the package, and its answer reaches the listener", async () => {
    const scheduler = await startScheduler();
    const packagesDir = join(repositoryRoot, "examples", "extensions");
    await startWorker(scheduler.ws, [
      "--packages-dir",
      packagesDir,
      "--token",
      "dev-token",
      "--instance-id",
      "greeter-1",
    ]).ready();
    const headers = { authorization: "Bearer dev-token", "content-type": "application/json" };
    const vendorFrames = `${scheduler.http}/api/v1/extensions`;
    const reader = new SseTestReader((await fetch(`${vendorFrames}/ext.vendor.greeter.answer`, { headers })).body);
    const reading = reader.readUntil(({ text }) => text.includes("Hello, Ada!"));
    const body = JSON.stringify({ workerId: "greeter-1", payload: { name: "Ada" }, corr: "q-1" });
    const asked = await fetch(`${vendorFrames}/ext.vendor.greeter.ask`, { method: "POST", headers, body });
    expect({ status: asked.status, body: await asked.text() }).toMatchObject({ status: 202 });
    await withTimeout(reading, "the answer", () => reader.text);
    await reader.close();

    expect(reader.text).toContain('"corr":"q-1"');
  });
});
