// The worker's side of a session, as a machine driven by events: the socket's, the clock's, the executor's, the operator's.
// How it comes to a session is link-course.ts, frames of work in it link-session.ts, heartbeats and lease link-pulse.ts, attempts and
// unacked words work.ts. Here they meet; sockets and timers stay outside.

import {
  type AckPayload,
  compileFrameReaders,
  type Envelope,
  Fault,
  limits,
  readEnvelope,
  readFrame,
  readJson,
} from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";
import type { FeedbackInput } from "./feedback.ts";
import { FrameWriter } from "./frame-writer.ts";
import { Course } from "./link-course.ts";
import { ExtEar } from "./link-ext.ts";
import { Greeting } from "./link-greeting.ts";
import { Intake } from "./link-intake.ts";
import type {
  DialHint,
  ExtWord,
  LinkIdentity,
  LinkInventory,
  LinkNote,
  LinkOffer,
  LinkPorts,
  LinkSettings,
  LinkView,
} from "./link-ports.ts";
import { Pulse } from "./link-pulse.ts";
import type { NextAnswer, NextDraft } from "./next.ts";
import type { KeptWord } from "./outbox-journal.ts";
import type { Keeping } from "./outbox-keeper.ts";
import type { Outcome } from "./outcome.ts";
import type { RemovedReason } from "./resource.ts";
import { Work } from "./work.ts";

const never = Number.POSITIVE_INFINITY;
/** A batch nests its items two levels deeper than they would travel alone. */
const frameBounds = { ...limits.json.frame, depthMax: limits.json.frame.depthMax + 2 };

export interface LinkParts {
  readonly ports: LinkPorts;
  readonly identity: LinkIdentity;
  readonly offer: () => LinkOffer;
  readonly settings: LinkSettings;
  /** Results are on disk before they are sent; absent: they are kept in memory only. */
  readonly keeping?: Keeping | null;
}

export class Link {
  readonly #ports: LinkPorts;
  readonly #writer: FrameWriter;
  readonly #work: Work;
  readonly #greeting: Greeting;
  readonly #pulse: Pulse;
  readonly #course: Course;

  #isLeaving = false;
  #hasSaidDrained = false;
  /** Id of the heartbeat that says goodbye. Until it is answered more work may be on its way here. */
  #farewell = "";
  #armedAt = never;
  #isFlushAsked = false;

  constructor(given: LinkParts) {
    const { ports, identity, offer, settings, keeping = null } = given;
    const note = (...said: Parameters<typeof writeNote>) => ports.note(writeNote(...said));
    const writer = new FrameWriter(ports, identity);
    const work = new Work(
      {
        now: () => ports.now(),
        start: (attempt) => ports.start(attempt),
        nextId: () => writer.nextId(),
        keeping,
        askFlush: () => this.#askFlush(),
        note,
      },
      { table: { ...settings.table, slotsMax: offer().maxParallel }, outbox: settings.outbox },
    );
    const intake = new Intake({ work, ext: new ExtEar((frame) => ports.ext(frame)), refusal: () => this.#refusal });
    const noteIgnored = (envelope: Envelope, problem: string) => this.#noteIgnored(envelope, problem);
    this.#ports = ports;
    this.#writer = writer;
    this.#work = work;
    this.#greeting = new Greeting({ ports, identity, offer, writer });
    this.#pulse = new Pulse({ ports, offer, settings, keeping, writer, work });
    this.#course = new Course({
      ports,
      settings,
      instance: identity.instance,
      greeting: this.#greeting,
      pulse: this.#pulse,
      work,
      session: { ports, settings, writer, work, intake, noteIgnored },
      isLeaving: () => this.#isLeaving,
      arrived: () => this.#settleIn(),
      departed: () => this.#settleOut(),
      note,
    });
  }

  get view(): LinkView {
    return { phase: this.#course.phase, ...this.#work.counts };
  }

  inventory(): LinkInventory {
    const now = this.#ports.now();
    const leftMs = this.#pulse.lease.fenceAt - now;
    return {
      phase: this.#course.phase,
      session: this.#course.session?.id ?? null,
      leaseLeftMs: leftMs === never ? null : Math.max(0, Math.round(leftMs)),
      attempts: this.#work.inventory(now),
      counts: this.#work.counts,
      stream: this.#course.session?.counts ?? null,
    };
  }

  // ---- the operator

  begin(): void {
    compileFrameReaders();
    this.#course.dial();
    this.#arm();
  }

  /** Before `begin`: what an earlier process has left on disk, oldest first. */
  recall(left: readonly KeptWord[]): void {
    this.#work.recall(left);
  }

  /** Takes no new work, finishes what it holds, then closes for good. */
  leave(): void {
    if (this.#isLeaving || this.#isClosed) return;
    this.#isLeaving = true;
    this.#course.move("drain");
    if (this.#course.openSession !== null) this.#farewell = this.#beat();
    this.#closeIfDone();
    this.#arm();
  }

  /** Ends now: what still runs is given back to the scheduler. */
  stop(): void {
    if (this.#isClosed) return;
    this.#work.giveBackUnfinished("the worker was stopped before the task ended");
    this.flush();
    this.#close("stopped");
  }

  // ---- the socket

  opened(): void {
    this.#fenceSelfIfDue();
    this.#course.opened();
    this.#arm();
  }

  /** The socket is gone, or never came up. A scheduler that has fallen silent is better not asked first: `next`. */
  lost(reason: string, hint: DialHint = "same"): void {
    this.#course.lost(reason, hint);
  }

  /** One text message of the scheduler. */
  received(text: string): void {
    const { phase } = this.#course;
    if (phase === "CLOSED" || phase === "BACKOFF" || phase === "NEW") return;
    if (this.#fenceSelfIfDue()) return this.#arm();
    const value = readJson(text, frameBounds);
    const envelope = value instanceof Fault ? value : readEnvelope(value, "v2");
    if (envelope instanceof Fault) {
      // In the same session it would be sent again, and end the next socket too.
      this.#course.endSession(1002, `the scheduler sent a frame that cannot be read: ${envelope.message}`);
    } else if (envelope.type.startsWith("control.")) this.#takeControl(envelope);
    else this.#takeWork(envelope, text.length);
    this.#arm();
  }

  // ---- the executor and its packages

  finished(attempt: Attempt, outcome: Outcome): void {
    this.#fenceSelfIfDue();
    this.#work.finished(attempt, outcome);
  }

  settled(attempt: Attempt): void {
    // Its slot would go to an attempt that waits, perhaps one that is no longer this worker's.
    this.#fenceSelfIfDue();
    this.#work.settled(attempt);
    this.#closeIfDone();
  }

  feedback(attempt: Attempt, input: FeedbackInput): void {
    this.#work.feedback(attempt, input);
  }

  /** A middleware calls the next of its chain; see calls.ts. */
  next(attempt: Attempt, draft: NextDraft, answer: (answer: NextAnswer) => void): () => void {
    this.#fenceSelfIfDue();
    return this.#work.calls.begin(attempt, draft, answer);
  }

  /** A vendor frame for the scheduler: kept until acked, at least once across sessions. False: too much of that waits. */
  sendExt(word: ExtWord): boolean {
    return !this.#isClosed && this.#work.putExt(word);
  }

  /** A resource that a result has named is gone; the scheduler hears of it once. */
  removed(resource: string, reason: RemovedReason): void {
    if (!this.#isClosed) this.#work.removed(resource, reason);
  }

  /** The disk fails or works again, a problem came or went: the scheduler hears of it at once. */
  healthChanged(): void {
    if (this.#course.openSession === null) return;
    this.#beat();
    this.#arm();
  }

  // ---- the clock

  /** Does all that is due, and asks for the next call. */
  tick(): void {
    const now = this.#ports.now();
    this.#armedAt = never;
    this.#fenceSelfIfDue();
    this.#work.expireWaiting(now);
    if (!this.#course.tick(now) && this.#pulse.beatAt <= now) {
      if (this.#pulse.lease.isSilent) this.#course.hangUp(1001, "the scheduler leaves heartbeats unanswered", "next");
      else this.#beat();
    }
    this.#repeatDue();
    this.#arm();
  }

  /** Sends what one tick has gathered: one ack for all that came, then the words that may travel. */
  flush(): void {
    this.#isFlushAsked = false;
    this.#course.openSession?.flush();
    this.#arm();
  }

  // ---- coming and going

  #settleIn(): void {
    this.#hasSaidDrained = false;
    if (this.#isLeaving) this.#farewell = this.#beat();
    else if (this.#pulse.isHealthNews()) this.#beat();
    this.#askFlush();
    this.#closeIfDone();
  }

  #settleOut(): void {
    this.#farewell = "";
    this.#closeIfDone();
    this.#arm();
  }

  /** A worker that leaves is done once nothing is held and nothing is left to say; one that drains says that it is done, and stays. */
  #closeIfDone(): void {
    if (!this.#work.isDone) return;
    if (this.#isLeaving) {
      if (this.#farewell === "") this.#close("left");
    } else if (this.#course.phase === "DRAINING" && !this.#hasSaidDrained) {
      this.#hasSaidDrained = true;
      this.#ports.note(writeNote("info", "drained", "all that was held is finished and acked"));
      this.#beat();
    }
  }

  #close(reason: string): void {
    if (!this.#course.move("stop")) return;
    this.#ports.hangUp(1000, reason);
    this.#ports.note(writeNote("info", "closed", reason));
  }

  get #isClosed(): boolean {
    return this.#course.phase === "CLOSED";
  }

  /**
   * Near the end of the lease the scheduler may grant these tasks to others; from here on they must not be touched. Only a new register
   * brings a new lease, and tells what is no longer held. True: the socket was given up for it.
   */
  #fenceSelfIfDue(): boolean {
    const { lease } = this.#pulse;
    if (this.#ports.now() < lease.fenceAt) return false;
    lease.expire();
    const lost = this.#work.dropUnfinished("the worker's lease ran out");
    const message = `the lease ran out without an answer; ${lost} attempts were dropped`;
    if (lost > 0) this.#ports.note(writeNote("error", "self-fenced", message, { lost }));
    const hasSessionSocket = this.#course.openSession !== null || this.#course.isResuming;
    if (hasSessionSocket) this.#course.endSession(1001, "the lease ran out without an answer");
    else this.#course.forget();
    return hasSessionSocket;
  }

  // ---- frames that come in

  #takeControl(envelope: Envelope): void {
    const frame = readFrame("v2", envelope);
    if (frame instanceof Fault) {
      // A type of frame from a newer scheduler is no reason to part; a known one that is malformed is.
      if (frame.code === "E.CMD.UNKNOWN") this.#ignore(envelope, frame.message);
      else this.#course.endSession(1002, frame.message);
    } else if (frame.type === "control.ack") this.#takeAck(frame.payload, envelope);
    else if (frame.type === "control.session.accept") {
      const problem = this.#course.takeAccept(frame.payload);
      if (problem !== null) this.#ignore(envelope, problem);
    } else if (frame.type === "control.reset") this.#course.obeyReset(frame.payload);
    else if (frame.type === "control.drain" || frame.type === "control.undrain") {
      if (envelope.ack?.request) this.#writer.control("control.ack", { ok: true, for: envelope.id }, { ackFor: envelope.id });
      if (frame.type === "control.undrain") this.#undrain();
      else if (this.#course.move("drain")) this.#closeIfDone();
    } else this.#ignore(envelope, `${frame.type} is not for workers`);
  }

  #undrain(): void {
    if (this.#isLeaving || !this.#course.move("undrain")) return;
    this.#hasSaidDrained = false;
    this.#ports.note(writeNote("info", "undrained", "new work is welcome again"));
    this.#beat();
  }

  #takeAck(ack: AckPayload, envelope: Envelope): void {
    const id = ack.for ?? envelope.ack?.for;
    if (this.#course.openSession === null) {
      if (this.#greeting.isAwaited(id)) this.#course.takeVerdict(ack);
      return;
    }
    if (id !== undefined) this.#pulse.answered(id);
    if (id === this.#farewell) this.#farewell = "";
    if (ack.ok === false) {
      const message = ack.info ?? "the scheduler did not understand a frame";
      this.#ports.note(writeNote("warn", "word-refused", message, { for: id }));
      if (id !== undefined) this.#work.calls.failed(id, message);
    }
    if (!this.#work.acked(ack, envelope.ack?.for)) return this.#course.disagree();
    this.#askFlush();
    this.#closeIfDone();
  }

  #takeWork(envelope: Envelope, bytes: number): void {
    const session = this.#course.openSession;
    if (session === null) return this.#ignore(envelope, `${envelope.type} came before the session was accepted`);
    session.arrive(envelope, bytes);
    if (session.isOwing) this.#askFlush();
    this.#closeIfDone();
  }

  /** Why new work is turned away just now. */
  get #refusal(): string | null {
    if (this.#course.phase === "DRAINING") return "the worker is draining and takes no new work";
    return this.#pulse.canKeep ? null : "the worker cannot write results to its disk and takes no new work";
  }

  /** Never fatal: what asked by id is told. */
  #ignore(envelope: Envelope, message: string): void {
    this.#noteIgnored(envelope, message);
    if (envelope.seq !== undefined || !envelope.ack?.request) return;
    this.#writer.control("control.ack", { ok: false, for: envelope.id, info: message }, { ackFor: envelope.id });
  }

  #noteIgnored({ type, id, corr, seq }: Envelope, message: string): void {
    this.#ports.note(writeNote("warn", "frame-ignored", message, { type, id, corr, seq }));
  }

  // ---- what goes out in time

  #beat(): string {
    return this.#pulse.beat({ isLeaving: this.#isLeaving, isDraining: this.#course.phase === "DRAINING" });
  }

  #repeatDue(): void {
    const verdict = this.#course.openSession?.repeatDue();
    if (verdict === "gap") this.#course.endSession(1002, "a frame of the scheduler did not come in time");
    else if (verdict === "exhausted") this.#course.hangUp(1001, "the scheduler leaves frames of work unacked");
  }

  #askFlush(): void {
    if (this.#isFlushAsked) return;
    this.#isFlushAsked = true;
    this.#ports.soon();
  }

  /** Asks for a tick when the earliest due instant has come nearer; a tick that comes too early only asks again. */
  #arm(): void {
    if (this.#isClosed) return;
    const { beatAt, lease } = this.#pulse;
    const at = Math.min(this.#course.nextAt, beatAt, lease.fenceAt, this.#work.waitEndsAt);
    if (at >= this.#armedAt) return;
    this.#armedAt = at;
    this.#ports.wake(at);
  }
}

function writeNote(level: LinkNote["level"], event: LinkNote["event"], message: string, details?: LinkNote["details"]): LinkNote {
  return details === undefined ? { level, event, message } : { level, event, message, details };
}
