import type { SendNextAnswer } from "@astraflow/engine";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { type FakeWorker, handshakePayload, handshakePayloadV1, olderRegisterPayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";
import { MiddlewareAttempts } from "./middleware-attempts.ts";

const ackRequested = { ack: { request: true } };
const run = "0199c84e-a000-7000-8000-000000000001";
const task = `${run}.9`;
const request = { requestId: "next-3", runId: run, nodeId: "m-1", middlewareId: "m-1", timeoutMs: 500 };
const chain = { node: "m-1", hostNode: "h-1", chain: ["m-1", "m-2"], chainIndex: 0 };

let fixture: DoorsFixture;
beforeEach(async () => {
  fixture = await openDoorsFixture({ isAlone: true });
});
afterEach(() => fixture.stop());

const opening = {
  v2: async () => await fixture.openSession(),
  first: async () => {
    const worker = await fixture.connectWorker({ dialect: "first" });
    worker.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), ackRequested);
    await worker.nextFrame("control.ack");
    worker.sendFrame("control.register", olderRegisterPayload(), ackRequested);
    await worker.nextFrame("control.session.accept");
    return worker;
  },
  v1: async () => {
    const worker = await fixture.connectWorker({ dialect: "v1" });
    worker.sendFrame("handshake", handshakePayloadV1(), ackRequested);
    worker.sendFrame("register", olderRegisterPayload(), ackRequested);
    await worker.nextFrame("ack");
    await worker.nextFrame("ack");
    return worker;
  },
} as const;
type DialectName = keyof typeof opening;

const open = async (dialect: DialectName): Promise<{ worker: FakeWorker; session: string }> => {
  const worker = await opening[dialect]();
  const { session } = await fixture.engine.nextCommand("worker.join");
  return { worker, session };
};

const words = {
  v2: { dispatch: "biz.exec.dispatch", request: "biz.exec.next.request", response: "biz.exec.next.response" },
  first: { dispatch: "biz.exec.dispatch", request: "biz.exec.next.request", response: "biz.exec.next.response" },
  v1: { dispatch: "cmd.dispatch", request: "middleware.next_request", response: "middleware.next_response" },
} as const;

const answerTo = (session: string, more: Partial<SendNextAnswer> = {}): SendNextAnswer => ({
  type: "next",
  session,
  worker: "default/w-1",
  tenant: "default",
  run,
  task,
  node: "m-1",
  request: "next-3",
  result: '{"echo":"hi"}',
  error: null,
  trace: { target: "h-1" },
  ...more,
});

describe("dispatches into a chain", () => {
  const refs = [
    { resource: "file-1", workerName: "painter", type: "file", scope: "s", expiresAt: 86_400_000, metadata: { of: "cat" } },
  ];

  for (const dialect of ["v2", "first", "v1"] as const)
    it(`[D99] a dispatch in ${dialect} carries its host, middleware chain, affinity and resource references`, async () => {
      const { worker, session } = await open(dialect);
      const affinity = { key: "model-7", mode: "sticky", expiresAt: 1_000 } as const;

      fixture.engine.emitEffects(sampleDispatch(session, task, 7, { ...chain, resourceRefs: refs, affinity }));

      const { payload } = await worker.nextFrame(words[dialect].dispatch);
      expect(payload).toMatchObject({ host_node_id: "h-1", middleware_chain: ["m-1", "m-2"], chain_index: 0 });
      expect(payload["affinity"]).toEqual({ key: "model-7", mode: "sticky", expires_at: "1970-01-01T00:00:01.000Z" });
      const whose = dialect === "v1" ? { worker_id: "painter" } : { worker_name: "painter" };
      const rest = { type: "file", scope: "s", expires_at: "1970-01-02T00:00:00.000Z", metadata: { of: "cat" } };
      expect(payload["resource_refs"]).toEqual([{ resource_id: "file-1", ...whose, ...rest }]);
    });

  it("[D99] a dispatch without chain, resources or affinity has none of their fields", async () => {
    const { worker, session } = await open("first");

    fixture.engine.emitEffects(sampleDispatch(session, task, 7));

    const { payload } = await worker.nextFrame("biz.exec.dispatch");
    const company = ["host_node_id", "middleware_chain", "chain_index", "resource_refs", "affinity"];
    expect(Object.keys(payload).filter((key) => company.includes(key))).toEqual([]);
  });

  it("[D100] a dispatch too large for a frame of the dialect ends with E.FRAME.TOO_LARGE, counting its resource references too", async () => {
    const { session } = await open("first");
    const large = refs.map((ref) => ({ ...ref, metadata: { text: "x".repeat(600_000) } }));

    fixture.engine.emitEffects(
      sampleDispatch(session, task, 7, { params: JSON.stringify({ text: "y".repeat(600_000) }), resourceRefs: large }),
    );

    expect(await fixture.engine.nextCommand("task.error")).toMatchObject({ task, fence: 7, code: "E.FRAME.TOO_LARGE" });
  });
});

describe("calls into a chain", () => {
  it("[D101] a protocol 2 worker's next request names its attempt and becomes one command with all its fields", async () => {
    const { worker, session } = await open("v2");
    const more = { task_id: task, fence: 7, payload: { text: "x" }, hostCtx: { h: 1 }, middlewareCtx: { m: 2 } };

    worker.sendWorkFrame("biz.exec.next.request", { ...request, ...more }, { corr: task });

    expect(await fixture.engine.nextCommand("task.next")).toEqual({
      type: "task.next",
      tenant: "default",
      worker: "default/w-1",
      session,
      task,
      fence: 7,
      request: "next-3",
      payload: '{"text":"x"}',
      hostCtx: '{"h":1}',
      middlewareCtx: '{"m":2}',
      timeoutMs: 500,
    });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 0 });
  });

  for (const dialect of ["first", "v1"] as const)
    it(`[D101] a next request of ${dialect} is matched by run and node to an attempt of its session, and answered in that dialect's frames`, async () => {
      const { worker, session } = await open(dialect);
      fixture.engine.emitEffects(sampleDispatch(session, task, 7, chain));
      await worker.nextFrame(words[dialect].dispatch);

      worker.sendWorkFrame(words[dialect].request, request);
      expect(await fixture.engine.nextCommand("task.next")).toMatchObject({ task, fence: 7, request: "next-3", payload: null });
      fixture.engine.emitEffects(answerTo(session));

      const { payload, corr } = await worker.nextFrame(words[dialect].response);
      expect(corr).toBe("next-3");
      const names = { requestId: "next-3", runId: run, nodeId: "m-1", middlewareId: "m-1" };
      expect(payload).toEqual({ ...names, result: { echo: "hi" }, trace: { target: "h-1" } });
    });

  it("[D101] next requests of a node that runs several times at once are distinguished by the task in corr", async () => {
    const { worker, session } = await open("first");
    const other = `${run}.4*1/9`;
    fixture.engine.emitEffects(sampleDispatch(session, task, 7, chain), sampleDispatch(session, other, 8, chain));
    await worker.nextFrame("biz.exec.dispatch");

    worker.sendWorkFrame("biz.exec.next.request", request, { corr: task });

    expect(await fixture.engine.nextCommand("task.next")).toMatchObject({ task, fence: 7 });
  });

  it("[D102] a next request that belongs to no attempt is answered next_no_chain at once, and acked", async () => {
    const { worker } = await open("v2");

    worker.sendWorkFrame("biz.exec.next.request", request);

    expect((await worker.nextFrame("biz.exec.next.response")).payload).toMatchObject({ error: { code: "next_no_chain" } });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 0 });
    expect(fixture.engine.commands.filter((command) => command.type === "task.next")).toEqual([]);
  });

  it("[D102] a next request that the engine refuses is answered next_unavailable; one that it could not store closes the session unanswered", async () => {
    const { worker } = await open("v1");
    fixture.engine.answerWith("task.next", () => ({ fault: { code: "E.SESSION.STALE_BINDING", message: "not yours any more" } }));
    worker.sendWorkFrame("middleware.next_request", request, { corr: task });
    expect((await worker.nextFrame("middleware.next_response")).payload).toMatchObject({
      error: { code: "next_unavailable", message: "not yours any more" },
    });
    fixture.engine.answerWith("task.next", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));

    worker.sendWorkFrame("middleware.next_request", { ...request, requestId: "next-4" }, { corr: task });

    expect((await worker.nextFrame("error")).payload).toMatchObject({ code: "E.STORE.BUSY" });
    await worker.closed;
    expect(worker.frames.filter(({ type }) => type === "middleware.next_response")).toHaveLength(1);
  });

  it("[D103] a next request is answered with an error where the result is too large for a frame of the dialect", async () => {
    const { worker, session } = await open("first");

    fixture.engine.emitEffects(answerTo(session, { result: JSON.stringify({ text: "é".repeat(600_000) }) }));
    fixture.engine.emitEffects(
      answerTo(session, { request: "next-4", result: null, error: { code: "next_failed", message: "it threw" } }),
    );

    const first = await worker.nextFrame("biz.exec.next.response");
    expect(first.payload).toMatchObject({ error: { code: "E.FRAME.TOO_LARGE" } });
    worker.sendFrame("control.ack", { ok: true, for: first.id }, { ack: { for: first.id } });
    const second = (await worker.nextFrame("biz.exec.next.response")).payload;
    expect(second).toMatchObject({ requestId: "next-4", error: { code: "next_failed", message: "it threw" } });
    expect(second).not.toHaveProperty("result");
  });

  it("[D101] the list of middleware attempts contains only middlewares, and none that has ended", () => {
    const held = new MiddlewareAttempts();
    held.add({ ...sampleDispatch("s", "r.1", 3).dispatch, ...chain });
    held.add({ ...sampleDispatch("s", "r.2", 4).dispatch, node: "h-1" });

    expect(held.find("r", ["m-1"], null)).toEqual({ task: "r.1", fence: 3 });
    expect(held.find("r", ["h-1"], null)).toBeNull();
    held.add({ ...sampleDispatch("s", "r.1", 5).dispatch, ...chain });
    expect(held.find("r", ["m-1"], null)).toEqual({ task: "r.1", fence: 5 });
    held.remove("r.1");
    expect(held.find("r", ["m-1"], null)).toBeNull();
  });
});

describe("what results and feedback bring along", () => {
  const result = { run_id: run, task_id: task, status: "SUCCEEDED", result: {} };
  const artifact = { resource_id: "file-1", type: "file", size_bytes: 9, expires_at: "1970-01-01T00:00:02Z" };

  it("[D104] artifacts and metadata of a result are passed to the engine, but not the owner that the frame names for an artifact", async () => {
    const { worker } = await open("v2");
    const artifacts = [{ ...artifact, worker_name: "somebody else", metadata: { text: "x".repeat(5_000) } }];

    worker.sendWorkFrame("biz.exec.result", { ...result, fence: 7, artifacts, metadata: { tokens: 3 } });

    const command = await fixture.engine.nextCommand("task.result");
    expect(command.artifacts).toEqual([{ resource: "file-1", type: "file", sizeBytes: 9, expiresAt: 2_000 }]);
    expect(command.metadata).toBe('{"tokens":3}');
  });

  it("[D104] artifacts of a protocol 1 result are read the same way, and metadata that is too large is marked as truncated", async () => {
    const { worker } = await open("v1");

    worker.sendWorkFrame("result", {
      ...result,
      artifacts: [{ ...artifact, worker_id: "w" }],
      metadata: { text: "x".repeat(70_000) },
    });

    const command = await fixture.engine.nextCommand("task.result");
    expect(command.artifacts).toMatchObject([{ resource: "file-1" }]);
    expect(command.metadata).toBe('{"truncated":true}');
  });

  it("[D105] a feedback chunk is kept as text or valid base64, and truncated feedback keeps its metrics and results", async () => {
    const { worker } = await open("v2");
    const ids = { run_id: run, task_id: task, fence: 7 };
    const base = { channel: "stdout", mime_type: "image/png" };

    worker.sendWorkFrame("biz.exec.feedback", {
      ...ids,
      chunks: [
        { ...base, index: 0, data_base64: "aGk=" },
        { ...base, index: 1, text: "hi", data_base64: "aGk=" },
        { ...base, index: 2, data_base64: "%%%" },
      ],
    });
    expect((await fixture.engine.nextCommand("task.feedback")).data["chunks"]).toEqual([
      { ...base, index: 0, data_base64: "aGk=" },
      { ...base, index: 1, text: "hi" },
    ]);
    worker.sendWorkFrame("biz.exec.feedback", {
      ...ids,
      metrics: { loss: 0.5 },
      metadata: { results: { a: 1 } },
      chunks: [{ ...base, index: 3, data_base64: "A".repeat(80_000) }],
    });

    const { data } = await fixture.engine.nextCommand("task.feedback");
    expect(data).toEqual({ metrics: { loss: 0.5 }, metadata: { results: { a: 1 } }, truncated: true });
  });
});

describe("commands about packages", () => {
  it("[D106] package commands are sent under their own id in the frames of each dialect", async () => {
    const order = { type: "pkg.install", name: "p", version: "1.0.0", url: "https://x.test/p.cwx" } as const;
    for (const dialect of ["v2", "v1"] as const) {
      const { worker, session } = await open(dialect);
      const to = { session, worker: "default/w-1", tenant: "default" };

      fixture.engine.emitEffects({ type: "order", ...to, id: "c-1", order });
      fixture.engine.emitEffects({ type: "order", ...to, id: "c-2", order: { type: "pkg.uninstall", name: "p", version: null } });

      const { type: _, ...rest } = order;
      const own = (id: string) => (dialect === "v2" ? { command_id: id } : {});
      const install = await worker.nextFrame(dialect === "v2" ? "biz.pkg.install" : "pkg.install");
      expect(install).toMatchObject({ id: "c-1", corr: "c-1" });
      expect(install.payload).toEqual({ ...rest, ...own("c-1") });
      const uninstall = await worker.nextFrame(dialect === "v2" ? "biz.pkg.uninstall" : "pkg.uninstall");
      expect(uninstall.payload).toEqual({ name: "p", ...own("c-2") });
      worker.socket.terminate();
      await fixture.engine.nextCommand("worker.leave");
    }
  });

  it("[D107] a worker's package event is reported to the engine, and so is its refusal of a package command", async () => {
    const { worker, session } = await open("v2");
    worker.sendWorkFrame("biz.pkg.event", {
      name: "p",
      version: "1.0.0",
      status: "removed",
      command_id: "c-9",
      details: { why: "asked" },
    });
    expect(await fixture.engine.nextCommand("worker.package")).toMatchObject({
      name: "p",
      version: "1.0.0",
      status: "removed",
      details: { why: "asked", command: "c-9" },
    });
    const order = { type: "pkg.install", name: "p", version: "2.0.0" } as const;
    fixture.engine.emitEffects({ type: "order", session, worker: "default/w-1", tenant: "default", id: "c-1", order });
    await worker.nextFrame("biz.pkg.install");

    worker.sendFrame("control.ack", { ok: false, for: "c-1", info: "not handled here", ack_seq: 0 }, { ack: { for: "c-1" } });

    expect(await fixture.engine.nextCommand("worker.package")).toMatchObject({
      version: "2.0.0",
      status: "failed",
      details: { command: "c-1", reason: "not handled here" },
    });
  });

  it("[D108] manifests in a worker's register or catalogue frame are passed on to be recorded", async () => {
    const shown: string[] = [];
    await fixture.stop();
    fixture = await openDoorsFixture({
      recordManifests: (tenant, all) => void shown.push(...all.map(({ name, version }) => `${tenant} ${name} ${version}`)),
    });
    const { worker } = await open("first");
    const manifests = [{ name: "p", version: "1.0.0", manifest: { name: "p" } }];

    worker.sendFrame("control.register", olderRegisterPayload({ manifests }), ackRequested);
    await fixture.engine.nextCommand("worker.describe");
    const { worker: ours } = await open("v2");
    ours.sendWorkFrame("biz.pkg.catalog", { packages: [{ name: "q", version: "2.0.0", status: "installed", manifest: {} }] });
    await fixture.engine.nextCommand("worker.describe");

    expect(shown).toEqual(["default p 1.0.0", "default q 2.0.0"]);
  });
});
