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
import type { Attempt } from "../src/attempt.ts";
import { Link } from "../src/link.ts";
import {
  type Announced,
  type ExtFrame,
  type LinkNote,
  type LinkOffer,
  type LinkSettings,
  linkDefaults,
  type Vitals,
} from "../src/link-ports.ts";
import type { KeptWord } from "../src/outbox-journal.ts";
import type { Keeping } from "../src/outbox-keeper.ts";
import type { Outcome } from "../src/outcome.ts";
import { sampleIdentity } from "./sample-worker.ts";

export interface RigOptions {
  readonly maxParallel?: number;
  readonly settings?: Partial<LinkSettings>;
  readonly keeping?: Keeping;
}

/** An outbox on a disk that syncs when it is told to. */
export class PlainKeeping implements Keeping {
  isHealthy = true;
  /** What survives the process. */
  readonly disk = new Map<number, KeptWord>();
  #waiting: { word: KeptWord; kept: () => void }[] = [];
  #count = 0;

  keep(word: Omit<KeptWord, "key">, kept: () => void): number {
    const key = this.#count++;
    this.#waiting.push({ word: { ...word, key }, kept });
    return key;
  }

  forget(key: number): void {
    this.disk.delete(key);
  }

  sync(): void {
    for (const { word, kept } of this.#waiting.splice(0)) {
      this.disk.set(word.key, word);
      kept();
    }
  }

  get left(): KeptWord[] {
    return [...this.disk.values()];
  }
}

export const succeeded = (result: Record<string, string> = {}): Outcome => ({
  type: "result",
  status: "SUCCEEDED",
  result,
  durationMs: 1,
});

/** Fields that differ from the usual dispatch. */
export type DispatchPart = Partial<DispatchPayload> & { readonly seq?: number };

export class Rig {
  now = 0;
  roll = 0.5;
  dials = 0;
  /** Where each dial was to go. */
  readonly hints: string[] = [];
  wakeAt = Number.POSITIVE_INFINITY;
  readonly sent: Envelope[] = [];
  readonly started: Attempt[] = [];
  readonly notes: LinkNote[] = [];
  readonly hangUps: { code: number; reason: string }[] = [];
  readonly counted = new Map<string, number>();
  readonly heardExt: ExtFrame[] = [];
  /** Types of vendor frames that somebody listens to. */
  readonly listening = new Set<string>();
  announced: Announced | null = null;
  vitals: Vitals = { metrics: { cpu_pct: 12 }, problems: [] };
  packages: LinkOffer["packages"] = [{ name: "demo", version: "1.0.0", status: "installed" }];
  /** What its handlers keep of what results have named. */
  resources: string[] = [];
  /** Texts as they left, and bytes that a slow socket has not taken yet. */
  readonly texts: string[] = [];
  buffered = 0;
  readonly link: Link;
  #isFlushAsked = false;
  #frameCount = 0;
  #seq = 0;
  /** Highest number of the link's that the scheduler has acked. */
  #ackSeq = -1;

  constructor(options: RigOptions = {}) {
    this.link = new Link({
      ports: {
        now: () => this.now,
        stamp: () => new Date(Date.UTC(2026, 0, 5, 9) + this.now).toISOString(),
        roll: () => this.roll,
        dial: (hint) => {
          this.dials++;
          this.hints.push(hint);
        },
        send: (text) => this.#read(text),
        buffered: () => this.buffered,
        hangUp: (code, reason) => this.hangUps.push({ code, reason }),
        wake: (at) => {
          this.wakeAt = at;
        },
        soon: () => {
          this.#isFlushAsked = true;
        },
        start: (attempt) => this.started.push(attempt),
        vitals: (announced) => {
          this.announced = announced;
          return this.vitals;
        },
        ext: (frame) => {
          if (!this.listening.has(frame.type)) return false;
          this.heardExt.push(frame);
          return true;
        },
        count: (name) => this.counted.set(name, (this.counted.get(name) ?? 0) + 1),
        note: (note) => this.notes.push(note),
      },
      identity: sampleIdentity,
      offer: () => ({
        maxParallel: options.maxParallel ?? 4,
        runtimes: ["node"],
        features: ["extra"],
        packages: this.packages,
        resources: this.resources,
        manifests: [{ name: "demo", version: "1.0.0", manifest: { name: "demo" } }],
      }),
      settings: { ...linkDefaults, ...options.settings },
      keeping: options.keeping ?? null,
    });
  }

  /** The end of a tick: what was gathered leaves. */
  flush(): void {
    while (this.#isFlushAsked) {
      this.#isFlushAsked = false;
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

  say(type: FrameType | string, payload: object, envelope: object = {}): void {
    const frame = { type, id: `s-${this.#frameCount++}`, ts: "2026-01-05T09:00:00Z", tenant: "default", payload, ...envelope };
    this.link.received(JSON.stringify({ sender: { role: "scheduler", id: "scheduler-control" }, ...frame }));
  }

  ackNamed(id: string): void {
    this.say("control.ack", { ok: true, for: id, ack_seq: this.#ackSeq, ack_bitmap: 0, recv_window: 64 }, { ack: { for: id } });
  }

  ackWords(ackSeq: number, bitmap: number | string = 0): void {
    this.#ackSeq = Math.max(this.#ackSeq, ackSeq);
    this.say("control.ack", { ok: true, ack_seq: ackSeq, ack_bitmap: bitmap, recv_window: 64 });
    this.flush();
  }

  accept(part: object = {}): void {
    this.#seq = 0;
    this.#ackSeq = -1;
    const usual = { session_id: "s", session_token: "t", heartbeat_interval_ms: 10_000, lease_ms: 30_000 };
    this.say("control.session.accept", { ...usual, send_window: 64, recv_window: 64, ...part });
  }

  /** From the open socket to READY. A session that would go on is refused: all must come right without. */
  connect(part: object = {}): void {
    this.link.opened();
    if (this.sent.at(-1)?.type === "control.resume") {
      this.say("control.reset", { code: "E.SESSION.UNKNOWN", reason: "no such session" });
      this.advance(0);
      this.link.opened();
    }
    this.#ackSeq = -1;
    this.ackNamed(this.last("control.handshake").id);
    this.ackNamed(this.last("control.register").id);
    this.accept(part);
    this.flush();
  }

  /** The session goes on over a new socket; the scheduler has everything up to `ackSeq`. */
  resume(ackSeq: number, accept: object = {}): void {
    this.link.opened();
    const { id } = this.last("control.resume");
    this.#ackSeq = ackSeq;
    this.ackNamed(id);
    this.say("control.session.accept", { session_id: "s", session_token: "t2", resumed: true, ...accept });
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
    this.say("biz.exec.dispatch", payload, { seq: seq ?? this.#seq++, corr: task, ack: { request: true } });
  }

  cancel(task: string, fence: number): void {
    this.say("biz.exec.cancel", { run_id: "r", task_id: task, fence, reason: "not wanted" }, { seq: this.#seq++ });
  }

  // ---- reading back

  /** Frames of one type, in order. */
  frames(type: FrameType | `ext.vendor.${string}`): Envelope[] {
    return this.sent.filter((frame) => frame.type === type);
  }

  last(type: FrameType): Envelope {
    const frame = this.frames(type).at(-1);
    if (frame === undefined) throw new Error(`the link has sent no ${type}`);
    return frame;
  }

  payload<T extends FrameType>(type: T): PayloadOf<T> {
    return payloadOf(type, this.last(type));
  }

  /** Frames of work, in the order they left. */
  work(): Envelope[] {
    return this.sent.filter((frame) => frame.seq !== undefined);
  }

  types(): string[] {
    return this.sent.map((frame) => frame.type);
  }

  attempt(task: string): Attempt {
    const attempt = this.started.filter((one) => one.task === task).at(-1);
    if (attempt === undefined) throw new Error(`${task} was not started`);
    return attempt;
  }

  /** The handler of a task comes back with this outcome. */
  finish(task: string, outcome: Outcome = succeeded()): void {
    const attempt = this.attempt(task);
    this.link.finished(attempt, outcome);
    this.link.settled(attempt);
    this.flush();
  }

  noted(event: LinkNote["event"]): LinkNote[] {
    return this.notes.filter((note) => note.event === event);
  }

  /** Every frame the link sends must be one that the protocol reads. */
  #read(text: string): void {
    const envelope = readEnvelope(JSON.parse(text), "v2");
    if (envelope instanceof Fault) throw envelope;
    payloadOf(envelope.type as FrameType, envelope);
    this.texts.push(text);
    this.sent.push(envelope);
  }
}

export function payloadOf<T extends FrameType>(type: T, envelope: Envelope): PayloadOf<T> {
  const payload = readPayload("v2", type, envelope.payload);
  if (payload instanceof Fault) throw payload;
  return payload;
}

/** A link that has begun and is READY. */
export function readyRig(options: RigOptions = {}, accept: object = {}): Rig {
  const rig = new Rig(options);
  rig.link.begin();
  rig.connect(accept);
  return rig;
}
