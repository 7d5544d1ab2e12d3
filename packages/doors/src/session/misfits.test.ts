import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FakeWorker, handshake, handshakeV1, olderRegister } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";

const asks = { ack: { request: true } };
const good = (task: string) => ({ run_id: "r", task_id: task, status: "SUCCEEDED", result: {}, fence: 7 });
const bad = (task: string) => ({ ...good(task), status: "DONE" });

describe("a frame of work whose payload does not fit its type", () => {
  let house: House;
  beforeEach(async () => {
    house = await openHouse();
  });
  afterEach(() => house.stop());
  const told = () =>
    house.engine.commands.flatMap((command) =>
      command.type === "task.result" || command.type === "task.error" ? [`${command.type} ${command.task}`] : [],
    );
  const joinV1 = async (): Promise<FakeWorker> => {
    const worker = await house.dial({ dialect: "v1" });
    worker.say("handshake", handshakeV1(), asks);
    worker.say("register", olderRegister(), asks);
    for (let n = 0; n < 2; n += 1) await worker.next("ack");
    return worker;
  };

  it("[D43] is refused by name with the field that is wrong, settled, counted and logged, and the session goes on", async () => {
    const { engine, metrics, outside } = house;
    const worker = await house.worker();

    const id = worker.work("biz.exec.feedback", { run_id: "r", task_id: "r.0", progress: 7 }, { corr: "r.0#7" });

    expect((await worker.next("control.ack")).payload).toMatchObject({
      ok: false,
      for: id,
      info: expect.stringMatching(/^E\.FRAME\.INVALID: .*payload\.progress/),
      ack_seq: 0,
    });
    expect(metrics.text()).toContain('ws_frame_refused_total{tenant="default",code="E.FRAME.INVALID"} 1');
    expect(outside.lines).toContainEqual(
      expect.objectContaining({ event: "session.misfit", code: "E.FRAME.INVALID", type: "biz.exec.feedback", id, seq: 0 }),
    );
    worker.work("biz.exec.result", good("r.0"));
    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 1 });
    expect(told()).toEqual(["task.result r.0"]);
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
  it.each(outcomes)("[D43] as %s ends the attempt with that sentence, and is acked once that is stored", async (...row) => {
    const [, type, payload, more, fence] = row;
    const { engine } = house;
    const worker = await house.worker();
    engine.hold("task.error");

    const id = worker.work(type, payload, more);
    expect(await engine.next("task.error")).toMatchObject({
      tenant: "default",
      worker: "default/w-1",
      task: "r.0",
      fence,
      code: "E.FRAME.INVALID",
      message: expect.stringMatching(/could not be read: payload/),
    });
    await worker.settle();
    expect(worker.frames).toHaveLength(3);
    engine.release("task.error");

    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: false, for: id, ack_seq: 0 });
  });

  it("[D43] is never acked when that could not be stored: the session starts over and the word comes again", async () => {
    const worker = await house.worker();
    house.engine.answer("task.error", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));

    worker.work("biz.exec.result", bad("r.0"));

    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.STORE.BUSY" });
    expect(worker.frames.filter((frame) => frame.type === "control.ack")).toHaveLength(2);
  });

  it("[D43] names no task where it has none, or one beyond all bounds, and nothing is told to the engine", async () => {
    const worker = await house.worker();

    for (const task_id of [undefined, "", 7, "x".repeat(2_000), { deep: 1 }])
      worker.work("biz.exec.result", { ...bad("r.0"), task_id });
    worker.work("biz.pkg.event", { name: "demo" });
    worker.work("biz.exec.next.request", { requestId: 1 });
    worker.work("biz.exec.result", good("r.1"));

    expect(await house.engine.next("task.result")).toMatchObject({ task: "r.1" });
    expect(told()).toEqual(["task.result r.1"]);
  });

  it("[D43] in a batch takes nothing from the good ones: they count, the bad ones are told, the frame is refused by name", async () => {
    const { engine } = house;
    const worker = await house.worker({ features: ["batch", "fence"] });
    engine.hold("task.result");

    const items = [good("r.0"), bad("r.1"), { task_id: 5 }, good("r.2")];
    const id = worker.work("biz.exec.result.batch", { items });
    expect(await engine.next("task.error")).toMatchObject({ task: "r.1", fence: 7, code: "E.FRAME.INVALID" });
    await worker.settle();
    expect(worker.frames).toHaveLength(3);
    engine.release("task.result");

    expect((await worker.next("control.ack")).payload).toMatchObject({
      ok: false,
      for: id,
      info: expect.stringContaining("items"),
      ack_seq: 0,
    });
    expect(told()).toEqual(["task.result r.0", "task.error r.1", "task.result r.2"]);
    worker.work("biz.exec.result.batch", { items: Array.from({ length: 65 }, () => good("r.3")) });
    worker.work("biz.exec.result.batch", { items: "many" });
    for (let n = 1; n < 3; n += 1) expect((await worker.next("control.ack")).payload).toMatchObject({ ok: false });
    expect(told()).toHaveLength(3);
  });

  it("[D43] of protocol 1 is refused in its ack and named in an error, and its attempt ends", async () => {
    const { engine } = house;
    const worker = await joinV1();

    const id = worker.say("result", { ...bad("r.0"), fence: undefined }, { corr: "r.0", ...asks });

    expect(await worker.next("error")).toMatchObject({
      corr: id,
      payload: { code: "E.FRAME.INVALID", message: expect.stringContaining("payload.status") },
    });
    expect(await engine.next("task.error")).toMatchObject({ task: "r.0", fence: null, code: "E.FRAME.INVALID" });
    expect((await worker.next("ack")).payload).toMatchObject({ ok: false, for: id });
    worker.say("result", { ...good("r.1"), fence: undefined }, { corr: "r.1", ...asks });
    expect((await worker.next("ack")).payload).toMatchObject({ ok: true });
  });

  it("[D43] of the first generation is refused for a field it adds, and its session goes on", async () => {
    const worker = await house.dial({ dialect: "first" });
    worker.say("control.handshake", handshake({ protocol: 1 }), asks);
    worker.say("control.register", olderRegister(), asks);
    await worker.next("control.session.accept");

    const id = worker.work("biz.exec.result", { ...good("r.0"), fence: undefined, mood: "fine" }, { corr: "r.0#7" });

    expect(await house.engine.next("task.error")).toMatchObject({ task: "r.0", fence: 7 });
    await worker.settle();
    const acks = worker.frames.flatMap((frame) => (frame.payload["for"] === id ? [frame.payload] : []));
    expect(acks).toMatchObject([{ ok: false, ack_seq: 1 }]);
    expect(worker.frames.map((frame) => frame.type)).not.toContain("control.reset");
  });

  it("[D43] as a catalogue before the join counts as not come", async () => {
    const worker = await house.dial();
    worker.say("control.handshake", handshake(), asks);
    worker.say("control.register", { capabilities: { concurrency: { max_parallel: 2 } } }, asks);
    for (let n = 0; n < 2; n += 1) await worker.next("control.ack");

    worker.work("biz.pkg.catalog", { packages: "all" });
    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: false, ack_seq: 0 });
    worker.work("biz.exec.inventory", { running: 7 });
    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: false, ack_seq: 1 });
    worker.work("biz.pkg.catalog", { packages: [{ name: "demo", version: "1.0.0", status: "installed", manifest: {} }] });
    worker.work("biz.exec.inventory", { running: [] });

    expect((await house.engine.next("worker.join")).about.packages).toEqual([
      { name: "demo", version: "1.0.0", status: "installed" },
    ]);
  });
});
