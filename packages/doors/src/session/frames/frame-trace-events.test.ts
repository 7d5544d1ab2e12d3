import { createSchemaReader, EventSchema, type ServerEvent } from "@astraflow/protocol";
import { SseTestReader } from "@astraflow/protocol/testing";
import type { CallerIdentity } from "@astraflow/services";
import { afterEach, describe, expect, it } from "vitest";
import { createTokenAuthenticator } from "../../auth/token-registry.ts";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayload, handshakePayloadV1, olderRegisterPayload, registerPayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const ackRequested = { ack: { request: true } };
const checked = createSchemaReader(EventSchema, { code: "E.INTERNAL", subject: "event", unknownKeys: "refuse" });

/** Reads events from a real socket, each by the published schema. */
async function follow(fixture: DoorsFixture, query: string, token = "secret-a") {
  const reply = await fetch(`${fixture.http}/api/v1/events?${query}`, { headers: { authorization: `Bearer ${token}` } });
  const reader = new SseTestReader(reply.status === 200 ? reply.body : null);
  const events = (): ServerEvent[] =>
    reader.events.flatMap(({ id, type, data }) => {
      if (data === null) return [];
      if (type === "stream.error") return [JSON.parse(data) as never];
      expect(id).toBeNull();
      return [checked.read(JSON.parse(data)) as ServerEvent];
    });
  // Once the first cursor has arrived, every later event is received.
  if (reply.status === 200) await reader.readUntil(({ text }) => text.includes("id: "));
  return {
    status: reply.status,
    reply,
    text: () => reader.text,
    /** All events up to the one that contains `part`. */
    until: async (part: string): Promise<ServerEvent[]> => {
      await reader.readUntil(({ text }) => text.includes(part) && text.endsWith("\n\n"));
      return events();
    },
    ended: async () => {
      await reader.readUntil(() => false);
      return events();
    },
    close: () => reader.close(),
  };
}

describe("frames for who looks on", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());

  it("[W170] wire.frame events report frames in both directions from the handshake on, with type, ids, numbers, bytes, run and task, but no payload", async () => {
    fixture = await openDoorsFixture();
    const reader = await follow(fixture, "topics=wire");
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");
    fixture.engine.emitEffects(sampleDispatch(session, "r.0", 7, { params: '{"key":"hidden"}' }));
    await worker.nextFrame("biz.exec.dispatch");
    worker.sendFrame("control.ack", { ok: true, for: "r.0#7", ack_seq: 0, ack_bitmap: 0 }, { id: "ack-1" });
    const payload = { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: { key: "hidden" }, fence: 7 };
    const result = worker.sendWorkFrame("biz.exec.result", payload, { corr: "r.0#7" });
    await worker.nextFrame("control.ack");
    const frames = (await reader.until(`"for":"${result}"`)).map(({ type, scope, meta, data }) => {
      expect([type, scope.tenant, scope.workerName, meta]).toEqual(["wire.frame", "default", "painter", { volatile: true }]);
      expect(data).toMatchObject({ kind: "wire.frame", workerName: "painter", bytes: expect.any(Number) });
      const { kind: _, workerName: __, bytes, ...rest } = data as ServerEvent<"wire.frame">["data"];
      expect(bytes).toBeGreaterThan(100);
      return rest;
    });

    expect(frames.map((frame) => [frame.direction, frame.type, frame.session === session])).toEqual([
      ["in", "control.handshake", false],
      ["out", "control.ack", false],
      ["in", "control.register", false],
      ["out", "control.ack", true],
      ["out", "control.session.accept", true],
      ["out", "biz.exec.dispatch", true],
      ["in", "control.ack", true],
      ["in", "biz.exec.result", true],
      ["out", "control.ack", true],
    ]);
    const ours = { session, direction: "out" };
    const theirs = { session, direction: "in" };
    const about = { run: "r", task: "r.0" };
    expect(frames.slice(5)).toEqual([
      { ...ours, type: "biz.exec.dispatch", id: "r.0#7", seq: 0, corr: "r.0", ack: { request: true }, ...about },
      { ...theirs, type: "control.ack", id: "ack-1", ack: { for: "r.0#7", seq: 0 }, ...about },
      { ...theirs, type: "biz.exec.result", id: result, seq: 0, corr: "r.0#7", ack: { request: true }, ...about },
      { ...ours, type: "control.ack", id: expect.any(String), ack: { for: result, seq: 0 } },
    ]);
    expect(reader.text()).not.toMatch(/hidden|secret-a|session-token|demo/);
    await reader.close();
  });

  it("[W170] wire.frame events name the tasks of a batch, and give older workers' frames the names of the present protocol", async () => {
    fixture = await openDoorsFixture({ isAlone: true });
    const reader = await follow(fixture, "topics=wire.frame&frameType=biz");
    const worker = await fixture.openSession({ features: ["batch", "fence"] });
    const { session } = await fixture.engine.nextCommand("worker.join");
    fixture.engine.emitEffects(sampleDispatch(session, "r.0", 7), sampleDispatch(session, "s.1", 8));
    await worker.nextFrame("biz.exec.dispatch.batch");
    const older = await fixture.connectWorker({ dialect: "v1", instance: "w-9" });
    const greeting = handshakePayloadV1();
    older.sendFrame("handshake", { ...greeting, worker: { ...greeting.worker, id: "w-9" } }, ackRequested);
    older.sendFrame("register", olderRegisterPayload(), ackRequested);
    for (let n = 0; n < 2; n += 1) await older.nextFrame("ack");
    const { session: second } = await fixture.engine.nextCommand("worker.join");
    fixture.engine.emitEffects(sampleDispatch(second, "t.0", 9, { run: "t" }));
    await older.nextFrame("cmd.dispatch");

    expect((await reader.until('"task":"t.0"')).map(({ data }) => data)).toMatchObject([
      { type: "biz.exec.dispatch.batch", tasks: ["r.0#7", "s.1#8"] },
      { workerName: "w-9", type: "biz.exec.dispatch", run: "t", task: "t.0" },
    ]);
    await reader.close();
  });

  it("[A351] wire.frame events of vendor frames show nothing of the payload, not even fields that have a meaning in other frames", async () => {
    fixture = await openDoorsFixture();
    const reader = await follow(fixture, "topics=wire&frameType=ext");
    const worker = await fixture.openSession();
    await fixture.engine.nextCommand("worker.join");
    worker.sendWorkFrame("ext.vendor.acme.login", { code: "hidden", ok: false, ack_seq: 7 });

    const [frame] = await reader.until("ext.vendor.acme.login");
    expect(frame?.data).toMatchObject({ type: "ext.vendor.acme.login", direction: "in" });
    expect(frame?.data).not.toHaveProperty("code");
    expect(JSON.stringify(frame?.data)).not.toMatch(/hidden|"ok"/);
  });

  it("[W171] frames of unauthenticated peers appear in no event stream, whatever tenant they name", async () => {
    fixture = await openDoorsFixture();
    const reader = await follow(fixture, "topics=wire");
    const stranger = await fixture.connectWorker();
    stranger.sendFrame("control.handshake", handshakePayload({ auth: { mode: "token", token: "wrong" } }), ackRequested);
    await stranger.closed;
    await fixture.openSession();

    const [first] = await reader.until("control.session.accept");
    expect(first?.data).toMatchObject({ type: "control.handshake", id: "control.handshake-0" });
    expect(reader.text()).not.toContain("control.reset");
    await reader.close();
  });

  it("[A307] wire.frame events are sent to callers who name the topic and may operate; a viewer who names it is refused, one who does not gets none", async () => {
    fixture = await openDoorsFixture();
    const refused = await follow(fixture, "topics=run,wire", "viewer");
    expect([refused.status, await refused.reply.json()]).toMatchObject([403, { error: "E.AUTH.FORBIDDEN" }]);
    const plain = await follow(fixture, "", "viewer");
    const other = await follow(fixture, "topics=wire", "secret-b");
    const worker = await fixture.openSession();

    worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 } }, ackRequested);
    await worker.nextFrame("control.ack");

    expect((await plain.until("worker.heartbeat")).map(({ type }) => type)).toEqual(["worker.heartbeat"]);
    expect(other.text()).not.toContain("data:");
    await Promise.all([plain.close(), other.close()]);
  });

  it("[A307] a stream of wire.frame events ends when the reader's token may no longer operate", async () => {
    const identity: { grants: CallerIdentity["grants"] } = { grants: ["view", "operate"] };
    const known = createTokenAuthenticator([{ token: "secret-a", tenant: "default", user: "ann", grants: ["worker"] }]);
    const authenticate: typeof known = (token, worker) =>
      token === "changing" ? { tenant: "default", user: "ann", grants: identity.grants } : known(token, worker);
    fixture = await openDoorsFixture({ authenticate });
    const reader = await follow(fixture, "topics=wire", "changing");

    identity.grants = ["view"];
    fixture.environment.advance(2_000);

    expect(await reader.ended()).toMatchObject([{ error: "E.AUTH.INVALID_TOKEN" }]);
  });

  it("[A310] GET /events refuses a filter by frame type without the wire topic", async () => {
    fixture = await openDoorsFixture();
    const refused = await follow(fixture, "frameType=control.ack");

    expect([refused.status, await refused.reply.json()]).toMatchObject([
      400,
      { error: "E.REQUEST.INVALID", details: { path: "query.frameType" } },
    ]);
  });
});

describe("heartbeats for who listens", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());

  it("[A301] heartbeats are published one by one once they are stored, with the values the worker sent", async () => {
    fixture = await openDoorsFixture();
    const worker = await fixture.openSession();
    const reader = await follow(fixture, "topics=worker&workerName=painter");
    fixture.engine.holdAnswers("worker.beat");
    fixture.engine.answerWith("worker.beat", ({ worker: id }) => ({
      body: { of: "worker", worker: id, draining: false, at: 5_000 },
    }));
    for (const cpu_pct of [1, 2]) {
      worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0, cpu_pct } }, ackRequested);
      await fixture.engine.nextCommand("worker.beat");
    }
    await worker.untilProcessed();
    expect(reader.text()).not.toContain("data:");
    fixture.engine.releaseAnswers("worker.beat");

    const events = await reader.until('"cpuPct":2');
    expect(events).toHaveLength(2);
    expect(events[0]).toEqual({
      version: "v1",
      type: "worker.heartbeat",
      occurredAt: new Date(5_000).toISOString(),
      scope: { tenant: "default", workerName: "painter" },
      meta: { volatile: true },
      data: {
        kind: "worker.heartbeat",
        workerName: "painter",
        at: new Date(5_000).toISOString(),
        queues: ["worker.w-1"],
        instanceId: "w-1",
        hostname: "box",
        version: "1.0.0",
        connected: true,
        registered: true,
        heartbeat: { healthy: true, metrics: { inflight: 0, cpuPct: 1 } },
      },
    });
    await reader.close();
  });

  it("[A301] heartbeats that could not be stored, or of workers other than those asked for, are not published", async () => {
    fixture = await openDoorsFixture();
    const reader = await follow(fixture, "topics=worker.heartbeat&workerName=painter");
    const worker = await fixture.openSession();
    const other = await fixture.connectWorker({ instance: "w-2" });
    const named = { ...handshakePayload().worker, worker_name: "other", worker_instance_id: "w-2" };
    other.sendFrame("control.handshake", handshakePayload({ worker: named }), ackRequested);
    other.sendFrame("control.register", registerPayload(), ackRequested);
    await other.nextFrame("control.session.accept");
    other.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 } }, ackRequested);
    await fixture.engine.nextCommand("worker.beat");
    await other.untilProcessed();
    let isBusy = true;
    fixture.engine.answerWith("worker.beat", ({ worker: id }) =>
      isBusy
        ? { fault: { code: "E.STORE.BUSY", message: "later" } }
        : { body: { of: "worker", worker: id, draining: false, at: 9_000 } },
    );
    worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 1 } }, ackRequested);
    await fixture.engine.nextCommand("worker.beat");
    await worker.untilProcessed();
    isBusy = false;
    worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 2 } }, ackRequested);

    expect((await reader.until('"inflight":2')).map(({ scope }) => scope.workerName)).toEqual(["painter"]);
    await reader.close();
  });
});
