// A worker that a test controls frame by frame, in any dialect: it sends what the test wants and waits for frames by type.

import { type Dialect, type Envelope, Fault, readEnvelope, readPayload } from "@astraflow/protocol";
import { createAwaitableQueue } from "@astraflow/services/testing";
import { WebSocket } from "ws";

export interface FakeWorker {
  readonly socket: WebSocket;
  /** All frames received, in order; each was valid by the schemas of its dialect, which the older ones read strictly. */
  readonly frames: Envelope[];
  readonly closed: Promise<{ code: number; reason: string }>;
  nextFrame(type: string): Promise<Envelope>;
  /** A frame with this worker's envelope around it; `more` overrides fields of the envelope. Returns its id. */
  sendFrame(type: string, payload: object, more?: Record<string, unknown>): string;
  /** The same, numbered as the dialect numbers, and asking for an ack. */
  sendWorkFrame(type: string, payload: object, more?: Record<string, unknown>): string;
  sendRaw(text: string | Buffer): void;
  /** Resolves when the peer has processed everything sent before: it answers in order. */
  untilProcessed(): Promise<void>;
}

export interface FakeWorkerOptions {
  readonly tenant?: string;
  readonly instance?: string;
  readonly headers?: Record<string, string>;
  readonly dialect?: Dialect;
  /** First value of the counter in its frame ids: 0 in a new process. */
  readonly count?: number;
  /** Frames are not validated: for workers that do not know in which dialect they will be answered. */
  readonly isUnchecked?: boolean;
}

export async function connectFakeWorker(url: string, options: FakeWorkerOptions = {}): Promise<FakeWorker> {
  const { tenant = "default", instance = "w-1", dialect = "v2" } = options;
  const socket = new WebSocket(url, { headers: options.headers ?? {} });
  const inbox = createAwaitableQueue<Envelope>();
  const pongs = createAwaitableQueue<string>();
  const frames: Envelope[] = [];
  let count = options.count ?? 0;
  let number = dialect === "first" ? 1 : 0;
  socket.on("message", (data) => {
    const envelope = readEnvelope(JSON.parse(String(data)), options.isUnchecked === true ? "any" : dialect);
    if (envelope instanceof Fault) throw envelope;
    const payload = options.isUnchecked === true ? null : readPayload(dialect, envelope.type, envelope.payload);
    if (payload instanceof Fault) throw payload;
    frames.push(envelope);
    inbox.put(envelope);
  });
  socket.on("pong", (data) => pongs.put(String(data)));
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on("close", (code, reason) => {
      inbox.end(new Error(`socket closed: ${code} ${String(reason)}`));
      pongs.end(new Error("socket closed"));
      resolve({ code, reason: String(reason) });
    });
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("open", () => resolve());
    socket.once("error", reject);
  });
  // A terminated connection reports an error first; tests wait for its close.
  socket.on("error", () => undefined);

  const sendFrame = (type: string, payload: object, more: Record<string, unknown> = {}): string => {
    const id = `${type}-${count++}`;
    const sender = { role: "worker", id: instance };
    socket.send(JSON.stringify({ type, id, ts: new Date(0).toISOString(), tenant, sender, payload, ...more }));
    return id;
  };
  const numbered = (): Record<string, number> => {
    if (dialect === "v1") return {};
    return dialect === "first" ? { session_seq: number++ } : { seq: number++ };
  };
  return {
    socket,
    frames,
    closed,
    nextFrame: (type) => inbox.take((envelope) => envelope.type === type),
    sendFrame,
    sendWorkFrame: (type, payload, more) => sendFrame(type, payload, { ...numbered(), ack: { request: true }, ...more }),
    sendRaw: (text) => socket.send(text),
    async untilProcessed() {
      const mark = `mark-${count++}`;
      socket.ping(mark);
      await pongs.take((pong) => pong === mark);
    },
  };
}

export const handshakePayload = (more: Record<string, unknown> = {}) => ({
  protocol: 2,
  auth: { mode: "token", token: "secret-a" },
  worker: { worker_name: "painter", worker_instance_id: "w-1", version: "1.0.0", hostname: "box" },
  ...more,
});

export const registerPayload = (
  more: Record<string, unknown> = {},
  features: readonly string[] = ["fence", "cancel", "held"],
) => ({
  capabilities: { concurrency: { max_parallel: 4 }, runtimes: ["node"], features },
  packages: [{ name: "demo", version: "1.0.0", status: "installed" }],
  boot_id: "boot-1",
  running: [],
  ...more,
});

/** Register of a worker without extensions, as the older dialects require it. */
export const olderRegisterPayload = (more: Record<string, unknown> = {}) => ({
  capabilities: { concurrency: { max_parallel: 1 }, runtimes: ["python"], features: [] },
  packages: [{ name: "demo", version: "1.0.0", status: "installed" }],
  ...more,
});

export const handshakePayloadV1 = (more: Record<string, unknown> = {}) => ({
  protocol: 1,
  auth: { mode: "token", token: "secret-a" },
  worker: { id: "w-1", version: "0.1.0", hostname: "box" },
  ...more,
});
