// Statements of the specification about workers and their work, each at a real scheduler, over a real socket.

import type { AuditEvent, Worker } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { HandDrivenWorker, taskOf } from "../harness/hand-driven-worker.ts";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { pollUntil } from "../harness/processes.ts";
import type { RawFrame } from "../harness/raw-worker-socket.ts";
import { sleepingWorkflow } from "../harness/workflows.ts";

const fenceOf = (dispatch: RawFrame): number => Number(dispatch.payload["fence"]);

async function open(...flags: string[]) {
  const { http, ws } = await startScheduler({ flags });
  const api = new SchedulerApi(http);
  const start = async (key = "k", policy: object = {}) => {
    const workflow = sleepingWorkflow(1);
    const nodes = workflow.nodes.map((node) => ({ ...node, policy: { ...node.policy, ...policy } }));
    return (await api.startRun({ ...workflow, nodes }, key)).runId;
  };
  return { ws, api, start, worker: await HandDrivenWorker.join(ws) };
}

describe("dispatches", () => {
  it("[O76] a dispatch that is not acked in time is queued again under a higher fence, and the last one fails with E.DISPATCH.UNAVAILABLE", async () => {
    const { api, start, worker } = await open("--ack-deadline", "150");
    const runId = await start();
    const first = await worker.nextDispatch();
    const second = await worker.nextDispatch();
    const run = await api.waitForRunEnd(runId);

    expect(taskOf(second)).toBe(taskOf(first));
    expect(fenceOf(second)).toBeGreaterThan(fenceOf(first));
    expect(run).toMatchObject({ status: "failed", error: { code: "E.DISPATCH.UNAVAILABLE" } });
  });

  it("[O76] of several results for one dispatch the first is kept: a repeat is only acked, another one changes nothing", async () => {
    const { api, start, worker } = await open();
    const runId = await start();
    const dispatch = await worker.takeDispatch();
    worker.succeed(dispatch, { text: "first" });
    worker.succeed(dispatch, { text: "first" });
    await worker.untilAcked(worker.succeed(dispatch, { text: "second" }));
    const run = await api.waitForRunEnd(runId);

    expect(run).toMatchObject({ status: "succeeded", nodes: [{ result: { text: "first" } }] });
    const facts = await api.listRunFacts(runId);
    expect(facts.filter(({ type }) => type === "task.succeeded")).toHaveLength(1);
    expect(facts.filter(({ type }) => type === "task.refused")).toMatchObject([{ data: { code: "E.RESULT.DUPLICATE" } }]);
    expect(worker.socket.isOpen()).toBe(true);
  });

  it("[O76] a late result under an older fence is dropped, and the result of the current attempt counts", async () => {
    const { api, start, worker } = await open("--ack-deadline", "2000");
    const runId = await start();
    const late = await worker.nextDispatch();
    const current = await worker.takeDispatch();
    await worker.untilAcked(worker.succeed(late, { text: "late" }));
    worker.succeed(current, { text: "current" });

    expect(await api.waitForRunEnd(runId)).toMatchObject({ status: "succeeded", nodes: [{ result: { text: "current" } }] });
  });

  it("[O76] one task of a concurrency key runs at a time across workers, and the next is given out when it ends", async () => {
    const { ws, api, start, worker } = await open();
    const other = await HandDrivenWorker.join(ws, { instance: "w-2" });
    const policy = { concurrency: { key: "one-at-a-time" } };
    const runs = [await start("k-1", policy), await start("k-2", policy)];
    const statuses = async () =>
      (await Promise.all(runs.map((id) => api.getRun(id)))).map(({ nodes }) => String(nodes?.[0]?.status));
    const findHolder = () =>
      pollUntil("a dispatch", async () => [worker, other].find(({ socket }) => socket.hasFrame("biz.exec.dispatch")));

    const holder = await findHolder();
    const dispatch = await holder.takeDispatch();
    expect((await statuses()).toSorted()).toEqual(["queued", "running"]);
    holder.succeed(dispatch, {});
    const next = await findHolder();
    next.succeed(await next.takeDispatch(), {});
    expect((await Promise.all(runs.map((id) => api.waitForRunEnd(id)))).map(({ status }) => status)).toEqual([
      "succeeded",
      "succeeded",
    ]);
  });
});

describe("sessions", () => {
  it("[O77] a worker that reconnects in the same boot keeps the attempt it reports, and its result under the same fence counts", async () => {
    const { ws, api, start, worker } = await open();
    const runId = await start();
    const dispatch = await worker.takeDispatch();
    await api.waitUntilHeld(runId);
    worker.socket.terminate();
    const running = [{ task_id: taskOf(dispatch), fence: fenceOf(dispatch) }];
    const again = await HandDrivenWorker.join(ws, { running });
    again.succeed(dispatch, { text: "kept" });

    expect(await api.waitForRunEnd(runId)).toMatchObject({
      status: "succeeded",
      nodes: [{ attempt: 1, result: { text: "kept" } }],
    });
  });

  it("[O77] a restarted worker gets what its process before held again at once, under a higher fence", async () => {
    const { ws, api, start, worker } = await open();
    const runId = await start();
    const before = await worker.takeDispatch();
    worker.socket.terminate();
    const restarted = await HandDrivenWorker.join(ws, { boot: "the next boot" });
    const after = await restarted.takeDispatch();

    expect(taskOf(after)).toBe(taskOf(before));
    expect(fenceOf(after)).toBeGreaterThan(fenceOf(before));
    restarted.succeed(after, {});
    expect(await api.waitForRunEnd(runId)).toMatchObject({ status: "succeeded" });
  });

  it("[O77] a new session of a worker ends its older one, by the instance id and not by the name", async () => {
    const { ws, worker } = await open();
    const newer = await HandDrivenWorker.join(ws);
    const stranger = await HandDrivenWorker.join(ws, { instance: "w-2" });

    expect((await worker.socket.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.SUPERSEDED" });
    await worker.socket.closed;
    expect([newer.socket.isOpen(), stranger.socket.isOpen()]).toEqual([true, true]);
  });

  it("[O77] a worker whose socket is gone resumes its session with its session token: it is accepted as resumed, and numbers go on", async () => {
    const { ws, api, start, worker } = await open();
    const runId = await start();
    const dispatch = await worker.takeDispatch();
    await api.waitUntilHeld(runId);
    worker.socket.terminate();
    const resumed = await worker.resume(ws, dispatch.seq ?? -1);

    expect(resumed.accept.payload).toMatchObject({ resumed: true, session_id: worker.accept.payload["session_id"] });
    resumed.succeed(dispatch, { text: "resumed" });
    expect(await api.waitForRunEnd(runId)).toMatchObject({ status: "succeeded", nodes: [{ attempt: 1 }] });
  });

  it("[O77] a resume that the scheduler cannot grant is answered with control.reset, and a new handshake and register are accepted", async () => {
    const { ws, worker } = await open();
    worker.socket.terminate();
    const refused = await worker.dialResume(ws, { session_token: "not a token" });

    expect((await refused.nextFrame("control.reset")).payload["code"]).toBe("E.SESSION.INVALID_TOKEN");
    await refused.closed;
    const again = await HandDrivenWorker.join(ws);
    expect(again.accept.payload).toMatchObject({ resumed: false });
  });

  it("[O78] one, two and three missed heartbeats show as warn, degraded and unhealthy, then the worker is lost and its work given to another", async () => {
    const { ws, api, start, worker } = await open("--heartbeat", "2000", "--lease", "10000");
    const runId = await start();
    const before = await worker.takeDispatch();
    worker.beat([before]);
    const seen: string[] = [];
    await pollUntil("the worker to be lost", async () => {
      const { liveness = "", status } = await api.get<Worker>("/api/v1/workers/w-1");
      if (status !== "lost" && seen.at(-1) !== liveness) seen.push(liveness);
      return status === "lost";
    });
    const other = await HandDrivenWorker.join(ws, { instance: "w-2" });
    const after = await other.takeDispatch();

    expect(seen).toEqual(["fresh", "warn", "degraded", "unhealthy"]);
    expect([taskOf(after), fenceOf(after) > fenceOf(before)]).toEqual([taskOf(before), true]);
    other.succeed(after, {});
    expect(await api.waitForRunEnd(runId)).toMatchObject({ status: "succeeded" });
    const metrics = await (await api.send("GET", "/metrics")).text();
    expect(metrics).toMatch(/ws_heartbeat_miss_total\{tenant="default",worker="[^"]*"\} [1-9]/);
  });

  it("[O78] a worker whose heartbeat says that it is not healthy gets no work until one says that it is", async () => {
    const { api, start, worker } = await open();
    worker.beat([], { healthy: false });
    await pollUntil("the heartbeat", async () => {
      const { heartbeat } = await api.get<Worker>("/api/v1/workers/w-1");
      return heartbeat?.healthy === false;
    });
    const runId = await start();
    expect((await api.getRun(runId)).nodes?.[0]?.status).toBe("queued");
    expect(worker.socket.hasFrame("biz.exec.dispatch")).toBe(false);
    worker.beat();
    worker.succeed(await worker.takeDispatch(), {});

    expect(await api.waitForRunEnd(runId)).toMatchObject({ status: "succeeded" });
  });
});

describe("package commands", () => {
  it("[O79] install and uninstall commands reach the worker and are audited with actor, worker, request and outcome; the worker's own failure is read back", async () => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    const worker = await HandDrivenWorker.join(ws, { features: ["fence", "held", "pkg"] });
    const send = async (command: object) => {
      const response = await api.send("POST", "/api/v1/workers/w-1/commands", command);
      return { status: response.status, body: (await response.json()) as { commandId: string; error?: string } };
    };
    const url = "https://packages.example/extra-2.0.0.cwx";
    const installed = await send({ type: "pkg.install", name: "extra", version: "2.0.0", url });
    const install = await worker.socket.nextFrame("biz.pkg.install");
    worker.ack(install);
    const { command_id } = install.payload;
    const failure = { code: "E.PKG.INVALID", message: "the manifest has no name" };
    worker.sendWork("biz.pkg.event", { name: "extra", version: "2.0.0", status: "failed", command_id, details: failure });
    await send({ type: "pkg.uninstall", name: "extra" });
    const uninstall = await worker.socket.nextFrame("biz.pkg.uninstall");

    expect(install.payload).toMatchObject({ name: "extra", version: "2.0.0", url });
    expect(uninstall.payload).toMatchObject({ name: "extra" });
    const audit = await api.get<{ items: AuditEvent[] }>("/api/v1/audit-events");
    expect(audit.items).toMatchObject([
      {
        action: "pkg.uninstall",
        actorId: "dev",
        targetType: "worker",
        targetId: "w-1",
        metadata: { name: "extra", outcome: "ok" },
      },
      {
        action: "pkg.install",
        actorId: "dev",
        createdAt: expect.stringMatching(/Z$/),
        targetId: "w-1",
        metadata: { name: "extra", version: "2.0.0", command: installed.body.commandId, corr: expect.any(String), outcome: "ok" },
      },
    ]);
    const ended = await pollUntil("the end of the command", async () => {
      const command = await api.get<{ status: string; error?: object }>(`/api/v1/commands/${installed.body.commandId}`);
      return command.status === "failed" ? command : null;
    });
    expect(ended.error).toMatchObject({ code: "E.PKG.INVALID" });
  });
});
