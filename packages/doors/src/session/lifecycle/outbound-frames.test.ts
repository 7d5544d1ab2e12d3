import type { PackageCommand, SendStop } from "@astraflow/engine";
import { type Envelope, limits, readFrame } from "@astraflow/protocol";
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
  const signature = { keyId: "0".repeat(32), ed25519: `${"A".repeat(86)}==`, signedAt: "then", signedBy: "Anna", tenant: "*" };
  const sentSignature = {
    key_id: signature.keyId,
    ed25519: signature.ed25519,
    signed_at: "then",
    signed_by: "Anna",
    tenant: "*",
  };

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

  it.each([
    ["v2", { signature: sentSignature, allow_older: true, command_id: "c-0" }],
    ["v1", { url: "https://astra.example/a.cwx" }],
    ["first", { url: "https://astra.example/a.cwx" }],
  ] as const)(
    "[D930] an install from the repository reaches a worker of %s with what its schema has room for",
    (dialect, own) => {
      const writer = new SchedulerFrameWriter({ ...framePeer, dialect }, () => "2026-01-31T12:00:00.000Z", null);
      const signature = {
        keyId: "0".repeat(32),
        ed25519: `${"A".repeat(86)}==`,
        signedAt: "then",
        signedBy: "Anna",
        tenant: "*",
      };
      const sha256 = "a".repeat(64);
      const order: PackageCommand = {
        ...({ type: "pkg.install", name: "acme.tools", version: "1.0.0", url: "https://astra.example/a.cwx", sha256 } as const),
        ...({ signature, allowOlder: true, fromRepository: true } as const),
      };
      const effect = { type: "order", session: "s", worker: "default/w-1", tenant: "default", id: "c-0", order } as const;

      const text = writer.encodeCommand({ number: 1, id: "c-0" }, effect);

      const { payload } = JSON.parse(text) as { payload: object };
      expect(payload).toEqual({ name: "acme.tools", version: "1.0.0", sha256, ...own });
      expect(readFrame(dialect, JSON.parse(text) as Envelope)).toMatchObject({ payload });
    },
  );
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
