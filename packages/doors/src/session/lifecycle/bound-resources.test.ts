import type { PageQuery, SendDispatch } from "@astraflow/engine";
import { readManifest } from "@astraflow/protocol";
import {
  createDocumentBlobStore,
  dispatchResourceLimits,
  grantIdPrefix,
  grantPut,
  type ResourceGrantRecord,
  resourcePut,
} from "@astraflow/services";
import { createFakeDocumentStore, type FakeDocumentStore, sampleGrant, sampleManifest } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import {
  type FakeWorker,
  handshakePayload,
  handshakePayloadV1,
  olderRegisterPayload,
  registerPayload,
} from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const secret = "hunter2-of-the-house";
const needing = { packageName: "mail", packageVersion: "1.0.0" };
const needs = { requirements: { resources: [{ key: "smtp", type: "secret" }] } };
const mail = () => ({ ...sampleManifest("mail", "1.0.0"), ...needs });
const grant: ResourceGrantRecord = sampleGrant(`${grantIdPrefix("mail")}g1`);
const mailInstalled = [{ name: "mail", version: "1.0.0", status: "installed" }];
const bound = { __resourceBindings: { smtp: expect.objectContaining({ resourceId: "r1", value: secret }) } };

interface BinderFixture {
  readonly fixture: DoorsFixture;
  readonly docs: FakeDocumentStore;
  readonly worker: FakeWorker;
  readonly session: string;
  /** Reads of this collection wait from now on, until the returned function is called. */
  hold(collection: string): () => void;
  send(task: string, fence: number, more?: Partial<SendDispatch["dispatch"]>): void;
  nextParams(): Promise<Record<string, unknown>>;
  /** Whatever can be done without waiting for anybody is done. */
  settle(): Promise<void>;
  dispatched(): string[];
}

const fixtures: DoorsFixture[] = [];
afterEach(async () => {
  for (const fixture of fixtures.splice(0)) await fixture.stop();
});

async function* once(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text);
}

/** A fixture in which `mail` asks for a secret that is granted, `demo` for nothing, and of one worker. */
async function openWithResources(
  options: { grants?: readonly ResourceGrantRecord[]; value?: string; isKept?: boolean } = {},
): Promise<BinderFixture> {
  const { grants = [grant], value = secret, isKept = true } = options;
  const docs = createFakeDocumentStore();
  const { engine } = docs;
  const manifest = readManifest(mail());
  const kept = { collection: "package", name: "mail/1.0.0", body: JSON.stringify({ manifest, digest: "" }) };
  const meta = { provider: "db", filename: "key", mimeType: null, sha256: "a", metadata: null } as const;
  const resource = { id: "r1", sizeBytes: value.length, createdAt: 1, owner: "ann", visibility: "private", ...meta } as const;
  docs.write({ tenant: "default", puts: [resourcePut(resource, 0), ...grants.map(grantPut), ...(isKept ? [kept] : [])] });
  await createDocumentBlobStore(docs).write({ tenant: "default", name: "r1" }, once(value), 1_000_000);
  const held = new Map<string, Promise<void>>();
  const reader = {
    ...docs.reader,
    page: (async (query: PageQuery) => {
      if ("collection" in query) await held.get(query.collection);
      return docs.reader.page(query as never);
    }) as typeof docs.reader.page,
  };
  const fixture = await openDoorsFixture({ engineClient: docs.engineClient, reader });
  fixtures.push(fixture);
  const worker = await fixture.openSession();
  const { session } = await engine.nextCommand("worker.join");
  return {
    fixture,
    docs,
    worker,
    session,
    hold(collection) {
      const gate = Promise.withResolvers<void>();
      held.set(collection, gate.promise);
      return () => {
        held.delete(collection);
        gate.resolve();
      };
    },
    send: (task, fence, more = {}) => engine.emitEffects(sampleDispatch(session, task, fence, { ...needing, ...more })),
    nextParams: async () => (await worker.nextFrame("biz.exec.dispatch")).payload["parameters"] as Record<string, unknown>,
    async settle() {
      for (let n = 0; n < 3; n += 1) await worker.untilProcessed();
    },
    dispatched: () =>
      worker.frames
        .filter((frame) => frame.type === "biz.exec.dispatch")
        .map((frame) => `${String(frame.payload["task_id"])}#${String(frame.payload["fence"])}`),
  };
}

describe("resources for a task on its way to a worker", () => {
  it("[D130] granted resources are put into the parameters of a dispatch, replacing whatever is there under the reserved names", async () => {
    const { send, nextParams } = await openWithResources();

    send("r.0", 7, { params: '{"to":"ann","__resourceBindings":{"smtp":"mine"},"__resourceBindingErrors":[]}' });

    expect(await nextParams()).toEqual({ to: "ann", ...bound });
  });

  it("[D130] a resource granted to a workflow is bound in that workflow's runs only, and there takes precedence over one granted to all", async () => {
    const own = { ...grant, id: `${grantIdPrefix("mail")}g2`, scope: "workflow", workflowId: "w-1", resourceId: "gone" } as const;
    const { send, nextParams } = await openWithResources({ grants: [grant, own] });

    send("r.0", 1, { workflow: "w-1" });
    const first = await nextParams();
    send("r.1", 1, { workflow: "w-2" });
    const second = await nextParams();
    send("r.2", 1);

    expect(first["__resourceBindingErrors"]).toEqual([{ key: "smtp", error: "resource_not_found", resourceId: "gone" }]);
    expect(second).toMatchObject(bound);
    expect(await nextParams()).toMatchObject(bound);
  });

  it("[D131] a dispatch whose package needs no resources is not delayed, and overtakes those that wait for theirs", async () => {
    const { send, docs, hold, settle, dispatched } = await openWithResources();
    send("r.0", 1, { packageName: "demo" });
    await settle();
    const release = hold("grant");
    const asked = docs.queries.length;

    send("r.1", 1);
    send("r.2", 1, { packageName: "demo" });
    await settle();
    expect(dispatched()).toEqual(["r.0#1", "r.2#1"]);
    expect(docs.queries.slice(asked).some((query) => query.page === "doc" && query.names.includes("demo/1.0.0"))).toBe(false);
    release();
    await settle();

    expect(dispatched()).toEqual(["r.0#1", "r.2#1", "r.1#1"]);
  });

  it("[D131] the resource needs in a manifest that a worker has just registered apply to its first task already", async () => {
    const { fixture, docs, hold } = await openWithResources({ isKept: false });
    const release = hold("package");
    const worker = await fixture.connectWorker({ instance: "w-2" });
    const greeting = handshakePayload();
    worker.sendFrame("control.handshake", { ...greeting, worker: { ...greeting.worker, worker_instance_id: "w-2" } });
    worker.sendFrame("control.register", registerPayload({ manifests: [{ name: "mail", version: "1.0.0", manifest: mail() }] }));
    await worker.nextFrame("control.session.accept");
    const { session } = await docs.engine.nextCommand("worker.join");

    docs.engine.emitEffects(sampleDispatch(session, "r.0", 1, needing));
    release();

    expect((await worker.nextFrame("biz.exec.dispatch")).payload["parameters"]).toMatchObject(bound);
  });

  it("[D141] a worker gets the resources that its own manifest asks for, though another worker's manifest of the version asks for others", async () => {
    const { fixture, docs, send, nextParams } = await openWithResources();
    const { requirements: _, ...asksForNothing } = mail();
    const connect = async (instance: string, manifest: object) => {
      const worker = await fixture.connectWorker({ instance });
      const greeting = handshakePayload();
      worker.sendFrame("control.handshake", { ...greeting, worker: { ...greeting.worker, worker_instance_id: instance } });
      worker.sendFrame(
        "control.register",
        registerPayload({ packages: mailInstalled, manifests: [{ ...mailInstalled[0], manifest }] }),
      );
      await worker.nextFrame("control.session.accept");
      const { session } = await docs.engine.nextCommand("worker.join");
      return { worker, session };
    };
    const asking = await connect("w-2", mail());
    const modest = await connect("w-3", asksForNothing);

    const paramsAt = async ({ worker, session }: typeof asking, task: string) => {
      docs.engine.emitEffects(sampleDispatch(session, task, 1, needing));
      return (await worker.nextFrame("biz.exec.dispatch")).payload["parameters"];
    };

    expect(await paramsAt(asking, "r.0")).toMatchObject(bound);
    expect(await paramsAt(modest, "r.1")).not.toHaveProperty("__resourceBindings");
    expect(await paramsAt(asking, "r.2")).toMatchObject(bound);
    // One that announced no manifest is served by the one announced last.
    send("r.3", 1);
    expect(await nextParams()).not.toHaveProperty("__resourceBindings");
  });

  it("[D132] resources that are not found in time are reported as unavailable in the dispatch, which is sent anyway", async () => {
    const { send, fixture, hold, settle, dispatched, nextParams } = await openWithResources();
    hold("grant");

    send("r.0", 1);
    await settle();
    fixture.environment.advance(dispatchResourceLimits.lookupMs - 1);
    await settle();
    expect(dispatched()).toEqual([]);
    fixture.environment.advance(1);

    expect(await nextParams()).toEqual({
      text: "hi",
      __resourceBindingErrors: [{ key: "smtp", error: "resource_value_unavailable" }],
    });
    expect(fixture.environment.logRecords).toContainEqual(
      expect.objectContaining({ event: "bindings.unavailable", task: "r.0" }),
    );
  });

  it("[D132] resources without a grant are reported as errors in the dispatch, which is sent anyway", async () => {
    const { send, nextParams } = await openWithResources({ grants: [] });

    send("r.0", 1);

    expect(await nextParams()).toEqual({ text: "hi", __resourceBindingErrors: [{ key: "smtp", error: "missing_grant" }] });
  });

  it("[D133] an attempt stopped while its resources are looked up is never dispatched, but the task's next attempt is", async () => {
    const { send, docs, session, hold, settle, dispatched } = await openWithResources();
    const release = hold("grant");
    const why = { code: "E.SESSION.STALE_BINDING", reason: "taken back" };
    const names = { session, worker: "default/w-1", tenant: "default", run: "r", task: "r.0" };

    send("r.0", 1);
    send("r.1", 1);
    docs.engine.emitEffects({ type: "stop", ...names, fence: 1, ...why });
    docs.engine.emitEffects({ type: "stop", ...names, task: "r.1", fence: 1, ...why });
    send("r.0", 2);
    send("r.0", 2);
    // A late stop of the attempt before: not about this one.
    docs.engine.emitEffects({ type: "stop", ...names, fence: 1, ...why });
    release();
    await settle();

    expect(dispatched()).toEqual(["r.0#2"]);
  });

  it("[D133] an attempt that the worker ends while its resources are looked up is never dispatched", async () => {
    const { send, worker, hold, settle, dispatched } = await openWithResources();
    const release = hold("grant");

    send("r.0", 1);
    send("r.1", 2);
    for (const task_id of ["r.0", "r.1"])
      worker.sendWorkFrame("biz.exec.result", { run_id: "r", task_id, status: "SUCCEEDED", result: {}, fence: 1 });
    await settle();
    release();
    await settle();

    // Of the second only an attempt before it has ended.
    expect(dispatched()).toEqual(["r.1#2"]);
  });

  it("[D133] a dispatch whose session ends while its resources are looked up is sent to nobody", async () => {
    const { send, worker, docs, session, fixture, hold } = await openWithResources();
    const release = hold("grant");
    send("r.0", 1);
    docs.engine.emitEffects({
      type: "reset",
      session,
      worker: "default/w-1",
      code: "E.SESSION.REPLACED",
      reason: "another came",
    });
    await worker.closed;

    release();
    const other = await fixture.openSession({ instance: "w-2" });
    await other.untilProcessed();

    expect([...worker.frames, ...other.frames].filter((frame) => frame.type === "biz.exec.dispatch")).toEqual([]);
    expect(fixture.environment.logRecords.filter((connection) => connection.level === "error")).toEqual([]);
  });

  it("[D133] a resent dispatch contains the resources it was first sent with, even when the grant has been revoked", async () => {
    const { send, fixture, docs, worker, nextParams } = await openWithResources();
    send("r.0", 1);
    const first = await nextParams();

    docs.write({ tenant: "default", puts: [], drops: [{ collection: "grant", name: grant.id, rev: 1 }] });
    fixture.environment.advance(10_000);
    const again = await worker.nextFrame("biz.exec.dispatch");

    expect(again.payload["parameters"]).toEqual(first);
  });

  it("[D134] tasks dispatched within a second share one lookup of grants, and a revoked grant is not used after that", async () => {
    const { send, fixture, docs, nextParams } = await openWithResources();
    const grantReads = () => docs.queries.filter((query) => query.page === "docs" && query.collection === "grant").length;
    send("r.0", 1);
    await nextParams();
    send("r.1", 1);
    await nextParams();
    expect(grantReads()).toBe(1);

    docs.write({ tenant: "default", puts: [], drops: [{ collection: "grant", name: grant.id, rev: 1 }] });
    fixture.environment.advance(dispatchResourceLimits.shareMs);
    send("r.2", 1);

    expect(await nextParams()).toMatchObject({ __resourceBindingErrors: [{ key: "smtp", error: "missing_grant" }] });
  });

  it("[D135] bound resources count towards the frame size limit of the worker's dialect", async () => {
    const value = "x".repeat(60_000);
    const { fixture, docs } = await openWithResources({ value });
    const worker = await fixture.connectWorker({ instance: "w-9", dialect: "v1" });
    worker.sendFrame("handshake", handshakePayloadV1({ worker: { id: "w-9", version: "0.1.0", hostname: "box" } }));
    worker.sendFrame("register", olderRegisterPayload());
    const { session } = await docs.engine.nextCommand("worker.join");
    const params = JSON.stringify({ text: "y".repeat(1024 * 1024 - 16 * 1024 - 30_000) });

    docs.engine.emitEffects(sampleDispatch(session, "r.0", 1, { ...needing, params }));

    expect(await docs.engine.nextCommand("task.error")).toMatchObject({ task: "r.0", fence: 1, code: "E.FRAME.TOO_LARGE" });
  });

  it("[D137] resource values are removed from whatever a worker sends back, at any depth", async () => {
    const { worker, docs } = await openWithResources();
    const given = { to: "ann", __resourceBindings: { smtp: { value: secret } }, __resourceBindingErrors: [] };
    const names = { run_id: "r", task_id: "r.0", fence: 1 };

    worker.sendWorkFrame("biz.exec.result", {
      ...names,
      status: "SUCCEEDED",
      result: { echo: [given] },
      metadata: { params: given },
    });
    worker.sendWorkFrame("biz.exec.feedback", {
      ...names,
      metadata: { results: given },
      chunks: [{ channel: "log", text: "hi", metadata: { given } }],
    });
    worker.sendWorkFrame("biz.exec.error", { ...names, code: "E.X", message: "no", context: { details: { params: given } } });
    worker.sendWorkFrame("biz.exec.next.request", {
      ...{ requestId: "q", runId: "r", nodeId: "n", middlewareId: "n", task_id: "r.0", fence: 1 },
      ...{ payload: given, hostCtx: { given }, middlewareCtx: given },
    });
    const commands = [
      await docs.engine.nextCommand("task.result"),
      await docs.engine.nextCommand("task.feedback"),
      await docs.engine.nextCommand("task.error"),
      await docs.engine.nextCommand("task.next"),
    ];

    expect(commands[0]).toMatchObject({ result: '{"echo":[{"to":"ann"}]}' });
    expect(commands[3]).toMatchObject({ payload: '{"to":"ann"}' });
    expect(JSON.stringify(commands)).not.toMatch(/hunter2|__resourceBinding/);
  });
});
