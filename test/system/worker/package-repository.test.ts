// A package from its author to a running node, on real processes: published on the scheduler over REST, installed by a command without an
// address on a worker that trusts the tenant's keys, run, uninstalled and deleted.

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createSigningKey, nodePackageFiles, signFiles } from "@astraflow/archive/testing";
import type { PackageVersion, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { startScheduler } from "../harness/installation.ts";
import { RepositoryApi, startInstallingWorker } from "../harness/package-installation.ts";
import { pollUntil } from "../harness/processes.ts";

const name = "acme.tools";
const signer = createSigningKey();
const weights = "the weights of a model";

/** A node that says its version, and what is in the resource beside its archive. */
const packageOf = (version: string) =>
  signFiles(
    signer.privateKey,
    nodePackageFiles(name, version, {
      files: {
        "main.mjs": [
          'import { readFileSync } from "node:fs";',
          `const model = () => readFileSync(new URL("./resources/model.bin", import.meta.url), "utf8");`,
          `export const greet = () => ({ version: ${JSON.stringify(version)}, model: model() });`,
        ].join("\n"),
      },
      manifest: {
        resources: [{ path: "resources/model.bin", type: "file", sha256: createHash("sha256").update(weights).digest("hex") }],
      },
    }),
  );

function greeting(version: string): Workflow {
  const node = {
    id: crypto.randomUUID(),
    type: `${name}.greet`,
    label: "Greet",
    package: { name, version },
    position: { x: 0, y: 0 },
    parameters: {},
  };
  return { id: crypto.randomUUID(), schemaVersion: "2025-10", metadata: { name: "Greeting" }, nodes: [node], edges: [] };
}

class GreetingApi extends RepositoryApi {
  publishVersion(version: string) {
    return this.publish(packageOf(version));
  }

  putWeights(version: string): Promise<number> {
    return this.putResource({ name, version }, "resources/model.bin", weights);
  }

  async run(version: string) {
    const { runId } = await this.startRun(greeting(version), crypto.randomUUID());
    const { status } = await this.waitForRunEnd(runId);
    const { items } = await this.get<{ items: { nodeId: string; result?: object }[] }>(`/api/v1/runs/${runId}/nodes`);
    return { status, items };
  }
}

describe("a package from its author to a running node", () => {
  it("[O932] a package is published, installed without an address on a worker that trusts the tenant's keys, run, uninstalled and deleted", async () => {
    const { http, ws, dataDir: schedulerDir } = await startScheduler();
    const api = new GreetingApi(http);
    const key = await api.send("POST", "/api/v1/package-keys", { publicKey: signer.publicKey, name: "Release" });
    const published = await api.publishVersion("1.0.0");
    const put = await api.putWeights("1.0.0");
    const { dataDir } = await startInstallingWorker(ws);

    const installed = await api.command("box", { type: "pkg.install", name });
    const run = await api.run("1.0.0");
    const held = await api.get<PackageVersion>(`/api/v1/packages/${name}/versions/1.0.0`);
    const refused = await api.send("DELETE", `/api/v1/packages/${name}/versions/1.0.0`);

    expect([key.status, published.status, put]).toEqual([201, 201, 200]);
    expect(installed).toMatchObject({ status: "acked", request: { version: "1.0.0", fromRepository: true } });
    expect(run.status).toBe("succeeded");
    expect(JSON.stringify(run.items)).toContain(weights);
    expect(held).toMatchObject({ workerCount: 1, workers: [{ name: "box", connected: true, status: "installed" }] });
    expect(refused.status).toBe(409);

    const removed = await api.command("box", { type: "pkg.uninstall", name, version: "1.0.0" });
    const deleted = await pollUntil("the worker to hold the version no longer", async () => {
      const { status } = await api.send("DELETE", `/api/v1/packages/${name}/versions/1.0.0`);
      return status === 409 ? null : status;
    });

    expect([removed.status, deleted]).toEqual(["acked", 204]);
    // The command has ended when the worker no longer offers the version; its files go a moment later.
    await pollUntil("the files of the version to be gone", async () => !existsSync(join(dataDir, "packages", name, "1.0.0")));
    expect(readdirSync(join(schedulerDir, "blobs", "default"))).toEqual([]);
  });

  it("[O932] an older version than the worker had is refused as a rollback attack, and installed where an operator allows it; a key that is deleted installs nothing more", async () => {
    const { http, ws } = await startScheduler();
    const api = new GreetingApi(http);
    const added = await api.send("POST", "/api/v1/package-keys", { publicKey: signer.publicKey, name: "Release" });
    const { keyId } = (await added.json()) as { keyId: string };
    for (const version of ["1.0.0", "1.1.0", "1.2.0"]) {
      await api.publishVersion(version);
      await api.putWeights(version);
    }
    await startInstallingWorker(ws);
    await api.command("box", { type: "pkg.install", name, version: "1.1.0" });

    const older = await api.command("box", { type: "pkg.install", name, version: "1.0.0" });
    const allowed = await api.command("box", { type: "pkg.install", name, version: "1.0.0", allowOlder: true });
    await api.send("DELETE", `/api/v1/package-keys/${keyId}`);
    const revoked = await api.send("POST", "/api/v1/workers/box/commands", { type: "pkg.install", name, version: "1.2.0" });

    expect(older).toMatchObject({ status: "failed", error: { code: "E.PKG.PERMISSION" } });
    expect(allowed.status).toBe("acked");
    expect([revoked.status, ((await revoked.json()) as { error: string }).error]).toEqual([403, "E.PKG.PERMISSION"]);
  });

  it("[O932] a scheduler that is killed while an archive is sent has neither the version nor, after it is started again, anything that hides it", async () => {
    const first = await startScheduler();
    const api = new GreetingApi(first.http);
    await api.send("POST", "/api/v1/package-keys", { publicKey: signer.publicKey, name: "Release" });
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(
          new TextEncoder().encode('--x\r\ncontent-disposition: form-data; name="file"; filename="a.cwx"\r\n\r\nPK and no more'),
        );
      },
    });
    const request = {
      method: "POST",
      headers: { authorization: "Bearer dev-token", "content-type": "multipart/form-data; boundary=x" },
      body,
      duplex: "half",
    } as RequestInit;
    const sending = Promise.allSettled([fetch(`${first.http}/api/v1/packages`, request)]);
    const blobDir = join(first.dataDir, "blobs", "default");
    await pollUntil("the first bytes on disk", async () => existsSync(blobDir) && readdirSync(blobDir).length > 0);

    first.process.kill("SIGKILL");
    await first.process.ended;
    const [sent] = await sending;
    const second = await startScheduler({ dataDir: first.dataDir });
    const again = new GreetingApi(second.http);
    const absent = await again.send("GET", `/api/v1/packages/${name}/versions`);
    const published = await again.publishVersion("1.0.0");

    expect([sent.status, absent.status, published.status]).toEqual(["rejected", 404, 201]);
    // What the first one left is marked, so that the sweep finds it; the archive that is whole is the only one that counts.
    const whole = readdirSync(blobDir).filter((file) => !file.endsWith(".unfinished"));
    expect(
      whole.map((file) =>
        createHash("sha256")
          .update(readFileSync(join(blobDir, file)))
          .digest("hex"),
      ),
    ).toEqual([published.body.sha256]);
  });
});
