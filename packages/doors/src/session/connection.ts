// One worker connection as a machine: frames, effects, answers and the passing of time in; actions out. Dialect v2.
// Sockets and timers live in hall.ts, decisions about tasks in the engine. The moves between phases are in phase.ts.

import type { AnswerBody, Command, FaultData, SendDispatch, SendDrain, SendReset, SendStop } from "@astraflow/engine";
import { type Envelope, Fault, fault, faultCodes, limits, readPayload } from "@astraflow/protocol";
import type { Authenticate, Sign } from "../identity.ts";
import type { Outside } from "../outside.ts";
import { isRetryable, plainFault } from "../plain-fault.ts";
import { Acks, isUnnumbered, type Note, noteOf } from "./acks.ts";
import { acceptance, type Bound, greet, isBound } from "./greeting.ts";
import { Incoming } from "./incoming.ts";
import { Introduction } from "./introduction.ts";
import type { SessionLimits } from "./limits.ts";
import { Outgoing } from "./outgoing.ts";
import { movePhase, type Phase } from "./phase.ts";
import { Writer } from "./texts.ts";
import { beatCommand, readWord, type Speaker } from "./words.ts";

/** What the door shall do. `post` gives its note back with the answer; `bound` and `open` tell it what it now deals with. */
export type Action =
  | { readonly do: "send"; readonly text: string }
  | { readonly do: "post"; readonly command: Command; readonly note: Note | null }
  | { readonly do: "bound"; readonly tenant: string; readonly worker: string }
  | { readonly do: "open"; readonly session: string }
  | { readonly do: "close"; readonly code: number; readonly reason: string };

export interface Surroundings {
  readonly authenticate: Authenticate;
  readonly sign: Sign;
  readonly outside: Outside;
  readonly limits: SessionLimits;
  readonly stamp: () => string;
  /** Numbers; see metrics.ts. */
  readonly meter: { refused(tenant: string, code: string): void };
}

/** Close code of the sockets whose session was reset; the older workers expect exactly this one. */
const resetCloseCode = 1011;
const batchBytesMax = limits.resultInlineBytesMax;

export class Connection {
  phase: Phase = "new";
  bound: Bound | null = null;
  /** Numbered frames of the worker, and bytes of them, that the engine has not answered. */
  unansweredBytes = 0;
  private readonly around: Surroundings;
  private readonly incoming: Incoming;
  private readonly outgoing: Outgoing;
  private readonly acks: Acks;
  private writer: Writer;
  private speaker: Speaker | null = null;
  private introduction: Introduction | null = null;
  /** Frames that are answered for by the join. */
  private joinNotes: Note[] = [];
  private deadline: number;
  private beatsPending = 0;
  private unnumbered = 0;

  constructor(around: Surroundings) {
    this.around = around;
    this.incoming = new Incoming(around.limits.recvWindow);
    this.outgoing = new Outgoing(around.limits.sendWindow);
    this.acks = new Acks(this.incoming);
    this.writer = new Writer("unknown", around.stamp);
    this.deadline = around.outside.clock.ticks() + around.limits.strangerMs;
  }

  get session(): string | null {
    return this.speaker?.session ?? null;
  }

  /** Something to flush: acks that are due, or work that may now be sent. */
  get isOwing(): boolean {
    return this.acks.isOwing || (this.phase === "live" && this.outgoing.hasWaiting);
  }

  // ---- what the worker says

  receive(envelope: Envelope, bytes: number, out: Action[]): void {
    if (this.phase === "closed") return;
    if (this.bound === null) return this.greet(envelope, out);
    if (!isBound(this.bound, envelope)) {
      this.audit("session.mismatch", { code: "E.SESSION.TENANT_MISMATCH", type: envelope.type, id: envelope.id });
      return this.reset(
        fault("E.SESSION.TENANT_MISMATCH", "tenant and sender must stay those of the handshake"),
        out,
        envelope.id,
      );
    }
    if (envelope.type.startsWith("control.")) this.control(envelope, bytes, out);
    else this.business(envelope, bytes, out);
  }

  /** The frame could not even be read. */
  broken(why: Fault, out: Action[]): void {
    if (this.phase !== "closed") this.reset(why, out);
  }

  private greet(first: Envelope, out: Action[]): void {
    const bound = greet(first, this.around.authenticate);
    if (bound instanceof Fault) {
      this.writer = new Writer(first.tenant, this.around.stamp);
      this.audit("session.refused", { code: bound.code, tenant: first.tenant, sender: first.sender.id });
      return this.reset(bound, out, first.id);
    }
    this.bound = bound;
    this.writer = new Writer(bound.tenant, this.around.stamp);
    this.move("greeted");
    this.deadline = this.around.outside.clock.ticks() + this.around.limits.registerMs;
    out.push({ do: "bound", tenant: bound.tenant, worker: bound.worker });
    this.acks.name(first.id);
  }

  private control(envelope: Envelope, bytes: number, out: Action[]): void {
    const note = noteOf("describe", envelope, null, bytes);
    switch (envelope.type) {
      case "control.ack":
        return this.hearAck(envelope, out);
      case "control.heartbeat":
        return this.hearBeat(envelope, bytes, out);
      case "control.register":
        return this.hearRegister(envelope, note, out);
      case "control.handshake":
      case "control.resume":
        return this.reset(fault("E.FRAME.INVALID", `${envelope.type} is only possible as the first frame`), out, envelope.id);
      default:
        return this.hearUnknown(envelope, note);
    }
  }

  private hearRegister(envelope: Envelope, note: Note, out: Action[]): void {
    const register = this.read("control.register", envelope, out);
    if (register === null) return;
    const isFirst = this.phase === "greeted";
    if (!isFirst && this.phase !== "live")
      return this.reset(fault("E.FRAME.INVALID", "register again only once the session is accepted"), out, envelope.id);
    // A register says everything anew; what an earlier catalogue said no longer counts if this one lists packages.
    const isListed = register.packages !== undefined || register.manifests !== undefined;
    this.introduction = new Introduction(register, isListed ? null : (this.introduction?.catalog ?? null));
    if (!isFirst) return this.describe(note, out);
    if (this.introduction.isComplete) {
      this.joinNotes.push(note);
      return this.join(out);
    }
    // Acknowledged as received, or the rest would not come; that it counts is said by accept, after the join is stored.
    this.acks.settle(note);
    this.move("describing");
    this.deadline = this.around.outside.clock.ticks() + this.around.limits.inventoryMs;
  }

  private hearBeat(envelope: Envelope, bytes: number, out: Action[]): void {
    const beat = this.read("control.heartbeat", envelope, out);
    // Some workers start beating when the socket opens; before the session lives there is nothing to renew.
    if (beat === null || this.phase !== "live" || this.speaker === null) return;
    // While the store stalls the older beats still wait; this one would say nothing they do not.
    if (this.beatsPending >= this.around.limits.beatsMax) return;
    this.beatsPending += 1;
    this.post(beatCommand(this.speaker, beat), noteOf("beat", envelope, null, bytes), out);
  }

  private hearAck(envelope: Envelope, out: Action[]): void {
    const ack = this.read("control.ack", envelope, out);
    if (ack === null || this.speaker === null) return;
    // The numbers are trusted before the name: a name may be acked that the worker's window then dropped.
    const named = ack.for ?? envelope.ack?.for;
    const acked =
      ack.ack_seq === undefined
        ? this.outgoing.ackNamed(named ?? "")
        : this.outgoing.ack(ack.ack_seq, ack.ack_bitmap, ack.recv_window);
    if (acked === "unsent")
      return this.reset(fault("E.SESSION.ACK_UNSENT", "the ack names a frame that was never sent"), out, envelope.id);
    const { tenant, worker, session } = this.speaker;
    const held = acked.items.flatMap((item) =>
      item.type === "dispatch" ? [{ task: item.dispatch.task, fence: item.dispatch.fence }] : [],
    );
    if (held.length > 0) out.push({ do: "post", command: { type: "task.ack", tenant, worker, session, held }, note: null });
  }

  private business(envelope: Envelope, bytes: number, out: Action[]): void {
    if (this.phase === "greeted")
      return this.reset(fault("E.SESSION.NOT_REGISTERED", "register before sending work frames"), out, envelope.id);
    const seq = envelope.seq ?? null;
    if (seq !== null) {
      const arrival = this.incoming.arrive(seq);
      if (arrival === "repeat") return this.acks.owe(envelope.ack?.request === true ? envelope.id : null);
      if (arrival === "gap")
        return this.reset(fault("E.SESSION.GAP", `number ${seq} came although earlier ones are missing`), out, envelope.id);
      if (arrival === "full")
        return this.reset(fault("E.SESSION.WINDOW", `more than ${this.incoming.window} frames are unacknowledged`), out);
    }
    const note = noteOf("word", envelope, seq, bytes);
    if (this.phase === "describing" || this.speaker === null) return this.hearInventory(envelope, note, out);
    if (seq === null && this.unnumbered >= this.around.limits.unnumberedMax)
      return this.reset(fault("E.OVERLOADED", "too many frames without a number wait for an answer"), out);
    this.hearWord(this.speaker, envelope, note, out);
  }

  private hearWord(who: Speaker, envelope: Envelope, note: Note, out: Action[]): void {
    const word = readWord(who, envelope, note.bytes);
    if (word instanceof Fault) return this.reset(word, out, envelope.id);
    switch (word.of) {
      case "commands":
        if (word.commands.length === 0) return this.acks.settle(note);
        note.left = word.commands.length;
        this.enter(note);
        for (const command of word.commands) out.push({ do: "post", command, note });
        return;
      case "catalog":
        if (this.introduction !== null) this.introduction.catalog = word.catalog;
        return this.describe(note, out);
      case "news":
        this.log("info", word.event, word.fields);
        return this.acks.settle(note);
      case "unknown":
        return this.hearUnknown(envelope, note);
    }
  }

  /** Never fatal: a newer worker may know more words than we do. */
  private hearUnknown(envelope: Envelope, note: Note): void {
    this.around.meter.refused(this.bound?.tenant ?? "", "E.CMD.UNKNOWN");
    this.acks.refuse(note, `E.CMD.UNKNOWN: frames of type ${envelope.type.slice(0, 100)} are not known here`);
  }

  // ---- joining

  private hearInventory(envelope: Envelope, note: Note, out: Action[]): void {
    const { introduction } = this;
    if (introduction === null) return;
    if (envelope.type === "biz.pkg.catalog") introduction.catalog = this.read("biz.pkg.catalog", envelope, out);
    else if (envelope.type === "biz.exec.inventory") introduction.inventory = this.read("biz.exec.inventory", envelope, out);
    else {
      const why = fault("E.SESSION.NOT_REGISTERED", "catalogue and inventory must come before other work frames");
      return this.reset(why, out, envelope.id);
    }
    this.joinNotes.push(note);
    if (this.phase !== "closed" && introduction.isComplete) this.join(out);
  }

  private join(out: Action[]): void {
    const { bound, introduction } = this;
    if (bound === null || introduction === null) return;
    const session = this.around.outside.ids.next();
    this.speaker = { tenant: bound.tenant, worker: bound.worker, session };
    this.move("joining");
    this.deadline = Number.POSITIVE_INFINITY;
    // The engine may grant in the very turn of the join: effects for this session must find it.
    out.push({ do: "open", session });
    const note: Note = { what: "join", id: "", seq: null, isAsked: false, bytes: 0, left: 1 };
    this.post(introduction.join(bound, session), note, out);
  }

  private joined(body: Extract<AnswerBody, { of: "join" }>, out: Action[]): void {
    const { bound, speaker } = this;
    if (bound === null || speaker === null) return;
    this.move("live");
    for (const note of this.joinNotes) this.acks.settle(note);
    this.joinNotes = [];
    this.flushAcks(out);
    const announced = this.introduction?.features ?? new Set<string>();
    this.send(this.writer.accept(acceptance(bound, speaker.session, body, announced, this.around)), out);
    if (body.draining) this.send(this.writer.drain("this worker is being drained"), out);
    this.log("info", "session.open", { epoch: body.epoch, features: [...announced] });
  }

  private describe(note: Note, out: Action[]): void {
    const { bound, introduction, speaker } = this;
    if (bound === null || introduction === null || speaker === null) return;
    if (this.unnumbered >= this.around.limits.unnumberedMax)
      return this.reset(fault("E.OVERLOADED", "too many descriptions wait for an answer"), out);
    this.post(introduction.describe(bound, speaker), note, out);
  }

  // ---- what the engine says

  answered(note: Note, body: AnswerBody | null, why: FaultData | null, out: Action[]): void {
    note.left -= 1;
    if (note.left === 0) this.leave(note);
    if (this.phase === "closed") return;
    if (note.what === "join") return body?.of === "join" ? this.joined(body, out) : this.sendAway(why, out);
    if (why !== null) {
      this.around.meter.refused(this.bound?.tenant ?? "", why.code);
      const isSessionGone = why.code.startsWith("E.SESSION.") && note.what !== "word";
      // A beat that could not be stored is not worth a session: the next one says as much, and this one stays unacked.
      if (note.what === "beat" && !isSessionGone && isRetryable(why)) return;
      // A word that was refused for good is settled; one that could not be stored must come again, in a new session.
      if (note.what !== "word" || isRetryable(why)) return this.sendAway(why, out);
    }
    if (note.left === 0) this.acks.settle(note);
  }

  private sendAway(why: FaultData | null, out: Action[]): void {
    const data = why ?? { code: "E.INTERNAL", message: "the engine gave no answer" };
    const { code, message } = plainFault(data);
    this.reset(fault(code, message), out, undefined, isRetryable(data) ? this.around.limits.retryAfterMs : undefined);
  }

  offer(send: SendDispatch | SendStop): void {
    if (this.phase === "closed") return;
    // Only those who announced it understand a cancel; the others' late results are stale and change nothing.
    if (send.type === "stop" && !this.has("cancel")) return;
    this.outgoing.offer(send);
  }

  hearReset(effect: SendReset, out: Action[]): void {
    if (this.phase === "closed") return;
    const { code, message } = plainFault({ code: effect.code, message: effect.reason });
    this.reset(fault(code, message), out);
  }

  hearDrain(effect: SendDrain, out: Action[]): void {
    if (this.phase !== "live") return;
    if (effect.on) return this.send(this.writer.drain(effect.reason), out);
    // No frame takes a drain back: a fresh session does, and the inventory keeps what the worker holds.
    this.reset(fault("E.SESSION.UNKNOWN", "the drain has ended; send a new handshake"), out);
  }

  /** At the end of a tick: one merged ack, then as much work as window and socket take. */
  flush(roomBytes: number, out: Action[]): void {
    if (this.phase === "closed") return;
    this.flushAcks(out);
    if (this.phase !== "live") return;
    const dispatchesMax = this.has("batch") ? limits.batchItemsMax : 1;
    let room = roomBytes;
    while (room > 0) {
      const frame = this.outgoing.take(dispatchesMax, batchBytesMax);
      if (frame === null) break;
      const text = this.textOf(frame.seq, frame.items);
      room -= text.length;
      out.push({ do: "send", text });
    }
    if (this.outgoing.waitingBytes > this.around.limits.waitingBytesMax)
      this.reset(fault("E.OVERLOADED", "more work waits for this worker than the door holds"), out);
  }

  private textOf(seq: number, items: readonly (SendDispatch | SendStop)[]): string {
    const first = items[0];
    if (first?.type === "stop") return this.writer.stop(seq, first);
    return this.writer.dispatch(seq, items as readonly SendDispatch[], this.has("fence"));
  }

  // ---- time and the end

  tick(out: Action[]): void {
    if (this.phase === "closed" || this.around.outside.clock.ticks() < this.deadline) return;
    if (this.phase === "describing") return this.join(out);
    this.reset(fault("E.TIMEOUT", this.phase === "new" ? "no handshake in time" : "no register in time"), out);
  }

  /** The socket is gone. */
  ended(reason: string, out: Action[]): void {
    if (this.speaker !== null) {
      const { tenant, worker, session } = this.speaker;
      out.push({ do: "post", command: { type: "worker.leave", tenant, worker, session, reason }, note: null });
    }
    this.phase = "closed";
  }

  /** Says why and ends the connection. The worker starts over with a handshake; nothing it holds is lost by that. */
  reset(why: Fault, out: Action[], corr?: string, retryAfterMs?: number): void {
    this.log("warn", "session.reset", { code: why.code, reason: why.message });
    out.push({ do: "send", text: this.writer.reset(faultCodes[why.code].frame, why.message, { corr, retryAfterMs }) });
    out.push({ do: "close", code: resetCloseCode, reason: why.message });
    this.move("closed");
  }

  // ---- small things

  private has(feature: string): boolean {
    return this.introduction?.features.has(feature) === true;
  }

  private read<T extends Known>(type: T, envelope: Envelope, out: Action[]) {
    const payload = readPayload<T>("v2", type, envelope.payload);
    if (!(payload instanceof Fault)) return payload;
    this.reset(payload, out, envelope.id);
    return null;
  }

  private post(command: Command, note: Note, out: Action[]): void {
    this.enter(note);
    out.push({ do: "post", command, note });
  }

  private enter(note: Note): void {
    this.unansweredBytes += note.bytes;
    if (isUnnumbered(note)) this.unnumbered += 1;
  }

  private leave(note: Note): void {
    this.unansweredBytes -= note.bytes;
    if (isUnnumbered(note)) this.unnumbered -= 1;
    if (note.what === "beat") this.beatsPending -= 1;
  }

  private flushAcks(out: Action[]): void {
    if (this.acks.isOwing) this.acks.flush(this.writer, (text) => this.send(text, out));
  }

  private send(text: string, out: Action[]): void {
    out.push({ do: "send", text });
  }

  private move(to: Phase): void {
    this.phase = movePhase(this.phase, to);
  }

  private audit(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.around.outside.log({ level: "warn", event, audit: true, ...this.names(), ...fields });
  }

  private log(level: "info" | "warn", event: string, fields: Readonly<Record<string, unknown>>): void {
    this.around.outside.log({ level, event, ...this.names(), ...fields });
  }

  private names(): Record<string, unknown> {
    return {
      ...(this.bound !== null && { tenant: this.bound.tenant, worker: this.bound.instance }),
      ...(this.session !== null && { session: this.session }),
    };
  }
}

type Known = "control.register" | "control.heartbeat" | "control.ack" | "biz.exec.inventory" | "biz.pkg.catalog";
