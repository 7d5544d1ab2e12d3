// A link with a scripted scheduler, a hand-moved clock and no sockets: what the link sends is read back as frames.

import {
  type DispatchPayload,
  type Envelope,
  Fault,
  type FrameType,
  type PayloadOf,
  readEnvelope,
  readPayload,
} from "@astraflow/protocol";
import type { IncomingVendorFrame } from "@astraflow/sdk";
import type { LocalAttempt } from "../src/attempts/attempt.ts";
import type { AttemptOutcome } from "../src/attempts/outcome.ts";
import type { DurableOutbox } from "../src/outbox/journaled-outbox.ts";
import type { JournaledOutcome } from "../src/outbox/outbox-journal.ts";
import {
  type DrainThresholds,
  type LinkLogEvent,
  type LinkSettings,
  linkDefaults,
  type PackageCommandPorts,
  type WorkerCapabilities,
  type WorkerHealth,
} from "../src/scheduler-link/link-ports.ts";
import { SchedulerLink } from "../src/scheduler-link/scheduler-link.ts";
import { sampleIdentity } from "./sample-worker.ts";

export interface LinkHarnessOptions {
  readonly maxParallel?: number;
  readonly settings?: Partial<LinkSettings>;
  readonly durableOutbox?: DurableOutbox;
  readonly packageCommands?: PackageCommandPorts;
  readonly features?: readonly string[];
}

/** An outbox on a disk that syncs when the test lets it. */
export class InMemoryDurableOutbox implements DurableOutbox {
  isHealthy = true;
  /** What survives the process. */
  readonly disk = new Map<number, JournaledOutcome>();
  #pending: { outcome: JournaledOutcome; onPersisted: () => void }[] = [];
  #count = 0;

  persist(outcome: Omit<JournaledOutcome, "key">, onPersisted: () => void): number {
    const key = this.#count++;
    this.#pending.push({ outcome: { ...outcome, key }, onPersisted });
    return key;
  }

  remove(key: number): void {
    this.disk.delete(key);
  }

  sync(): void {
    for (const { outcome, onPersisted } of this.#pending.splice(0)) {
      this.disk.set(outcome.key, outcome);
      onPersisted();
    }
  }

  get storedOutcomes(): JournaledOutcome[] {
    return [...this.disk.values()];
  }
}

export const succeededOutcome = (result: Record<string, string> = {}): AttemptOutcome => ({
  type: "result",
  status: "SUCCEEDED",
  result,
  durationMs: 1,
});

/** Fields that differ from the usual dispatch. */
export type DispatchPart = Partial<DispatchPayload> & { readonly seq?: number };

export class LinkHarness {
  now = 0;
  randomValue = 0.5;
  /** What session keys are made of. */
  keyByte = 7;
  dials = 0;
  /** Where each dial was to go. */
  readonly dialTargets: string[] = [];
  wakeAt = Number.POSITIVE_INFINITY;
  readonly sent: Envelope[] = [];
  readonly started: LocalAttempt[] = [];
  readonly logEvents: LinkLogEvent[] = [];
  readonly closedConnections: { code: number; reason: string }[] = [];
  readonly counters = new Map<string, number>();
  readonly deliveredVendorFrames: IncomingVendorFrame[] = [];
  /** Types of vendor frames that somebody listens to. */
  readonly listenedVendorTypes = new Set<string>();
  drainThresholds: DrainThresholds | null = null;
  health: WorkerHealth = { metrics: { cpu_pct: 12 }, problems: [] };
  packages: WorkerCapabilities["packages"] = [{ name: "demo", version: "1.0.0", status: "installed" }];
  /** What its handlers keep of what results have named. */
  resources: string[] = [];
  /** Texts as they left, and bytes that a slow socket has not taken yet. */
  readonly texts: string[] = [];
  bufferedBytes = 0;
  readonly link: SchedulerLink;
  #isFlushRequested = false;
  #frameCount = 0;
  #seq = 0;
  /** Highest number of the link's that the scheduler has acked. */
  #ackSeq = -1;

  constructor(options: LinkHarnessOptions = {}) {
    this.link = new SchedulerLink({
      ports: {
        now: () => this.now,
        timestamp: () => new Date(Date.UTC(2026, 0, 5, 9) + this.now).toISOString(),
        random: () => this.randomValue,
        // The same key in every test, so that transcripts can be compared.
        randomBytes: (count) => new Uint8Array(count).fill(this.keyByte),
        dial: (hint) => {
          this.dials++;
          this.dialTargets.push(hint);
        },
        send: (text) => this.#recordFrame(text),
        bufferedBytes: () => this.bufferedBytes,
        closeConnection: (code, reason) => this.closedConnections.push({ code, reason }),
        wakeAt: (at) => {
          this.wakeAt = at;
        },
        requestFlush: () => {
          this.#isFlushRequested = true;
        },
        startHandler: (attempt) => this.started.push(attempt),
        readHealth: (thresholds) => {
          this.drainThresholds = thresholds;
          return this.health;
        },
        deliverVendorFrame: (frame) => {
          if (!this.listenedVendorTypes.has(frame.type)) return false;
          this.deliveredVendorFrames.push(frame);
          return true;
        },
        ...(options.packageCommands && { packageCommands: options.packageCommands }),
        incrementCounter: (name) => this.counters.set(name, (this.counters.get(name) ?? 0) + 1),
        reportProblem: () => {},
        log: (note) => this.logEvents.push(note),
      },
      identity: sampleIdentity,
      capabilities: () => ({
        maxParallel: options.maxParallel ?? 4,
        runtimes: ["node"],
        features: options.features ?? ["extra"],
        packages: this.packages,
        resources: this.resources,
        manifests: [{ name: "demo", version: "1.0.0", manifest: { name: "demo" } }],
      }),
      slotsMax: options.maxParallel ?? 4,
      settings: { ...linkDefaults, ...options.settings },
      durableOutbox: options.durableOutbox ?? null,
    });
  }

  /** The end of a tick: what was gathered leaves. */
  flush(): void {
    while (this.#isFlushRequested) {
      this.#isFlushRequested = false;
      this.link.flush();
    }
  }

  /** Moves the clock, waking the link whenever it asked for that. */
  advance(ms: number): void {
    const until = this.now + ms;
    while (this.wakeAt <= until) {
      this.now = Math.max(this.now, this.wakeAt);
      this.wakeAt = Number.POSITIVE_INFINITY;
      this.link.tick();
      this.flush();
    }
    this.now = until;
  }

  // ---- the scheduler's side

  sendToLink(type: FrameType | string, payload: object, envelope: object = {}): void {
    const frame = { type, id: `s-${this.#frameCount++}`, ts: "2026-01-05T09:00:00Z", tenant: "default", payload, ...envelope };
    this.link.messageReceived(JSON.stringify({ sender: { role: "scheduler", id: "scheduler-control" }, ...frame }));
  }

  ackById(id: string): void {
    this.sendToLink(
      "control.ack",
      { ok: true, for: id, ack_seq: this.#ackSeq, ack_bitmap: 0, recv_window: 64 },
      { ack: { for: id } },
    );
  }

  ackUpTo(ackSeq: number, bitmap: number | string = 0): void {
    this.#ackSeq = Math.max(this.#ackSeq, ackSeq);
    this.sendToLink("control.ack", { ok: true, ack_seq: ackSeq, ack_bitmap: bitmap, recv_window: 64 });
    this.flush();
  }

  acceptSession(part: object = {}): void {
    this.#seq = 0;
    this.#ackSeq = -1;
    const usual = { session_id: "s", session_token: "t", heartbeat_interval_ms: 10_000, lease_ms: 30_000 };
    this.sendToLink("control.session.accept", { ...usual, send_window: 64, recv_window: 64, ...part });
  }

  /** From the open socket to READY. A session that would go on is refused: all must come right without. */
  openSession(part: object = {}): void {
    this.link.connectionOpened();
    if (this.sent.at(-1)?.type === "control.resume") {
      this.sendToLink("control.reset", { code: "E.SESSION.UNKNOWN", reason: "no such session" });
      this.advance(0);
      this.link.connectionOpened();
    }
    this.#ackSeq = -1;
    this.ackById(this.lastFrame("control.handshake").id);
    this.ackById(this.lastFrame("control.register").id);
    this.acceptSession(part);
    this.flush();
  }

  /** The session goes on over a new socket; the scheduler has everything up to `ackSeq`. */
  resumeSession(ackSeq: number, accept: object = {}): void {
    this.link.connectionOpened();
    const { id } = this.lastFrame("control.resume");
    this.#ackSeq = ackSeq;
    this.ackById(id);
    this.sendToLink("control.session.accept", { session_id: "s", session_token: "t2", resumed: true, ...accept });
    this.flush();
  }

  dispatch(task: string, part: DispatchPart = {}): void {
    const { seq, ...rest } = part;
    const usual = {
      run_id: "r",
      task_id: task,
      node_id: "n",
      node_type: "demo.noop",
      package_name: "demo",
      package_version: "1.0.0",
    };
    const payload = { ...usual, parameters: {}, constraints: {}, fence: 1, attempt: 1, ...rest };
    this.sendToLink("biz.exec.dispatch", payload, { seq: seq ?? this.#seq++, corr: task, ack: { request: true } });
  }

  cancel(task: string, fence: number): void {
    this.sendToLink("biz.exec.cancel", { run_id: "r", task_id: task, fence, reason: "not wanted" }, { seq: this.#seq++ });
  }

  // ---- reading back

  /** Frames of one type, in order. */
  frames(type: FrameType | `ext.vendor.${string}`): Envelope[] {
    return this.sent.filter((frame) => frame.type === type);
  }

  lastFrame(type: FrameType): Envelope {
    const frame = this.frames(type).at(-1);
    if (frame === undefined) throw new Error(`the link has sent no ${type}`);
    return frame;
  }

  payload<T extends FrameType>(type: T): PayloadOf<T> {
    return readFramePayload(type, this.lastFrame(type));
  }

  /** Frames of work, in the order they left. */
  workFrames(): Envelope[] {
    return this.sent.filter((frame) => frame.seq !== undefined);
  }

  types(): string[] {
    return this.sent.map((frame) => frame.type);
  }

  attempt(task: string): LocalAttempt {
    const attempt = this.started.filter((one) => one.task === task).at(-1);
    if (attempt === undefined) throw new Error(`${task} was not started`);
    return attempt;
  }

  /** The handler of a task comes back with this outcome. */
  finish(task: string, outcome: AttemptOutcome = succeededOutcome()): void {
    const attempt = this.attempt(task);
    this.link.attemptFinished(attempt, outcome);
    this.link.handlerReturned(attempt);
    this.flush();
  }

  eventsNamed(event: LinkLogEvent["event"]): LinkLogEvent[] {
    return this.logEvents.filter((note) => note.event === event);
  }

  /** Every frame the link sends must be one that the protocol reads. */
  #recordFrame(text: string): void {
    const envelope = readEnvelope(JSON.parse(text), "v2");
    if (envelope instanceof Fault) throw envelope;
    readFramePayload(envelope.type as FrameType, envelope);
    this.texts.push(text);
    this.sent.push(envelope);
  }
}

export function readFramePayload<T extends FrameType>(type: T, envelope: Envelope): PayloadOf<T> {
  const payload = readPayload("v2", type, envelope.payload);
  if (payload instanceof Fault) throw payload;
  return payload;
}

/** A link that has begun and is READY. */
export function readyLinkHarness(options: LinkHarnessOptions = {}, accept: object = {}): LinkHarness {
  const harness = new LinkHarness(options);
  harness.link.start();
  harness.openSession(accept);
  return harness;
}
