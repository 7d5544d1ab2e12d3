import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { type FakeWorker, handshakePayload, handshakePayloadV1, olderRegisterPayload } from "../../testing/fake-worker.ts";

const ackRequested = { ack: { request: true } };
const good = (task: string) => ({ run_id: "r", task_id: task, status: "SUCCEEDED", result: {}, fence: 7 });
const bad = (task: string) => ({ ...good(task), status: "DONE" });

describe("a frame of work whose payload does not fit its type", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());
  const reportedOutcomes = () =>
    fixture.engine.commands.flatMap((command) =>
      command.type === "task.result" || command.type === "task.error" ? [`${command.type} ${command.task}`] : [],
    );
  const joinV1 = async (): Promise<FakeWorker> => {
    const worker = await fixture.connectWorker({ dialect: "v1" });
    worker.sendFrame("handshake", handshakePayloadV1(), ackRequested);
    worker.sendFrame("register", olderRegisterPayload(), ackRequested);
    for (let n = 0; n < 2; n += 1) await worker.nextFrame("ack");
    return worker;
  };

  it("[D43] a work frame with an invalid payload is refused by id with the wrong field, acked, counted and logged, and the session continues", async () => {
    const { engine, metrics, environment } = fixture;
    const worker = await fixture.openSession();

    const id = worker.sendWorkFrame("biz.exec.feedback", { run_id: "r", task_id: "r.0", progress: 7 }, { corr: "r.0#7" });

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({
      ok: false,
      for: id,
      info: expect.stringMatching(/^E\.FRAME\.INVALID: .*payload\.progress/),
      ack_seq: 0,
    });
    expect(metrics.render()).toContain('ws_frame_refused_total{tenant="default",code="E.FRAME.INVALID"} 1');
    expect(environment.logRecords).toContainEqual(
      expect.objectContaining({ event: "session.misfit", code: "E.FRAME.INVALID", type: "biz.exec.feedback", id, seq: 0 }),
    );
    worker.sendWorkFrame("biz.exec.result", good("r.0"));
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 1 });
    expect(reportedOutcomes()).toEqual(["task.result r.0"]);
    expect(engine.commands.filter((command) => command.type === "worker.leave")).toEqual([]);
  });

  const outcomes: readonly (readonly [
    what: string,
    type: string,
    payload: object,
    more: Record<string, unknown>,
    fence: number | null,
  ])[] = [
    ["a result with a fence of its own", "biz.exec.result", bad("r.0"), {}, 7],
    ["a result that points back to its dispatch", "biz.exec.result", { ...bad("r.0"), fence: "x" }, { corr: "r.0#9" }, 9],
    ["a result that names its task in corr alone", "biz.exec.result", { status: "DONE" }, { corr: "r.0#9" }, 9],
    ["a result without any fence", "biz.exec.result", { ...bad("r.0"), fence: -1 }, {}, null],
    ["an error", "biz.exec.error", { task_id: "r.0", fence: 7, code: 5, message: "m" }, {}, 7],
    ["an error that names it in its details", "biz.exec.error", { code: 5, context: { details: { task_id: "r.0" } } }, {}, null],
  ];
  it.each(outcomes)(
    "[D43] an invalid work frame (%s) ends its attempt with E.FRAME.INVALID and the reason, and is acked once that is stored",
    async (...row) => {
      const [, type, payload, more, fence] = row;
      const { engine } = fixture;
      const worker = await fixture.openSession();
      engine.holdAnswers("task.error");

      const id = worker.sendWorkFrame(type, payload, more);
      expect(await engine.nextCommand("task.error")).toMatchObject({
        tenant: "default",
        worker: "default/w-1",
        task: "r.0",
        fence,
        code: "E.FRAME.INVALID",
        message: expect.stringMatching(/invalid result frame: payload/),
      });
      await worker.untilProcessed();
      expect(worker.frames).toHaveLength(3);
      engine.releaseAnswers("task.error");

      expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: false, for: id, ack_seq: 0 });
    },
  );

  it("[D43] an invalid work frame is never acked when the end of its attempt could not be stored: the session is reset", async () => {
    const worker = await fixture.openSession();
    fixture.engine.answerWith("task.error", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));

    worker.sendWorkFrame("biz.exec.result", bad("r.0"));

    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.STORE.BUSY" });
    expect(worker.frames.filter((frame) => frame.type === "control.ack")).toHaveLength(2);
  });

  it("[D43] an invalid work frame without a task id, or with an unusable or overlong one, reports no task to the engine", async () => {
    const worker = await fixture.openSession();

    for (const task_id of [undefined, "", 7, "x".repeat(2_000), { deep: 1 }])
      worker.sendWorkFrame("biz.exec.result", { ...bad("r.0"), task_id });
    worker.sendWorkFrame("biz.pkg.event", { name: "demo" });
    worker.sendWorkFrame("biz.exec.next.request", { requestId: 1 });
    worker.sendWorkFrame("biz.exec.result", good("r.1"));

    expect(await fixture.engine.nextCommand("task.result")).toMatchObject({ task: "r.1" });
    expect(reportedOutcomes()).toEqual(["task.result r.1"]);
  });

  it("[D43] invalid items of a result batch do not affect the valid ones: those count, the invalid ones end their attempts, the frame is refused by id", async () => {
    const { engine } = fixture;
    const worker = await fixture.openSession({ features: ["batch", "fence"] });
    engine.holdAnswers("task.result");

    const items = [good("r.0"), bad("r.1"), { task_id: 5 }, good("r.2")];
    const id = worker.sendWorkFrame("biz.exec.result.batch", { items });
    expect(await engine.nextCommand("task.error")).toMatchObject({ task: "r.1", fence: 7, code: "E.FRAME.INVALID" });
    await worker.untilProcessed();
    expect(worker.frames).toHaveLength(3);
    engine.releaseAnswers("task.result");

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({
      ok: false,
      for: id,
      info: expect.stringContaining("items"),
      ack_seq: 0,
    });
    expect(reportedOutcomes()).toEqual(["task.result r.0", "task.error r.1", "task.result r.2"]);
    worker.sendWorkFrame("biz.exec.result.batch", { items: Array.from({ length: 65 }, () => good("r.3")) });
    worker.sendWorkFrame("biz.exec.result.batch", { items: "many" });
    for (let n = 1; n < 3; n += 1) expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: false });
    expect(reportedOutcomes()).toHaveLength(3);
  });

  it("[D43] an invalid protocol 1 result is refused in its ack and reported in an error frame, and its attempt ends", async () => {
    const { engine } = fixture;
    const worker = await joinV1();

    const id = worker.sendFrame("result", { ...bad("r.0"), fence: undefined }, { corr: "r.0", ...ackRequested });

    expect(await worker.nextFrame("error")).toMatchObject({
      corr: id,
      payload: { code: "E.FRAME.INVALID", message: expect.stringContaining("payload.status") },
    });
    expect(await engine.nextCommand("task.error")).toMatchObject({ task: "r.0", fence: null, code: "E.FRAME.INVALID" });
    expect((await worker.nextFrame("ack")).payload).toMatchObject({ ok: false, for: id });
    worker.sendFrame("result", { ...good("r.1"), fence: undefined }, { corr: "r.1", ...ackRequested });
    expect((await worker.nextFrame("ack")).payload).toMatchObject({ ok: true });
  });

  it("[D43] a first-generation result with an added field is refused, and its session continues", async () => {
    const worker = await fixture.connectWorker({ dialect: "first" });
    worker.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), ackRequested);
    worker.sendFrame("control.register", olderRegisterPayload(), ackRequested);
    await worker.nextFrame("control.session.accept");

    const id = worker.sendWorkFrame("biz.exec.result", { ...good("r.0"), fence: undefined, extra: "fine" }, { corr: "r.0#7" });

    expect(await fixture.engine.nextCommand("task.error")).toMatchObject({ task: "r.0", fence: 7 });
    await worker.untilProcessed();
    const acks = worker.frames.flatMap((frame) => (frame.payload["for"] === id ? [frame.payload] : []));
    expect(acks).toMatchObject([{ ok: false, ack_seq: 1 }]);
    expect(worker.frames.map((frame) => frame.type)).not.toContain("control.reset");
  });

  it("[D43] an invalid catalogue or inventory right after the accept counts as not received", async () => {
    const worker = await fixture.connectWorker();
    worker.sendFrame("control.handshake", handshakePayload(), ackRequested);
    worker.sendFrame("control.register", { capabilities: { concurrency: { max_parallel: 2 } } }, ackRequested);
    for (let n = 0; n < 2; n += 1) await worker.nextFrame("control.ack");
    await worker.nextFrame("control.session.accept");

    worker.sendWorkFrame("biz.pkg.catalog", { packages: "all" });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: false, ack_seq: 0 });
    worker.sendWorkFrame("biz.exec.inventory", { running: 7 });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: false, ack_seq: 1 });
    worker.sendWorkFrame("biz.pkg.catalog", {
      packages: [{ name: "demo", version: "1.0.0", status: "installed", manifest: {} }],
    });
    worker.sendWorkFrame("biz.exec.inventory", { running: [] });

    expect((await fixture.engine.nextCommand("worker.describe")).about.packages).toEqual([
      { name: "demo", version: "1.0.0", status: "installed" },
    ]);
    expect((await fixture.engine.nextCommand("worker.beat")).held).toEqual([]);
  });
});
