// What a worker says in its session: control frames heard, work frames put in order and read, acknowledged once answered. Order and
// repeats are the stream's business, what words of work lead to is work-ear.ts; how the session began and ends is in session.ts.

import type { AnswerBody, FaultData, Held, SendOrder } from "@astraflow/engine";
import { type Envelope, Fault, type FramePayloads, fault, toFrameType } from "@astraflow/protocol";
import { type Ticket, voidType } from "@astraflow/session";
import { isRetryable } from "../plain-fault.ts";
import { tellBeat } from "./beat-words.ts";
import { Introduction } from "./introduction.ts";
import { type Note, ticketOf } from "./notes.ts";
import { RecentIds } from "./recent-ids.ts";
import type { Session } from "./session.ts";
import { frameFields, type Surroundings } from "./surroundings.ts";
import { beatCommand, dispatchIn, readAs, readWord } from "./words.ts";
import { WorkEar } from "./work-ear.ts";

export class Inbound {
  readonly #session: Session;
  readonly #around: Surroundings;
  /**
   * The first generation counts anew when it hears the accept, and may have spoken before that: a number it uses twice under two ids is
   * two frames. The second is taken without its number, and both ends agree again once the count passes what was used before.
   */
  readonly #ids: RecentIds | null;
  readonly #ear: WorkEar;
  #registerId: string | null = null;
  #stuck: { readonly at: number; readonly since: number } | null = null;

  constructor(session: Session, around: Surroundings) {
    this.#session = session;
    this.#around = around;
    this.#ear = new WorkEar(session, around);
    this.#ids = session.bound.dialect === "first" ? new RecentIds() : null;
  }

  /** A frame on the session's socket, from whom it is bound to. */
  receive(envelope: Envelope, bytes: number): void {
    this.#around.frameLog?.heard(envelope, this.#session.id);
    this.#around.wireTap?.heard(envelope, bytes, this.#session.receiver);
    const type = this.#typeOf(envelope);
    const { dialect, worker } = this.#session.bound;
    if (dialect !== "v2") this.#around.frameCounters.hear(worker, envelope.id);
    if (type.startsWith("control.")) this.#control(type, envelope, bytes);
    else this.#business(type, envelope, bytes);
  }

  /** The register that the session began with: it may be repeated until it is acked. */
  registered(envelope: Envelope): void {
    this.#registerId = envelope.id;
  }

  /** Its name in our own dialect, whatever it was called on the wire. */
  #typeOf(envelope: Envelope): string {
    const { dialect } = this.#session.bound;
    return dialect === "v1" ? (toFrameType(dialect, envelope.type) ?? envelope.type) : envelope.type;
  }

  // ---- control frames

  #control(type: string, envelope: Envelope, bytes: number): void {
    switch (type) {
      case "control.ack":
        return this.#hearAck(envelope);
      case "control.heartbeat":
        return this.#hearBeat(envelope, bytes);
      case "control.register":
        return this.#hearRegister(envelope, bytes);
      case "control.handshake":
      case "control.resume":
        return this.#hearGreeting(envelope);
      default:
        return this.#ear.unknown(envelope, ticketOf(envelope, bytes));
    }
  }

  /**
   * Those who hear no ack in time say their first frame again. The older ones say even that of an earlier socket again, when they dialled
   * anew at once, and would die of a reset.
   */
  #hearGreeting(envelope: Envelope): void {
    const { bound, entrance, stream } = this.#session;
    const isOlder = bound.dialect !== "v2" && envelope.type !== "control.resume";
    if (isOlder || envelope.id === bound.greeting || envelope.id === entrance.resumeId) return stream.name(envelope.id);
    this.#session.reset(fault("E.FRAME.INVALID", `${envelope.type} is only possible as the first frame`), envelope);
  }

  #hearRegister(envelope: Envelope, bytes: number): void {
    const session = this.#session;
    if (envelope.id === this.#registerId) {
      // Before the join is stored the ack must not leave; then it leaves anyway.
      if (session.phase === "live") session.stream.name(envelope.id);
      return;
    }
    if (session.phase !== "live")
      return session.reset(fault("E.FRAME.INVALID", "register again only once the session is accepted"), envelope);
    const register = this.#read("control.register", envelope);
    if (register === null) return;
    // A register says everything anew; what an earlier catalogue said no longer counts if this one lists packages.
    const isListed = register.packages !== undefined || register.manifests !== undefined;
    session.introduction = new Introduction(register, isListed ? null : session.introduction.catalog);
    session.showManifests(register.manifests ?? []);
    session.kept.compare();
    this.#describe(ticketOf(envelope, bytes));
  }

  #hearBeat(envelope: Envelope, bytes: number): void {
    const session = this.#session;
    const beat = this.#read("control.heartbeat", envelope);
    if (beat === null) return;
    const ticket = ticketOf(envelope, bytes);
    // Some workers start beating before they are accepted; there is nothing to renew yet.
    if (session.phase !== "live") return session.stream.settle(ticket);
    const installed = beat.packages?.installed;
    if (installed !== undefined && session.introduction.learn(installed)) this.#describe(silent);
    // While the store stalls the older beats still wait; this one would say nothing they do not.
    if (session.isEnded || session.notes.beats >= this.#around.limits.beatsMax) return;
    const command = beatCommand(session.speaker, beat, this.#around.limits.vitalsCharsMax);
    const note: Note = { what: "beat", ticket, left: 1, beat: command };
    session.notes.enter(note);
    session.post(command, note);
  }

  #hearAck(envelope: Envelope): void {
    const session = this.#session;
    const ack = this.#read("control.ack", envelope);
    if (ack === null) return;
    const acked = session.stream.heardAck(ack, envelope.ack?.for);
    if (acked === "unsent")
      return session.reset(fault("E.SESSION.ACK_UNSENT", "the ack names a frame that was never sent"), envelope);
    const named = envelope.ack?.for ?? ack.for;
    const untaken = ack.ok === false ? dispatchIn(named) : null;
    const held: Held[] = [];
    for (const { send, id } of acked) {
      session.outbound.acked(send);
      if (send.type === "order" && ack.ok === false && id === named) this.#hearRefusedOrder(send, ack.info);
      if (send.type === "dispatch" && (untaken === null || id !== named))
        held.push({ task: send.dispatch.task, fence: send.dispatch.fence });
    }
    const { tenant, worker, session: by } = session.speaker;
    const heard = session.outbound.heardDrain(named);
    if (heard !== null) session.post({ type: "worker.heard", tenant, worker, session: by, ...heard }, null);
    if (held.length > 0) session.post({ type: "task.ack", tenant, worker, session: by, held }, null);
    if (untaken !== null) this.#hearUntaken(untaken, envelope, ack.info);
  }

  /**
   * The worker has a dispatch and will not run it. Read from the name, as an earlier ack may have covered its number already: the attempt
   * goes back at once, where it would else stay leased for as long as the worker beats. What it no longer holds, the engine knows.
   */
  #hearUntaken(untaken: Held, envelope: Envelope, info = "the worker did not say why"): void {
    const session = this.#session;
    if (session.notes.unnumbered >= this.#around.limits.unnumberedMax)
      return session.reset(fault("E.OVERLOADED", "too many refusals of dispatches wait for an answer"));
    const isStillRunning = info.includes("E.CMD.CONCURRENCY_VIOLATION");
    const code = isStillRunning ? "E.CMD.CONCURRENCY_VIOLATION" : "E.RUNNER.CANCELLED";
    session.log("warn", "session.untaken", { ...frameFields(envelope), ...untaken, code, reason: info.slice(0, 500) });
    session.outbound.drop(untaken);
    const { tenant, worker, session: by } = session.speaker;
    const message = `the worker refused the dispatch: ${info.slice(0, 500)}`;
    this.#ear.tell([{ type: "task.error", tenant, worker, session: by, ...untaken, code, message }], silent);
  }

  /** It does not know how, or will not: nothing more will come of the command, and whoever gave it should read why. */
  #hearRefusedOrder({ id, order }: SendOrder, info = "the worker did not say why"): void {
    const { tenant, worker, session } = this.#session.speaker;
    const details = { command: id, reason: info.slice(0, 500) };
    const about = { name: order.name, version: order.version ?? "*", status: "failed", details } as const;
    this.#ear.tell([{ type: "worker.package", tenant, worker, session, ...about }], silent);
  }

  // ---- work frames

  #business(type: string, envelope: Envelope, bytes: number): void {
    const session = this.#session;
    const { bound } = session;
    if (bound.dialect === "v1" && this.#isFalselyNumbered(type, envelope)) return;
    const number = bound.dialect === "v2" ? envelope.seq : envelope.session_seq;
    const { id, corr } = envelope;
    // Asked before it arrives: as a repeat of another frame it would be acked by name before its own word is stored.
    const isRenumbered = this.#ids?.has(id) === false && number !== undefined && session.stream.hasSeen(number);
    const isAsked = envelope.ack?.request === true;
    const frame = { number: isRenumbered ? undefined : number, id, corr, isAsked, bytes };
    const { verdict, deliver } = session.stream.arrive(frame, envelope, this.#around.outside.clock.ticks());
    if (verdict !== "outside") this.#ids?.add(id);
    if (verdict === "repeat") return this.#around.meter.repeated(bound.tenant, "in", 1);
    // Not acked: it comes again when there is room for it.
    if (verdict === "outside") return this.#hearOutside();
    for (const { ticket, item } of deliver) {
      if (session.isEnded) return;
      this.#hearWord(item === envelope ? type : this.#typeOf(item), item, ticket);
    }
  }

  /**
   * A peer that gave frames up may never send the next one, only such as lie beyond the window: a hole without anything behind it.
   * While frames wait for the engine it is our own slowness instead.
   */
  #hearOutside(): void {
    const { stream, bound } = this.#session;
    this.#around.meter.refused(bound.tenant, "E.SESSION.WINDOW");
    if (stream.counts.unsettled > 0 || this.#stuck?.at === stream.lastSeen) return;
    this.#stuck = { at: stream.lastSeen, since: this.#around.outside.clock.ticks() };
  }

  /** Since when nothing but frames beyond the window came; Infinity where that is not so. */
  get stuckSince(): number {
    return this.#stuck?.at === this.#session.stream.lastSeen ? this.#stuck.since : Number.POSITIVE_INFINITY;
  }

  /** A new socket may bring what was missing. */
  forgetStuck(): void {
    this.#stuck = null;
  }

  /**
   * v1 numbers what it says by run. Only a number that this worker was never sent is answered: results of one run come from
   * several workers and in any order.
   */
  #isFalselyNumbered(type: string, envelope: Envelope): boolean {
    const session = this.#session;
    const { seq, payload } = envelope;
    const run = payload["run_id"];
    if (type !== "biz.exec.result" || seq === undefined || typeof run !== "string") return false;
    if (!this.#around.runNumbers.isFalse(run, seq, session.bound.worker)) return false;
    this.#around.meter.refused(session.bound.tenant, "E.RESULT.SEQ_GAP");
    const message = `number ${seq} of run ${run} was never dispatched to this worker; send again from the last acknowledged one`;
    session.line?.send(session.writer.error("E.RESULT.SEQ_GAP", message, envelope.id));
    return true;
  }

  #hearWord(type: string, envelope: Envelope, ticket: Ticket): void {
    const session = this.#session;
    if (session.phase === "describing") return this.#hearInventory(type, envelope, ticket);
    if (ticket.number === null && session.notes.unnumbered >= this.#around.limits.unnumberedMax)
      return session.reset(fault("E.OVERLOADED", "too many frames without a number wait for an answer"));
    const word = readWord(session.speaker, type, envelope, ticket.bytes);
    if (word instanceof Fault) return this.#ear.misfit(type, envelope, ticket, word);
    if (word.of !== "catalog") return this.#ear.hear(word, type, envelope, ticket);
    session.introduction.relearn(word.catalog);
    session.showManifests(word.catalog.packages);
    this.#describe(ticket);
  }

  // ---- the inventory

  #hearInventory(type: string, envelope: Envelope, ticket: Ticket): void {
    const session = this.#session;
    const { introduction } = session;
    if (type === "biz.pkg.catalog") {
      const catalog = readAs(session.bound, type, envelope);
      if (catalog instanceof Fault) return this.#ear.misfit(type, envelope, ticket, catalog);
      introduction.catalog = catalog;
      session.showManifests(catalog.packages);
    } else if (type === "biz.exec.inventory") {
      const inventory = readAs(session.bound, type, envelope);
      if (inventory instanceof Fault) return this.#ear.misfit(type, envelope, ticket, inventory);
      introduction.inventory = inventory;
    } else if (type !== voidType) {
      const why = fault("E.SESSION.NOT_REGISTERED", "catalogue and inventory must come before other work frames");
      return session.reset(why, envelope);
    }
    if (session.entrance.answerFor(ticket) > this.#around.limits.unnumberedMax + this.#around.limits.wideRecvWindow)
      return session.reset(fault("E.OVERLOADED", "too many frames wait for the rest of the inventory"));
    if (introduction.isComplete(session.bound)) session.line?.described();
  }

  #describe(ticket: Ticket): void {
    const session = this.#session;
    if (session.notes.unnumbered >= this.#around.limits.unnumberedMax)
      return session.reset(fault("E.OVERLOADED", "too many descriptions wait for an answer"));
    const why = session.introduction.objection(session.bound);
    if (why !== null) return session.reset(why);
    const note: Note = { what: "describe", ticket, left: 1 };
    session.notes.enter(note);
    session.post(session.introduction.describe(session.bound, session.speaker), note);
  }

  // ---- what the engine answered

  answered(note: Note, body: AnswerBody | null, why: FaultData | null): void {
    const session = this.#session;
    const isLast = session.notes.answer(note);
    if (session.isEnded) return;
    if (why !== null) {
      this.#around.meter.refused(session.bound.tenant, why.code);
      const isSessionGone = why.code.startsWith("E.SESSION.") && note.what !== "word";
      // A beat that could not be stored is not worth a session: the next one says as much, and this one stays unacked.
      if (note.what === "beat" && !isSessionGone && isRetryable(why)) return;
      // A word that was refused for good is settled; one that could not be stored must come again, in a new session.
      if (note.what !== "word" || isRetryable(why)) return session.sendAway(why);
      this.#ear.refused(note, why);
    }
    if (isLast) this.#ear.close(note.ticket, note.refusal);
    // Of a session that has lost its socket meanwhile the log says more, and later.
    if (note.beat !== undefined && why === null && session.phase === "live")
      tellBeat(this.#around, session.bound, note.beat, body);
  }

  #read<T extends Known>(type: T, envelope: Envelope): FramePayloads[T] | null {
    const payload = readAs(this.#session.bound, type, envelope);
    if (!(payload instanceof Fault)) return payload;
    this.#session.reset(payload, envelope);
    return null;
  }
}

type Known = "control.register" | "control.heartbeat" | "control.ack";

/** For words of ours that no frame waits on. */
const silent: Ticket = { number: null, id: "", isAsked: false, bytes: 0 };
