import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RunRef } from "@astraflow/protocol";
import { type PostgresServer, startPgbouncer, startPostgres } from "@astraflow/store/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  SchedulerApi,
  type SchedulerOptions,
  spawnScheduler,
  startScheduler,
  startWorker,
  type TestScheduler,
} from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, runAstra, spawnAstra, withTimeout } from "../harness/processes.ts";
import { sleepingWorkflow, textChainWorkflow } from "../harness/workflows.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const startOnDatabase = (url: string, more: SchedulerOptions = {}): Promise<TestScheduler> =>
  startScheduler({ ...more, env: { ASTRA_SCHEDULER_STORE: url, ...more.env } });

/** Two schedulers on a database of their own. */
async function startPair(options: SchedulerOptions = {}) {
  const url = await server.createDatabase();
  const [east, west] = await Promise.all([startOnDatabase(url, options), startOnDatabase(url, options)]);
  return { url, east, west, atEast: new SchedulerApi(east.http), atWest: new SchedulerApi(west.http) };
}

const waitUntilRunning = (api: SchedulerApi, ref: RunRef) =>
  pollUntil("the task to run", async () => (await api.getRun(ref.runId)).nodes?.some((node) => node.status === "running"));

const waitForSessions = (api: SchedulerApi, count: number) =>
  pollUntil(`${count} workers to be at it`, async () =>
    new RegExp(`^\\w*engine_sessions ${count}$`, "m").test(await (await api.send("GET", "/metrics")).text()),
  );

describe("two schedulers on one database", () => {
  it("[O24] two schedulers on one database run each other's work, show the same state and create one run per key, whichever is asked", async () => {
    const { atEast, atWest, west } = await startPair();
    await startWorker(west.ws, { name: "western" });
    const workflow = textChainWorkflow("abc");

    const refs = await Promise.all([atEast, atWest, atEast, atWest].map((api) => api.startRun(workflow, "one-key")));
    const { runId } = await atEast.startRun(workflow, "another-key");
    const run = await atEast.waitForRunEnd(runId);
    await atEast.waitForRunEnd(refs[0]?.runId ?? "");

    expect(new Set(refs.map((ref) => ref.runId)).size).toBe(1);
    expect(run.nodes?.at(-1)).toMatchObject({ status: "succeeded", workerName: "western", result: { text: "CBA" } });
    // The log may have grown meanwhile with entries of other runs.
    expect(await atWest.getRun(runId)).toEqual({ ...run, asOf: expect.any(Number) });
    expect(await atWest.listRunFacts(runId)).toEqual(await atEast.listRunFacts(runId));
    expect(await atWest.listRuns()).toEqual(await atEast.listRuns());
    expect(await atEast.listRuns()).toHaveLength(2);
    for (const api of [atEast, atWest]) expect((await api.listWorkers()).items.map((worker) => worker.id)).toEqual(["western"]);
  });

  it("[O24] two schedulers on one database command each other's workers: a stop reaches the handler, a drain holds, an undrain ends it", async () => {
    // If mail cannot be delivered at once because the session is busy, the next heartbeat delivers it.
    const { atEast, atWest, west } = await startPair({ flags: ["--heartbeat", "500", "--lease", "5000"] });
    await startWorker(west.ws, { slots: 1 });
    const [worker] = (await atEast.listWorkers()).items;
    const order = async (api: SchedulerApi, path: string) => expect((await api.send("POST", `/api/v1/${path}`)).status).toBe(202);
    const long = await atWest.startRun(sleepingWorkflow(600_000), "long");
    await waitUntilRunning(atEast, long);

    await order(atEast, `runs/${long.runId}/cancel`);
    expect((await atWest.waitForRunEnd(long.runId)).status).toBe("cancelled");
    // The only slot was the long task's: the next one runs because its handler has come back.
    const next = await atEast.startRun(sleepingWorkflow(1), "next");
    expect((await atEast.waitForRunEnd(next.runId)).status).toBe("succeeded");

    await order(atEast, `workers/${worker?.instanceId}/drain`);
    await pollUntil("the drain to show", async () => (await atWest.listWorkers()).items[0]?.draining);
    // A free worker that drains gets nothing: otherwise it would have been granted in the turn that answered.
    const later = await atWest.startRun(sleepingWorkflow(1), "later");
    expect((await atEast.getRun(later.runId)).status).toBe("queued");
    await order(atWest, `workers/${worker?.instanceId}/undrain`);
    expect((await atEast.waitForRunEnd(later.runId)).status).toBe("succeeded");
    expect((await atEast.listWorkers()).items[0]?.draining).toBe(false);
  });

  it("[O24] a worker that joins at a second scheduler is superseded at the first, and the newer session gets what it held", async () => {
    const { atEast, east, west } = await startPair();
    const first = await startWorker(east.ws, { name: "first", instanceId: "twin" });
    const ref = await atEast.startRun(sleepingWorkflow(600_000), "k");
    await waitUntilRunning(atEast, ref);

    await startWorker(west.ws, { name: "second", instanceId: "twin" });

    await pollUntil("the newer to hold the task", async () => (await atEast.getRun(ref.runId)).nodes?.[0]?.attempt === 2);
    expect((await atEast.getRun(ref.runId)).nodes?.[0]).toMatchObject({ status: "running", workerName: "second" });
    await pollUntil("the older to be told", async () => first.stderr().includes("SUPERSEDED"));
  });

  it("[O25] two schedulers survive kill -9 of one under load: its workers move to the other, and nothing is lost or done twice", async () => {
    const { url, east, west, atEast, atWest } = await startPair();
    await startWorker(`${east.ws},${west.ws}`, { name: "eastern" });
    await startWorker(`${west.ws},${east.ws}`, { name: "western" });
    // Drawn once: a repeat under the same key must be the same request, its ids included.
    const submit = (at: number) => {
      const workflow = textChainWorkflow(`run ${at}`);
      return pollUntil(`run ${at} to be accepted`, () => (at % 2 === 0 ? atEast : atWest).startRun(workflow, `key-${at}`));
    };
    const refs = Array.from({ length: 40 }, (_, at) => submit(at));
    await Promise.any(refs);

    east.process.kill("SIGKILL");
    await east.process.ended;
    await waitForSessions(atWest, 2);
    // Half of the callers ask only the one that is gone.
    await startOnDatabase(url, { dataDir: east.dataDir, listen: east.listen });

    for (const [at, ref] of (await Promise.all(refs)).entries()) {
      const run = await atWest.waitForRunEnd(ref.runId);
      expect(run.nodes?.at(-1)?.result).toMatchObject({ text: [...`RUN ${at}`].reverse().join("") });
      const types = (await atEast.listRunFacts(ref.runId)).map((fact) => fact.type);
      expect(types.filter((type) => type === "task.succeeded")).toHaveLength(3);
      expect(types.filter((type) => type === "run.succeeded")).toHaveLength(1);
    }
    expect(await atEast.listRuns()).toHaveLength(40);
  });

  it("[O25] a worker whose scheduler hangs moves to the other scheduler in time and keeps what it holds", async () => {
    const { east, west, atEast, atWest } = await startPair();
    const worker = await startWorker(`${east.ws},${west.ws}`, { name: "loyal" });
    await waitForSessions(atEast, 1);
    const ref = await atWest.startRun(sleepingWorkflow(600_000), "k");
    await atWest.waitUntilHeld(ref.runId);

    east.process.kill("SIGSTOP");
    await waitForSessions(atWest, 1);

    // The output of another process may be read later than its effects are visible.
    await pollUntil("the worker to say why", async () =>
      worker.stderr().includes("nothing was received from the scheduler for 10 s"),
    );
    expect(worker.stderr()).not.toContain("self-fenced");
    expect((await atWest.getRun(ref.runId)).nodes?.[0]).toMatchObject({ status: "running", attempt: 1 });
    // Still the first attempt once the other has given it an order, so it was taken over and not begun again.
    expect((await atWest.send("POST", `/api/v1/runs/${ref.runId}/cancel`)).status).toBe(202);
    const run = await atWest.waitForRunEnd(ref.runId);
    expect(run).toMatchObject({ status: "cancelled", nodes: [{ attempt: 1 }] });
    expect((await atWest.listRunFacts(ref.runId)).map((fact) => fact.type)).not.toContain("task.requeued");
    east.process.kill("SIGKILL");
  });

  it("[O25] two schedulers requeue the work of a lost worker once, and a worker at the other scheduler can get it", async () => {
    const { atEast, east, west } = await startPair({ flags: ["--time-scale", "20"] });
    const doomed = await startWorker(west.ws, { name: "doomed" });
    const ref = await atEast.startRun(sleepingWorkflow(4_000), "k");
    await waitUntilRunning(atEast, ref);

    doomed.kill("SIGKILL");
    await startWorker(east.ws, { name: "spare" });

    const run = await atEast.waitForRunEnd(ref.runId);
    expect(run.nodes?.[0]).toMatchObject({ status: "succeeded", workerName: "spare", attempt: 2 });
    expect((await atEast.listRunFacts(ref.runId)).filter((fact) => fact.type === "task.requeued")).toHaveLength(1);
  });

  it("[O26] two schedulers survive restarts of PostgreSQL in the middle of a run, both orderly and by a crash", async () => {
    const { atEast, atWest, east, west } = await startPair();
    await startWorker(`${east.ws},${west.ws}`);
    for (const how of ["fast", "immediate"] as const) {
      const slow = await atEast.startRun(sleepingWorkflow(1_000), `slow-${how}`);
      await waitUntilRunning(atWest, slow);

      await server.restart(how);

      const again = textChainWorkflow("after");
      const chain = await pollUntil("a run to be accepted again", () => atWest.startRun(again, `after-${how}`));
      expect((await atEast.waitForRunEnd(slow.runId)).nodes?.[0]).toMatchObject({ status: "succeeded", attempt: 1 });
      expect((await atEast.waitForRunEnd(chain.runId)).nodes?.at(-1)?.result).toMatchObject({ text: "RETFA" });
      for (const { http } of [east, west])
        await pollUntil("/readyz to say yes", async () => (await fetch(`${http}/readyz`)).status === 200);
    }
  });

  it("[O26] two schedulers work behind a pooler that gives every transaction to another database session", async () => {
    const pooler = await startPgbouncer(server);
    try {
      const direct = new URL(await server.createDatabase());
      const url = pooler.url(direct.pathname.slice(1));
      const [east, west] = await Promise.all([startOnDatabase(url), startOnDatabase(url)]);
      await startWorker(west.ws);

      const ref = await new SchedulerApi(east.http).startRun(textChainWorkflow("pooled"), "k");

      expect((await new SchedulerApi(east.http).waitForRunEnd(ref.runId)).nodes?.at(-1)?.result).toMatchObject({
        text: "DELOOP",
      });
    } finally {
      await pooler.stop();
    }
  });
});

describe("a scheduler on PostgreSQL", () => {
  it("[O20] a scheduler whose PostgreSQL is down is not ready, answers 503, and recovers by itself", async () => {
    const { http } = await startOnDatabase(await server.createDatabase());
    const api = new SchedulerApi(http);

    await server.halt("immediate");
    try {
      const readyz = await pollUntil("/readyz to say no", async () => {
        const response = await fetch(`${http}/readyz`);
        return response.status === 503 ? response.json() : null;
      });
      expect(readyz).toMatchObject({ error: "E.STORE.BUSY", message: expect.stringContaining("the store is unavailable") });
      expect((await fetch(`${http}/healthz`)).status).toBe(200);
      expect((await api.send("GET", "/api/v1/runs")).status).toBe(503);
    } finally {
      await server.start();
    }

    await pollUntil("/readyz to say yes", async () => (await fetch(`${http}/readyz`)).status === 200);
    expect(await pollUntil("the list to be read", () => api.listRuns())).toEqual([]);
  });

  it("[O28] a scheduler that is started before its PostgreSQL waits for it", async () => {
    const url = await server.createDatabase();
    await server.halt("fast");
    const { process } = spawnScheduler({ env: { ASTRA_SCHEDULER_STORE: url } });
    try {
      await pollUntil("the wait to be told", async () => process.stderr().includes("store.away"));
    } finally {
      await server.start();
    }

    const ready = await process.ready();
    expect((await fetch(`${String(ready["http"])}/readyz`)).status).toBe(200);
  });

  it("[O22] a scheduler keeps its replica name over a restart, and one with another data folder has another name", async () => {
    const { url, east, west } = await startPair();
    const nameOf = (scheduler: TestScheduler) => readFileSync(join(scheduler.dataDir, "replica_name"), "utf8");
    const name = nameOf(east);

    east.process.kill("SIGTERM");
    await east.process.ended;
    const again = await startOnDatabase(url, { dataDir: east.dataDir });

    expect(nameOf(again)).toBe(name);
    expect(nameOf(west)).not.toBe(name);
    expect(west.process.hasEnded()).toBe(false);
  });

  it("[O23] a scheduler exits with 3 and reports why when another starts under its replica name, and the newer one continues to serve", async () => {
    const url = await server.createDatabase();
    const older = await startOnDatabase(url, { flags: ["--replica", "same"] });

    const newer = await startOnDatabase(url, { flags: ["--replica", "same"] });

    expect(await withTimeout(older.process.ended, "the end of the older one", older.process.stderr)).toEqual({
      code: 3,
      signal: null,
    });
    expect(older.process.stderr()).toContain("another scheduler has started under this one's name");
    expect((await fetch(`${newer.http}/readyz`)).status).toBe(200);
  });

  it("[O21] a scheduler never shows its database password: not in its log, its errors, its ready line or the process list", async () => {
    const url = await server.createDatabase();
    const args = ["scheduler", "--dev", "--listen", "127.0.0.1:0", "--data-dir", makeTemporaryFolder(), "--log-level", "trace"];
    const scheduler = spawnAstra([...args, "--store", url]);
    const http = String((await scheduler.ready())["http"]);
    const listed = readFileSync(`/proc/${scheduler.pid}/cmdline`, "utf8");

    await server.restart("immediate");
    await pollUntil("/readyz to say yes", async () => (await fetch(`${http}/readyz`)).status === 200);
    scheduler.kill("SIGTERM");
    await withTimeout(scheduler.ended, "the end after SIGTERM");
    const refused = await runAstra([...args, "--store", url.replace(server.password, "a-wrong-guess")]);

    expect(scheduler.stderr()).toContain("scheduler.started");
    expect(listed + scheduler.stdout() + scheduler.stderr()).not.toContain(server.password);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toMatch(/rejects this user and password; correct .* in --store/);
    expect(refused.stderr).not.toContain("a-wrong-guess");
  });
});
