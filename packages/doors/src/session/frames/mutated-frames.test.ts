import { createSeededRandom, mutateText } from "@astraflow/protocol/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import {
  connectFakeWorker,
  type FakeWorker,
  handshakePayload,
  handshakePayloadV1,
  olderRegisterPayload,
  registerPayload,
} from "../../testing/fake-worker.ts";

const envelope = (type: string, payload: object, more: object = {}) => ({
  type,
  id: `${type}-0`,
  ts: "2025-01-01T00:00:00Z",
  tenant: "default",
  sender: { role: "worker", id: "w-1" },
  payload,
  ack: { request: true },
  ...more,
});

const v2Samples = [
  envelope("control.handshake", handshakePayload()),
  envelope("control.register", registerPayload()),
  envelope("control.heartbeat", { healthy: true, metrics: { inflight: 1 }, held: [{ task_id: "r.0", fence: 1 }] }),
  envelope("control.ack", { ok: true, ack_seq: 0, ack_bitmap: "ff", recv_window: 8, for: "x" }),
  envelope("control.resume", { session_id: "s", session_token: "t", last_seen_seq: 1 }),
  envelope(
    "biz.exec.result",
    { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: { a: [1, { b: null }] }, fence: 1 },
    { seq: 0, corr: "r.0#1" },
  ),
  envelope("biz.exec.result.batch", { items: [{ run_id: "r", task_id: "r.0", status: "FAILED", result: {} }] }, { seq: 0 }),
  envelope("biz.exec.error", { code: "E.X", message: "m", context: { where: "w", details: { task_id: "r.0" } } }, { seq: 0 }),
  envelope(
    "biz.exec.feedback",
    { run_id: "r", task_id: "r.0", progress: 0.5, chunks: [{ channel: "log", text: "t" }] },
    { seq: 0 },
  ),
  envelope("biz.exec.inventory", { running: [{ task_id: "r.0", fence: 1 }] }, { seq: 0 }),
  envelope("biz.pkg.catalog", { packages: [{ name: "p", version: "1", status: "installed", manifest: {} }] }, { seq: 0 }),
  envelope("biz.exec.next.request", { requestId: "1", runId: "r", nodeId: "n", middlewareId: "m" }, { seq: 0 }),
  envelope("biz.pkg.event", { name: "p", version: "1", status: "failed" }, { seq: 0 }),
  envelope("ext.vendor.acme.x", { a: 1 }, { seq: 0 }),
];
const result = { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: { a: [1, { b: null }] } };
const beat = { healthy: true, metrics: { inflight: 1 } };
const firstSamples = [
  envelope("control.handshake", handshakePayload({ protocol: 1 })),
  envelope("control.register", olderRegisterPayload()),
  envelope("control.heartbeat", beat),
  envelope("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 5, recv_window: 8, for: "x" }),
  envelope("control.resume", { session_id: "s", session_token: "t", last_seen_seq: 1 }),
  envelope("biz.exec.result", result, { session_seq: 1, seq: 3, corr: "r.0#1" }),
  envelope("biz.exec.error", { code: "E.X", message: "m", context: { details: { task_id: "r.0" } } }, { session_seq: 1 }),
];
const v1Samples = [
  envelope("handshake", handshakePayloadV1()),
  envelope("register", olderRegisterPayload()),
  envelope("heartbeat", beat),
  envelope("ack", { ok: true, for: "x" }),
  envelope("result", result, { seq: 3, corr: "r.0" }),
  envelope("command.error", { code: "E.X", message: "m" }, { corr: "r.0" }),
  envelope("middleware.next_request", { requestId: "1", runId: "r", nodeId: "n", middlewareId: "m" }),
];

const corpora = { v2: v2Samples, first: firstSamples, v1: v1Samples };

describe("a corpus of mutated frames", () => {
  let fixture: DoorsFixture;
  beforeAll(async () => {
    // The clock of the fixture does not move, so no frame may have to wait for it: every connection has an address of its own.
    fixture = await openDoorsFixture({ limits: { handshakesPerSecondMax: 1_000_000 }, trustedProxies: ["127.0.0.1"] });
  });
  afterAll(() => fixture.stop());

  let addressCount = 0;
  const fromElsewhere = () => {
    addressCount += 1;
    return { headers: { "x-forwarded-for": `10.1.${addressCount >> 8}.${addressCount & 255}` } };
  };

  /** A worker whose session is accepted, in any dialect. */
  const join = async (dialect: keyof typeof corpora): Promise<FakeWorker> => {
    if (dialect === "v2") return fixture.openSession(fromElsewhere());
    const worker = await connectFakeWorker(fixture.ws, { dialect, isUnchecked: true, ...fromElsewhere() });
    const [hello, introduction] = corpora[dialect];
    worker.sendRaw(JSON.stringify(hello));
    worker.sendRaw(JSON.stringify(introduction));
    // A v1 worker learns of its session by the ack of its register.
    const [seen, times] = dialect === "v1" ? ["ack", 2] : ["control.session.accept", 1];
    for (let n = 0; n < times; n += 1) await worker.nextFrame(seen);
    return worker;
  };

  for (const dialect of ["v2", "first", "v1"] as const)
    it(`[D19] the session door never crashes, throws or closes without a reason on 1,000 mutated frames of ${dialect} in every phase of a connection`, async () => {
      const roll = createSeededRandom(20_251_115);
      const samples = corpora[dialect].map((sample) => JSON.stringify(sample));
      let refused = 0;
      const silent: string[] = [];
      for (let n = 0; n < 1_000; n += 1) {
        const sample = samples[roll(samples.length)] ?? "";
        const text = mutateText(sample, roll);
        const phase = roll(3);
        const worker =
          phase === 2 ? await join(dialect) : await connectFakeWorker(fixture.ws, { isUnchecked: true, ...fromElsewhere() });
        if (phase === 1) worker.sendRaw(samples[0] ?? "");

        worker.sendRaw(text);
        // Either the connection still answers, or it was ended with a frame that names a code.
        const ending = await Promise.race([
          worker.untilProcessed().then(
            () => "open",
            () => "closed",
          ),
          worker.closed.then(() => "closed"),
        ]);
        if (ending === "closed") {
          refused += 1;
          await worker.closed;
          if (!/^(control\.reset|error)$/.test(worker.frames.at(-1)?.type ?? "")) silent.push(text);
        }
        worker.socket.terminate();
      }

      expect(silent).toEqual([]);
      expect(refused).toBeGreaterThan(200);
      expect(fixture.environment.logRecords.filter((connection) => connection.event === "session.bug")).toEqual([]);
      expect(fixture.engine.problems).toEqual([]);
      expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
      const survivor = await fixture.openSession({ instance: "w-after", ...fromElsewhere() });
      survivor.sendWorkFrame("biz.exec.result", { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: {} });
      expect((await survivor.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 0 });
      survivor.socket.terminate();
    }, 60_000);
});
