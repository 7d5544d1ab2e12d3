import { copyFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SchedulerApi, spawnScheduler, startScheduler } from "../harness/installation.ts";
import { type AstraProcess, pollUntil, withTimeout } from "../harness/processes.ts";
import { sleepingWorkflow } from "../harness/workflows.ts";

const waitUntilPaused = (process: AstraProcess) =>
  pollUntil("the engine to stand at its failpoint", async () => process.stderr().includes("failpoint.paused"));

describe("a scheduler that runs", () => {
  it("[O10] the scheduler prints one ready line with its addresses, picks a free port and logs JSON to stderr", async () => {
    const scheduler = await startScheduler();

    const lines = scheduler.process.stdout().trim().split("\n");
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? "")).toEqual({
      ready: true,
      http: scheduler.http,
      ws: `${scheduler.http.replace("http", "ws")}/ws/worker`,
      pid: scheduler.process.pid,
    });
    scheduler.process.kill("SIGTERM");
    await scheduler.process.ended;
    for (const line of scheduler.process.stderr().split("\n").filter(Boolean)) expect(JSON.parse(line)).toHaveProperty("level");
  });

  it("[O11] the scheduler serves health, readiness, its OpenAPI description, its metrics and its page", async () => {
    const { http } = await startScheduler();
    const api = new SchedulerApi(http);

    expect((await fetch(`${http}/healthz`)).status).toBe(200);
    expect((await fetch(`${http}/readyz`)).status).toBe(200);
    expect(await api.get("/api/v1/openapi.json")).toMatchObject({
      openapi: expect.stringMatching(/^3\.1/),
      paths: { "/api/v1/runs": {} },
    });
    expect(await (await api.send("GET", "/metrics")).text()).toContain("engine_turns");
    const page = await fetch(`${http}/`);
    expect(page.headers.get("content-type")).toContain("text/html");
    expect(await page.text()).toContain("Start the demo run");
  });

  for (const threads of ["0", "1"]) {
    it(`[O12] the scheduler exits with 0 on SIGTERM and refuses new connections afterwards (--threads ${threads})`, async () => {
      const { process, http } = await startScheduler({ flags: ["--threads", threads] });

      process.kill("SIGTERM");

      expect(await withTimeout(process.ended, "the end after SIGTERM", process.stderr)).toEqual({ code: 0, signal: null });
      await expect(fetch(`${http}/healthz`)).rejects.toThrow("fetch failed");
    });
  }

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    it(`[O12] the scheduler exits at once with 143 on a ${signal} that arrives before it is ready`, async () => {
      const { process } = spawnScheduler({ env: { ASTRA_FAILPOINTS: "sqlite.migrate=pause" } });
      await waitUntilPaused(process);

      process.kill(signal);

      expect(await withTimeout(process.ended, `the end after ${signal}`, process.stderr)).toEqual({ code: 143, signal: null });
      expect(process.stdout()).toBe("");
    });
  }

  it("[O12] a stopping scheduler is not ready while its last turn runs, and a second SIGTERM ends it at once", async () => {
    const { process, http } = await startScheduler({
      env: { ASTRA_FAILPOINTS: "turn.decided=pause@2" },
      flags: ["--grace", "60000"],
    });
    const stuck = new SchedulerApi(http).startRun(sleepingWorkflow(1), "k").catch((cause: unknown) => cause);
    await waitUntilPaused(process);

    process.kill("SIGTERM");
    const readyz = await pollUntil("/readyz to say no", async () => {
      const response = await fetch(`${http}/readyz`);
      return response.status === 503 ? response.json() : null;
    });
    expect(readyz).toMatchObject({ error: "E.SHUTTING_DOWN" });
    expect(process.hasEnded()).toBe(false);

    process.kill("SIGTERM");
    expect((await withTimeout(process.ended, "the end after a second SIGTERM")).code).toBe(143);
    expect(await stuck).toBeInstanceOf(Error);
  });

  it("[O12] a stopping scheduler finishes the running turn before it exits; a run of that turn is stored exactly if its caller was answered", async () => {
    const { process, http, dataDir, listen } = await startScheduler({
      env: { ASTRA_FAILPOINTS: "turn.decided=pause@2" },
      flags: ["--grace", "60000"],
    });
    const answer = new SchedulerApi(http).startRun(sleepingWorkflow(1), "k");
    await waitUntilPaused(process);
    process.kill("SIGTERM");
    await pollUntil("/readyz to say no", async () => (await fetch(`${http}/readyz`)).status === 503);

    process.kill("SIGCONT");

    const outcome = await answer.then(
      (ref) => ref.runId,
      () => null,
    );
    expect(await withTimeout(process.ended, "the end after the turn")).toEqual({ code: 0, signal: null });
    const again = await startScheduler({ dataDir, listen });
    const runs = await new SchedulerApi(again.http).listRuns();
    expect(runs.map((run) => run.runId)).toEqual(outcome === null ? [] : [outcome]);
  });

  it("[O12] the scheduler exits with 0 when --grace is over although a turn hangs", async () => {
    const { process } = await startScheduler({ env: { ASTRA_FAILPOINTS: "turn.decided=pause@2" }, flags: ["--grace", "100"] });
    await waitUntilPaused(process);

    process.kill("SIGTERM");

    expect(await withTimeout(process.ended, "the end after the grace")).toEqual({ code: 0, signal: null });
  });

  it("[O9] an engine that hangs makes the scheduler unready although it still answers /healthz", async () => {
    const { process, http } = await startScheduler({ env: { ASTRA_FAILPOINTS: "turn.begun=pause@2" } });

    await pollUntil("/readyz to say no", async () => (await fetch(`${http}/readyz`)).status === 503);
    expect((await fetch(`${http}/healthz`)).status).toBe(200);
    process.kill("SIGCONT");
    await pollUntil("/readyz to say yes", async () => (await fetch(`${http}/readyz`)).status === 200);
  });

  it("[O12] the scheduler closes every socket as going away when it ends", async () => {
    const { process, ws } = await startScheduler();
    const socket = new WebSocket(ws);
    const closed = new Promise<number>((resolve) => socket.addEventListener("close", (event) => resolve(event.code)));
    await withTimeout(new Promise((resolve) => socket.addEventListener("open", resolve)), "the socket to open");

    process.kill("SIGTERM");

    expect(await withTimeout(closed, "the goodbye")).toBe(1001);
    expect(await withTimeout(process.ended, "the end after SIGTERM")).toEqual({ code: 0, signal: null });
  });

  it("[O19] the scheduler stops and reports why when its data folder is deleted while in use", async () => {
    const { process, dataDir } = await startScheduler();

    rmSync(dataDir, { recursive: true });

    expect((await withTimeout(process.ended, "the end of the process", process.stderr)).code).toBe(1);
    expect(process.stderr()).toContain(`the store ${join(dataDir, "astra.db")} was deleted while it was in use`);
  });

  it("[O19] the scheduler stops and reports why when its store file is replaced by another", async () => {
    const { process, dataDir } = await startScheduler();
    const file = join(dataDir, "astra.db");

    copyFileSync(file, `${file}.other`);
    renameSync(`${file}.other`, file);

    expect((await withTimeout(process.ended, "the end of the process", process.stderr)).code).toBe(1);
    expect(process.stderr()).toContain("was replaced by another file");
  });

  for (const [action, threads] of [
    ["throw", "1"],
    ["throw", "0"],
    ["exit", "1"],
    ["exit", "0"],
  ] as const) {
    it(`[O13] an engine that dies ends the scheduler process with code 1 (${action}, --threads ${threads})`, async () => {
      const { process } = spawnScheduler({ env: { ASTRA_FAILPOINTS: `turn.begun=${action}@2` }, flags: ["--threads", threads] });

      expect((await withTimeout(process.ended, "the end of the process", process.stderr)).code).toBe(1);
    });
  }
});
