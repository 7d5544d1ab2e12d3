// The worker of the manual check, started with the settings that the specification prints.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Worker } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, repositoryRoot, spawnAstra } from "../harness/processes.ts";

const printed = {
  ASTRA_WORKER_TRANSPORT: "websocket",
  ASTRA_WORKER_WORKER_VERSION: "0.1.0",
  ASTRA_WORKER_HANDSHAKE_PROTOCOL_VERSION: "1",
  ASTRA_WORKER_AUTH_MODE: "token",
  ASTRA_WORKER_AUTH_TOKEN: "dev-token",
  ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL: "2",
  ASTRA_WORKER_RUNTIME_NAMES: '["python","playwright"]',
  ASTRA_WORKER_FEATURE_FLAGS: '["pkg.install","pkg.uninstall"]',
};

it("[O73] a worker started with the printed settings joins with their version, slots, runtimes and features, and keeps its instance id", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const dataDir = join(makeTemporaryFolder(), "worker");
  const env = {
    ...printed,
    ASTRA_WORKER_SCHEDULER_WS_URL: ws,
    // pkg.install is announced only where something may be installed.
    ASTRA_WORKER_PACKAGE_UNSIGNED: "true",
    ASTRA_WORKER_DATA_DIR: dataDir,
    ASTRA_WORKER_PACKAGES_DIR: join(repositoryRoot, "examples", "packages"),
  };
  const first = spawnAstra(["worker"], env);
  const instance = String((await first.ready())["worker"]);

  const shown = await api.get<Worker>(`/api/v1/workers/${instance}`);
  expect(shown).toMatchObject({
    version: "0.1.0",
    instanceId: instance,
    connected: true,
    capabilities: { concurrency: { maxParallel: 2 }, runtimes: ["python", "playwright"] },
  });
  expect(shown.capabilities?.features).toEqual(expect.arrayContaining(["pkg.install", "pkg.uninstall"]));
  expect(shown.packages).toContainEqual({ name: "demo", version: "1.0.0", status: "installed" });
  // The worker offers its own version of the protocol, and says so.
  expect(first.stderr()).toContain("ASTRA_WORKER_HANDSHAKE_PROTOCOL_VERSION has no effect");
  expect(readFileSync(join(dataDir, "worker_instance_id"), "utf8").trim()).toBe(instance);

  first.kill("SIGTERM");
  expect((await first.ended).code).toBe(0);
  const second = spawnAstra(["worker"], env);
  expect((await second.ready())["worker"]).toBe(instance);
});
