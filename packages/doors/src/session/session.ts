// One worker's session, which outlives its sockets: who speaks, its stream, what the engine says to it, its time and its end.
// How it gets into the engine is entrance.ts; what its worker says, inbound.ts; what that is sent, outbound.ts; its sockets, connection.ts.

import type {
  AnswerBody,
  FaultData,
  SendDispatch,
  SendDrain,
  SendNext,
  SendOrder,
  SendReset,
  SendStop,
  SendTell,
} from "@astraflow/engine";
import { type Envelope, type Fault, fault, faultCodes, limits as wireLimits } from "@astraflow/protocol";
import { type Due, dialectRules, type Sent, Stream } from "@astraflow/session";
import type { ShownPackage } from "../handlers.ts";
import { isRetryable, plainFault } from "../plain-fault.ts";
import { Entrance } from "./entrance.ts";
import type { Receiver } from "./frame-log.ts";
import type { Bound } from "./greeting.ts";
import { HeldNodes } from "./held-nodes.ts";
import { Inbound } from "./inbound.ts";
import type { Introduction } from "./introduction.ts";
import { KeptEar } from "./kept-ear.ts";
import { type Note, Notes } from "./notes.ts";
import { type Item, Outbound } from "./outbound.ts";
import { moveSession, type SessionPhase } from "./phase.ts";
import { frameFields, type Line, type Surroundings, windowsOf } from "./surroundings.ts";
import type { Writer } from "./texts.ts";
import { traceFor } from "./wire-tap.ts";
import type { Speaker } from "./words.ts";

export class Session {
  readonly id: string;
  readonly bound: Bound;
  readonly speaker: Speaker;
  readonly stream: Stream<Item, Envelope>;
  readonly writer: Writer;
  readonly notes = new Notes();
  readonly heldNodes = new HeldNodes();
  readonly outbound: Outbound;
  readonly inbound: Inbound;
  readonly kept: KeptEar;
  readonly entrance: Entrance;
  readonly windows: { readonly send: number; readonly recv: number };
  /** Its worker, as frames are shown. */
  readonly receiver: Receiver;
  introduction: Introduction;
  phase: SessionPhase = "describing";
  /** Its socket; null while it waits for its worker to come back. */
  line: Line | null;
  /** Silence of so long ends it. */
  idleMs = Number.POSITIVE_INFINITY;
  private readonly around: Surroundings;
  /** To be sent again at the end of the tick: what the engine takes back in the turn of the join must not go out once more. */
  private again: readonly Sent<Item>[] = [];
  /** The engine was told that it is here and not yet that it has gone. */
  private isSeated = false;

  constructor(around: Surroundings, bound: Bound, introduction: Introduction, writer: Writer, line: Line) {
    this.around = around;
    this.bound = bound;
    this.introduction = introduction;
    this.writer = writer;
    this.line = line;
    this.id = around.outside.ids.next();
    this.speaker = { tenant: bound.tenant, worker: bound.worker, session: this.id, dialect: bound.dialect };
    const rules = dialectRules[bound.dialect];
    const sizes = windowsOf(around, bound.tenant, introduction.features.has("wide"));
    this.windows = { send: Math.min(sizes.send, rules.framesMax), recv: Math.min(sizes.recv, rules.framesMax) };
    this.stream = new Stream(rules, {
      sendFrames: this.windows.send,
      sendBytes: around.limits.windowBytes,
      recvFrames: this.windows.recv,
      recvBytes: around.limits.windowBytes,
      batchMax: introduction.features.has("batch") && bound.dialect === "v2" ? wireLimits.batchItemsMax : 1,
      batchBytesMax: wireLimits.resultInlineBytesMax,
    });
    this.outbound = new Outbound(this.stream, writer, bound.dialect === "v2" ? introduction.features : new Set());
    this.inbound = new Inbound(this, around);
    this.kept = new KeptEar(this, around);
    this.entrance = new Entrance(this, around);
    const { dialect, tenant, instance, label } = bound;
    this.receiver = { dialect, tenant, instance, workerName: label.name, session: this.id };
    writer.trace = traceFor(around, this.receiver);
  }

  get isEnded(): boolean {
    return this.phase === "ended";
  }

  /** What it holds, for the limits of those that wait. */
  get weight(): number {
    const { inFlightBytes, waitingBytes, bufferedBytes } = this.stream.counts;
    return inFlightBytes + waitingBytes + bufferedBytes + this.notes.bytes;
  }

  // ---- its sockets

  join(): void {
    this.move("joining");
    // The engine may grant in the very turn of the join: effects for this session must find it.
    this.around.book.open(this);
    this.isSeated = true;
    this.entrance.join();
  }

  /** A new socket of the same worker. Until the engine has spoken nothing leaves. */
  rebind(line: Line, resume: { readonly id: string; readonly lastSeen: number | null }): void {
    const old = this.line;
    this.line = line;
    old?.supersede();
    this.around.book.rejoin(this);
    this.stream.pause();
    this.again = [];
    this.inbound.forgetStuck();
    this.move("resuming");
    this.isSeated = true;
    this.entrance.resume(resume);
  }

  /** The engine has stored it: work flows. */
  opened(): void {
    this.move("live");
    this.around.book.accepted(this);
  }

  sendAgain(frames: readonly Sent<Item>[]): void {
    this.again = frames;
  }

  /** The socket is gone. What can be resumed waits for its worker; the engine hears that it is away either way. */
  lost(line: Line, reason: string): void {
    if (this.line !== line) return;
    this.line = null;
    if (this.isEnded) return;
    const canWait =
      (this.phase === "live" || this.phase === "resuming") &&
      dialectRules[this.bound.dialect].canResume &&
      this.around.limits.resumeMs > 0 &&
      this.around.book.isCurrent(this) &&
      this.weight <= this.around.limits.detachedBytesMax;
    if (!canWait) return this.end(reason);
    this.entrance.giveUp();
    this.again = [];
    this.move("detached");
    this.stream.pause();
    this.leave(reason);
    this.log("info", "session.detached", { reason });
    this.around.book.wait(this, this.now());
  }

  /** Over for good, without a word to the worker. */
  end(reason: string): void {
    if (this.isEnded) return;
    this.move("ended");
    this.entrance.giveUp();
    this.leave(reason);
    this.around.book.remove(this);
    this.log("info", "session.ended", { reason });
  }

  private leave(reason: string): void {
    if (!this.isSeated) return;
    this.isSeated = false;
    const { tenant, worker, session } = this.speaker;
    this.post({ type: "worker.leave", tenant, worker, session, reason }, null);
  }

  /** Says why and ends the session. The worker starts over with a handshake; nothing it holds is lost by that. */
  reset(why: Fault, about?: Envelope, retryAfterMs?: number): void {
    if (this.isEnded) return;
    const { line } = this;
    this.log("warn", "session.reset", { code: why.code, reason: why.message, ...(about !== undefined && frameFields(about)) });
    this.around.meter.reset(this.bound.tenant, why.code);
    this.end(why.message);
    this.line = null;
    line?.refuse(this.writer.refusal(faultCodes[why.code].frame, why.message, { corr: about?.id, retryAfterMs }), why.message);
  }

  /** Manifests as the worker shows them; whoever keeps them decides which are new. */
  showManifests(shown: readonly ShownPackage[]): void {
    if (shown.length > 0) this.around.noteManifests?.(this.bound.tenant, shown);
    this.showPackages(shown);
  }

  /** Work of these packages may follow: what they ask for is read ahead. */
  showPackages(shown: readonly ShownPackage[]): void {
    this.around.binder?.note(this.bound.tenant, shown);
  }

  // ---- what the engine says

  answered(note: Note, body: AnswerBody | null, why: FaultData | null): void {
    if (note.what === "join") this.entrance.answered(note, body, why);
    else this.inbound.answered(note, body, why);
  }

  sendAway(why: FaultData | null): void {
    const data = why ?? { code: "E.INTERNAL", message: "the engine gave no answer" };
    const { code, message } = plainFault(data);
    this.reset(fault(code, message), undefined, isRetryable(data) ? this.around.limits.retryAfterMs : undefined);
  }

  hearDispatch(send: SendDispatch): void {
    const { outbound } = this;
    // Sent again while the first one waits for its resources: one of them leaves.
    if (this.isEnded || outbound.isUnbound(send.dispatch)) return;
    const isLater = this.around.binder?.bind(send, (bound) =>
      this.around.step(this, () => {
        if (outbound.endBinding(send.dispatch)) this.offerDispatch(bound);
      }),
    );
    if (isLater === true) outbound.awaitBinding(send.dispatch);
    else this.offerDispatch(send);
  }

  /** Numbered only as it leaves: one that is taken back before leaves no gap. */
  private offerDispatch(send: SendDispatch): void {
    if (this.isEnded) return;
    const { run, task, fence } = send.dispatch;
    const { tenant, worker, session, dialect } = this.speaker;
    const runSeq = dialect === "v2" ? undefined : this.around.runNumbers.next(run, fence, worker);
    this.heldNodes.granted(send.dispatch);
    if (this.outbound.offerDispatch(send, runSeq)) return;
    const bytesMax = dialect === "v2" ? wireLimits.frameBytesMax : wireLimits.legacyFrameBytesMax;
    const message = `the parameters, with the resources bound to them, are larger than the ${bytesMax} bytes that a worker of this protocol takes`;
    this.post({ type: "task.error", tenant, worker, session, task, fence, code: "E.FRAME.TOO_LARGE", message }, null);
  }

  hearStop(stop: SendStop): void {
    if (this.isEnded) return;
    this.heldNodes.ended(stop.task);
    this.outbound.offerStop(stop);
  }

  hearNext(next: SendNext): void {
    if (!this.isEnded) this.outbound.offerNext(next);
  }

  hearOrder(order: SendOrder): void {
    if (!this.isEnded) this.outbound.offerOrder(order);
  }

  hearTell(tell: SendTell): void {
    if (this.isEnded) return;
    const { waitingBytes } = this.stream.counts;
    // v1 has no frames of vendors; and a worker that reads nothing must not fill the house with them.
    if (this.bound.dialect === "v1" || waitingBytes + tell.frame.payload.length > this.around.limits.waitingBytesMax)
      return this.log("warn", "session.untold", { type: tell.frame.type, id: tell.frame.id });
    this.outbound.offerTell(tell);
  }

  hearReset(effect: SendReset): void {
    const { code, message } = plainFault({ code: effect.code, message: effect.reason });
    this.reset(fault(code, message));
  }

  hearDrain({ on, reason }: SendDrain): void {
    const { line } = this;
    // Whoever is not here is told when it comes back.
    if (this.phase !== "live" || line === null) return;
    if (on || this.introduction.features.has("undrain")) return this.outbound.tellDrain(line, on, reason);
    // The older dialects cannot be told, and need not: they take work while they drain. Others take it after a fresh start.
    if (this.bound.dialect === "v2") this.reset(fault("E.SESSION.UNKNOWN", "the drain has ended; send a new handshake"));
  }

  // ---- the end of a tick, and time

  /** One merged ack, then as much work as window and socket take. */
  flush(roomBytes: number): void {
    const { line } = this;
    if (line === null || this.isEnded || this.phase === "resuming") return;
    this.flushAcks(line);
    if (this.phase !== "live") return;
    if (this.again.length > 0) this.repeat(line, this.again);
    this.again = [];
    this.outbound.flush(line, roomBytes, this.now());
    if (this.stream.counts.waitingBytes > this.around.limits.waitingBytesMax)
      this.reset(fault("E.OVERLOADED", "more work waits for this worker than the door holds"));
  }

  flushAcks(line: Line): void {
    if (!this.stream.isOwing) return;
    for (const ack of this.stream.takeAcks()) line.send(this.writer.ack(ack));
  }

  tick(now: number): void {
    if (this.phase === "live" && this.line !== null && now >= this.stream.nextDue) this.repeatDue(this.line, now);
    if (this.phase === "live" && now - this.inbound.stuckSince >= dialectRules[this.bound.dialect].gapMs) this.reset(gap());
    this.entrance.tick(now);
  }

  private repeatDue(line: Line, now: number): void {
    this.repeatOrEnd(line, this.stream.due(now, this.around.roll));
  }

  /** The worker misses frames: all that it has not acked, without waiting for their time. */
  repeatAll(): void {
    const { line } = this;
    if (this.phase === "live" && line !== null) this.repeatOrEnd(line, this.stream.repeatAll(this.now(), this.around.roll));
  }

  private repeatOrEnd(line: Line, { repeat, verdict }: Due<Item>): void {
    if (verdict === "gap") return this.reset(gap());
    if (verdict === "exhausted") {
      this.log("warn", "session.unacked", { frames: this.stream.counts.inFlight });
      // The data stays: a worker that can resume finds it all, the others start over.
      if (dialectRules[this.bound.dialect].canResume) return line.terminate();
      return this.reset(fault("E.TIMEOUT", "frames were sent as often as they may be and never acknowledged"));
    }
    this.repeat(line, repeat);
  }

  private repeat(line: Line, frames: readonly Sent<Item>[]): void {
    this.outbound.again(line, frames);
    this.around.meter.repeated(this.bound.tenant, "out", frames.length);
  }

  /** Asked when credentials changed or ran out. */
  reconsider(): void {
    if (!this.isEnded && !this.around.gate.isGood(this.bound.admitted))
      this.reset(fault("E.AUTH.INVALID_TOKEN", "the credential of this worker is no longer good"));
  }

  post(command: Parameters<Surroundings["post"]>[1], note: Note | null): void {
    this.around.post(this, command, note);
  }

  log(level: "info" | "warn", event: string, fields: Readonly<Record<string, unknown>>): void {
    const { tenant, instance } = this.bound;
    this.around.outside.log({ level, event, tenant, sender: { id: instance }, session: this.id, ...fields });
  }

  private now(): number {
    return this.around.outside.clock.ticks();
  }

  private move(to: SessionPhase): void {
    this.phase = moveSession(this.phase, to);
  }
}

const gap = (): Fault => fault("E.SESSION.GAP", "frames of this worker are missing and did not come within the time allowed");
