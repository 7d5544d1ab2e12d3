// A package on its way through a fleet of real processes: from an empty one to two versions side by side, a version whose tasks fail, and
// back. The guide docs/guides/rollouts.md tells the same story.

import { join } from "node:path";
import { createSigningKey, nodePackageFiles, signFiles } from "@astraflow/archive/testing";
import type { Alert, FleetInstall, PackageVersion, Rollout, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, spawnAstra } from "../harness/processes.ts";

const name = "acme.greeter";
const base = `/api/v1/packages/${name}`;
const signer = createSigningKey();

/** A node that says its version; the second one fails when it is told to. */
const packageOf = (version: string) =>
  signFiles(
    signer.privateKey,
    nodePackageFiles(name, version, {
      files: {
        "main.mjs": `export const greet = ({ params }) => {
          if (params.isBroken && ${version === "2.0.0"}) throw new Error("the greeting is broken");
          return { version: ${JSON.stringify(version)} };
        };`,
      },
    }),
  );

function greeting(version: string, isBroken = false): Workflow {
  const node = {
    id: crypto.randomUUID(),
    type: `${name}.greet`,
    label: "Greet",
    package: { name, version },
    position: { x: 0, y: 0 },
    parameters: { isBroken },
    policy: { retry: { maxAttempts: 1 } },
  };
  return { id: crypto.randomUUID(), schemaVersion: "2025-10", metadata: { name: "Greeting" }, nodes: [node], edges: [] };
}

class FleetApi extends SchedulerApi {
  readonly #http: string;
  constructor(http: string) {
    super(http);
    this.#http = http;
  }

  async publish(version: string): Promise<number> {
    const { archive, signature } = packageOf(version);
    const form = new FormData();
    form.set("signature", JSON.stringify(signature));
    form.set("file", new Blob([new Uint8Array(archive)]), "a.cwx");
    const headers = { authorization: "Bearer dev-token" };
    return (await fetch(`${this.#http}/api/v1/packages`, { method: "POST", headers, body: form })).status;
  }

  async post<T>(path: string, body: object): Promise<T> {
    const response = await this.send("POST", path, body);
    if (response.status !== 202) throw new Error(`POST ${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  }

  async install(body: object): Promise<FleetInstall> {
    const { installId } = await this.post<FleetInstall>(`${base}/installs`, body);
    return pollUntil("the end of the install", async () => {
      const install = await this.get<FleetInstall>(`${base}/installs/${installId}`);
      return install.status === "done" && install;
    });
  }

  waitForRollout(id: string, isReached: (rollout: Rollout) => boolean): Promise<Rollout> {
    return pollUntil("the rollout to get there", async () => {
      const rollout = await this.get<Rollout>(`${base}/rollouts/${id}`);
      return isReached(rollout) && rollout;
    });
  }

  async run(version: string, isBroken = false): Promise<string> {
    const { runId } = await this.startRun(greeting(version, isBroken), crypto.randomUUID());
    const { status } = await this.waitForRunEnd(runId);
    const { items } = await this.get<{ items: { result?: { version?: string } }[] }>(`/api/v1/runs/${runId}/nodes`);
    return `${status} ${JSON.stringify(items).match(/"version":"(\d\.\d\.\d)"\}/)?.[1] ?? "nothing"}`;
  }

  async holdersOf(version: string): Promise<string[]> {
    const { workers } = await this.get<PackageVersion>(`${base}/versions/${version}`);
    return workers.map((worker) => worker.name).sort();
  }

  waitForHolders = (version: string, holders: readonly string[]): Promise<boolean> =>
    pollUntil(
      `${version} to be held by ${holders.join(" and ") || "nobody"}`,
      async () => (await this.holdersOf(version)).join() === holders.join(),
    );
}

async function startInstallingWorker(ws: string, workerName: string): Promise<void> {
  const worker = spawnAstra(["worker", "--package-keys", "scheduler"], {
    ASTRA_WORKER_SCHEDULER_WS_URL: ws,
    ASTRA_WORKER_TENANT: "default",
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_WORKER_NAME: workerName,
    ASTRA_WORKER_DATA_DIR: join(makeTemporaryFolder(), "worker"),
    ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1",
    ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.2",
    ASTRA_WORKER_LOG_LEVEL: "warn",
  });
  await worker.ready();
}

describe("a package on its way through a fleet", () => {
  it("[O1205] from an empty fleet: a version is installed on two workers and runs, the next one is rolled out to one of them, both run side by side, its failures take it back, and what is left is uninstalled", async () => {
    const first = await startScheduler();
    const api = new FleetApi(first.http);
    await api.send("POST", "/api/v1/package-keys", { publicKey: signer.publicKey, name: "Release" });
    await startInstallingWorker(first.ws, "one");
    await startInstallingWorker(first.ws, "two");

    const published = await api.publish("1.0.0");
    const installed = await api.install({ workers: ["one", "two"] });
    const firstRun = await api.run("1.0.0");

    expect([published, installed.version, installed.counts, firstRun]).toEqual([
      201,
      "1.0.0",
      { waiting: 0, done: 2, failed: 0 },
      "succeeded 1.0.0",
    ]);

    await api.publish("2.0.0");
    const { rolloutId } = await api.post<Rollout>(`${base}/rollouts`, {
      version: "2.0.0",
      phases: [1, "100%"],
      failures: { max: 1 },
      observeMs: 86_400_000,
    });
    // The scheduler dies while the first worker installs, or just before or after: whenever that is, the rollout goes on.
    first.process.kill("SIGKILL");
    await first.process.ended;
    await startScheduler({ dataDir: first.dataDir, listen: first.listen });
    await api.waitForRollout(rolloutId, ({ phases }) => phases[0]?.status === "observing");
    await api.waitForHolders("2.0.0", ["one"]);

    expect([await api.run("1.0.0"), await api.run("2.0.0"), await api.holdersOf("1.0.0")]).toEqual([
      "succeeded 1.0.0",
      "succeeded 2.0.0",
      ["one", "two"],
    ]);

    for (let at = 0; at < 2; at += 1) expect(await api.run("2.0.0", true)).toContain("failed");
    const rollout = await api.waitForRollout(rolloutId, ({ status }) => status === "rolledBack");
    const { status } = await api.get<PackageVersion>(`${base}/versions/2.0.0`);
    const { items: alerts } = await api.get<{ items: Alert[] }>("/api/v1/alerts");
    await api.waitForHolders("2.0.0", []);

    expect(rollout).toMatchObject({ previousVersion: "1.0.0", tasks: { failed: 2 }, reason: { code: "tasks-failed" } });
    expect([status, alerts.map(({ code }) => code), await api.run("1.0.0")]).toEqual([
      "withdrawn",
      ["package.rollout_stopped"],
      "succeeded 1.0.0",
    ]);

    const removed = await api.install({ action: "uninstall", all: true });
    await api.waitForHolders("1.0.0", []);

    expect(removed.counts).toEqual({ waiting: 0, done: 2, failed: 0 });
  });
});
