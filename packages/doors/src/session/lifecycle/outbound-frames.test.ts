import type { SendStop } from "@astraflow/engine";
import { limits } from "@astraflow/protocol";
import { dialectRules, ReliableStream } from "@astraflow/session";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import type { SessionConnection } from "../connection/session-connection.ts";
import { SchedulerFrameWriter } from "../frames/frame-writer.ts";
import { OutboundFrames, type OutboundItem } from "./outbound-frames.ts";

const framePeer = { dialect: "v2", tenant: "default", instance: "w-1", workerName: null, session: null } as const;

const stopFor = (session: string, task: string): SendStop => ({
  type: "stop",
  session,
  worker: "default/w-1",
  tenant: "default",
  run: "r",
  task,
  fence: 7,
  code: "E.SESSION.STALE_BINDING",
  reason: "no longer yours",
});

describe("stops on their way to a worker", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  it("[D98] a stop is sent to a worker once while it is unacknowledged, and again when it is needed after that", async () => {
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");
    fixture.engine.emitEffects(stopFor(session, "r.0"), stopFor(session, "r.0"), stopFor(session, "r.1"));
    fixture.engine.emitEffects(stopFor(session, "r.0"));
    await worker.nextFrame("biz.exec.cancel");
    await worker.nextFrame("biz.exec.cancel");

    worker.sendFrame("control.ack", { ok: true, ack_seq: 1, ack_bitmap: 0 });
    await worker.untilProcessed();
    fixture.engine.emitEffects(stopFor(session, "r.0"));
    await worker.nextFrame("biz.exec.cancel");

    const cancels = worker.frames.filter((frame) => frame.type === "biz.exec.cancel");
    expect(cancels.map((frame) => frame.payload["task_id"])).toEqual(["r.0", "r.1", "r.0"]);
  });
});

describe("commands on their way to a worker", () => {
  it("[E126] a command is sent to a worker once per session, however often the engine reports it as open", () => {
    const sizes = { sendFrames: 256, sendBytes: 1e6, recvFrames: 64, recvBytes: 1e6, batchMax: 1, batchBytesMax: 1e6 };
    const stream = new ReliableStream<OutboundItem, unknown>(dialectRules.v2, sizes);
    const outbound = new OutboundFrames(stream, new SchedulerFrameWriter(framePeer, () => "", null), new Set());
    const give = (id: string): void =>
      outbound.enqueueCommand({
        type: "order",
        session: "s",
        worker: "default/w-1",
        tenant: "default",
        id,
        order: { type: "pkg.install", name: "p", version: "1.0.0" },
      });
    const sent: string[] = [];
    const flush = (): void =>
      outbound.flush(
        { send: (text: string) => sent.push((JSON.parse(text) as { id: string }).id) } as unknown as SessionConnection,
        1e6,
        0,
      );

    give("c-0");
    give("c-1");
    give("c-0");
    flush();
    for (let n = 0; n < 40; n++) give(`d-${n}`);
    give("c-1");
    flush();

    expect(sent.filter((id) => id.startsWith("c"))).toEqual(["c-0", "c-1"]);
    expect(sent).toHaveLength(42);
  });
});

describe("a worker that names attempts nobody gave it", () => {
  it("[D98] a session queues no more stops than a worker may name attempts in a heartbeat, and does not scan its stream for them", () => {
    const sizes = { sendFrames: 64, sendBytes: 1e6, recvFrames: 64, recvBytes: 1e6, batchMax: 1, batchBytesMax: 1e6 };
    const stream = new ReliableStream<OutboundItem, unknown>(dialectRules.v2, sizes);
    const outbound = new OutboundFrames(stream, new SchedulerFrameWriter(framePeer, () => "", null), new Set(["cancel"]));
    let scans = 0;
    const withdraw = stream.withdraw.bind(stream);
    stream.withdraw = (isUnwanted) => {
      scans += 1;
      return withdraw(isUnwanted);
    };

    for (let n = 0; n < limits.heldTasksMax * 3; n += 1) outbound.enqueueStop(stopFor("s", `r.${n}`));

    expect(stream.counts.waiting).toBe(limits.heldTasksMax);
    expect(scans).toBe(0);
  });
});
