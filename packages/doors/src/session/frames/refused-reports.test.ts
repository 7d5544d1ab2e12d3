import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { type FakeWorker, handshakePayload, handshakePayloadV1, olderRegisterPayload } from "../../testing/fake-worker.ts";

const ackRequested = { ack: { request: true } };
const result = (task: string, more: object = {}) => ({ run_id: "r", task_id: task, status: "SUCCEEDED", result: {}, ...more });
const duplicate = { code: "E.RESULT.DUPLICATE", message: "task r.0 already ended as succeeded; the first result is kept" };
const duplicateInfo = `${duplicate.code}: ${duplicate.message}`;
const mismatchOf = (task: string) => `run other is not the run of task ${task}; send the run_id of its dispatch`;

let fixture: DoorsFixture;
beforeEach(async () => {
  fixture = await openDoorsFixture();
});
afterEach(() => fixture.stop());

const joinV1 = async (): Promise<FakeWorker> => {
  const worker = await fixture.connectWorker({ dialect: "v1" });
  worker.sendFrame("handshake", handshakePayloadV1(), ackRequested);
  worker.sendFrame("register", olderRegisterPayload(), ackRequested);
  for (let n = 0; n < 2; n += 1) await worker.nextFrame("ack");
  return worker;
};
const joinOlder = async (dialect: "basic" | "first"): Promise<FakeWorker> => {
  const worker = await fixture.connectWorker({ dialect });
  worker.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), ackRequested);
  worker.sendFrame("control.register", olderRegisterPayload(), ackRequested);
  await worker.nextFrame("control.session.accept");
  return worker;
};
const ackOf = async (worker: FakeWorker, id: string): Promise<Record<string, unknown>> => {
  for (;;) {
    const { payload } = await worker.nextFrame("control.ack");
    if (payload["for"] === id) return payload;
  }
};
const reports = () =>
  fixture.engine.commands.flatMap((command) =>
    command.type === "task.result" ||
    command.type === "task.error" ||
    command.type === "task.feedback" ||
    command.type === "task.next"
      ? [`${command.type} ${command.task}`]
      : [],
  );

describe("another result of an attempt that has one", () => {
  it.each(["v2", "basic", "first"] as const)(
    "[D560] a worker of dialect %s whose result differs from the stored one reads E.RESULT.DUPLICATE in the ack, and its session goes on",
    async (dialect) => {
      const worker = dialect === "v2" ? await fixture.openSession() : await joinOlder(dialect);
      fixture.engine.answerWith("task.result", () => ({ fault: duplicate }));

      const id = worker.sendWorkFrame("biz.exec.result", result("r.0"), { corr: "r.0#7" });

      expect(await ackOf(worker, id)).toMatchObject({ ok: false, info: duplicateInfo });
      fixture.engine.answerWith("task.result", () => ({ body: { of: "word", applied: false } }));
      const same = worker.sendWorkFrame("biz.exec.result", result("r.0"), { corr: "r.0#7" });
      expect(await ackOf(worker, same)).toMatchObject({ ok: true });
      expect(worker.frames.map((frame) => frame.type)).not.toContain("control.reset");
    },
  );

  it("[D560] a worker of protocol 1 whose result differs from the stored one gets E.RESULT.DUPLICATE in an error frame that names its frame", async () => {
    const worker = await joinV1();
    fixture.engine.answerWith("task.result", () => ({ fault: duplicate }));

    const id = worker.sendFrame("result", result("r.0"), { corr: "r.0", ...ackRequested });

    expect(await worker.nextFrame("error")).toMatchObject({ corr: id, payload: duplicate });
    expect((await worker.nextFrame("ack")).payload).toMatchObject({ ok: false, for: id });
    fixture.engine.answerWith("task.result", () => ({ body: { of: "word", applied: true } }));
    worker.sendFrame("result", result("r.1"), { corr: "r.1", ...ackRequested });
    expect((await worker.nextFrame("ack")).payload).toMatchObject({ ok: true });
  });

  it("[D560] a batch with one duplicate result is acked as refused with its task, and its other results count", async () => {
    const worker = await fixture.openSession({ features: ["batch", "fence"] });
    fixture.engine.answerWith("task.result", ({ task }) =>
      task === "r.0" ? { fault: duplicate } : { body: { of: "word", applied: true } },
    );

    const id = worker.sendWorkFrame("biz.exec.result.batch", { items: [result("r.1"), result("r.0"), result("r.2")] });

    expect(await ackOf(worker, id)).toMatchObject({ ok: false, info: duplicateInfo, ack_seq: 0 });
    expect(reports()).toEqual(["task.result r.1", "task.result r.0", "task.result r.2"]);
  });
});

describe("a report that names a run which is not the run of its task", () => {
  const foreign = { run_id: "other" };
  const details = { context: { details: { run_id: "other", task_id: "r.0" } } };
  const kinds: readonly (readonly [what: string, type: string, payload: object])[] = [
    ["a result", "biz.exec.result", result("r.0", { ...foreign, fence: 7 })],
    ["a result of a task whose name only begins like the run", "biz.exec.result", result("other2.0", foreign)],
    ["a result that is invalid too", "biz.exec.result", result("r.0", { ...foreign, status: "DONE" })],
    ["feedback", "biz.exec.feedback", { ...foreign, task_id: "r.0", progress: 0.5 }],
    ["an error", "biz.exec.error", { ...foreign, task_id: "r.0", code: "E.RUNNER.FAILURE", message: "m" }],
    ["an error with both in its details", "biz.exec.error", { code: "E.RUNNER.FAILURE", message: "m", ...details }],
  ];
  it.each(kinds)("[D561] %s under another run is refused by name, reaches no task, and the session goes on", async (...row) => {
    const [what, type, payload] = row;
    const worker = await fixture.openSession();

    const id = worker.sendWorkFrame(type, payload, { corr: "r.0#7" });

    const code = what.includes("invalid") ? "E.FRAME.INVALID" : "E.TASK.RUN_MISMATCH";
    expect(await ackOf(worker, id)).toMatchObject({ ok: false, info: expect.stringContaining(`${code}: `), ack_seq: 0 });
    expect(reports()).toEqual([]);
    expect(fixture.metrics.render()).toContain(`ws_frame_refused_total{tenant="default",code="${code}"} 1`);
    worker.sendWorkFrame("biz.exec.result", result("r.0", { fence: 7 }));
    expect(await fixture.engine.nextCommand("task.result")).toMatchObject({ task: "r.0", fence: 7 });
  });

  it("[D561] items of a batch under another run are left out and refused by name, and the others count", async () => {
    const worker = await fixture.openSession({ features: ["batch", "fence"] });

    const id = worker.sendWorkFrame("biz.exec.result.batch", { items: [result("r.0"), result("r.1", foreign), result("r.2")] });

    expect(await ackOf(worker, id)).toMatchObject({ ok: false, info: `E.TASK.RUN_MISMATCH: ${mismatchOf("r.1")}` });
    expect(reports()).toEqual(["task.result r.0", "task.result r.2"]);
  });

  it("[D561] a worker of protocol 1 gets E.TASK.RUN_MISMATCH in an error frame, and its task goes on", async () => {
    const worker = await joinV1();

    const id = worker.sendFrame("result", result("r.0", foreign), { corr: "r.0", ...ackRequested });

    const payload = { code: "E.TASK.RUN_MISMATCH", message: mismatchOf("r.0") };
    expect(await worker.nextFrame("error")).toMatchObject({ corr: id, payload });
    expect((await worker.nextFrame("ack")).payload).toMatchObject({ ok: false, for: id });
    expect(reports()).toEqual([]);
  });

  it("[D561] a call of the next node under another run is answered and refused, and reaches no task", async () => {
    const worker = await fixture.openSession();
    const names = { requestId: "q1", runId: "other", nodeId: "n", middlewareId: "m" };

    const id = worker.sendWorkFrame("biz.exec.next.request", { ...names, task_id: "r.0", fence: 7 });

    const error = { code: "next_no_chain", message: mismatchOf("r.0") };
    expect((await worker.nextFrame("biz.exec.next.response")).payload).toMatchObject({ requestId: "q1", error });
    expect(await ackOf(worker, id)).toMatchObject({ ok: false });
    expect(reports()).toEqual([]);
  });
});
