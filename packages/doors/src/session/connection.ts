// One socket's way from a stranger to a session: handshake, register, inventory, or a resume. Frames that come before a verdict wait for it.
// What is said in a session is inbound.ts; sockets and their pressure are peer.ts. The moves between phases are in phase.ts.

import {
  type AckPayload,
  type Envelope,
  Fault,
  fault,
  faultCodes,
  type ResumePayload,
  readEnvelope,
  readJson,
  readPayload,
  toFrameType,
  limits as wireLimits,
} from "@astraflow/protocol";
import { dialectRules } from "@astraflow/session";
import type { ShownCertificate } from "../gate.ts";
import { type Receiver, receiverOf } from "./frame-log.ts";
import { type Bound, greet, isBound } from "./greeting.ts";
import { Introduction } from "./introduction.ts";
import { ticketOf } from "./notes.ts";
import { movePhase, type Phase } from "./phase.ts";
import { findSession } from "./resumption.ts";
import { Session } from "./session.ts";
import { frameFields, type Line, type Surroundings, windowsOf } from "./surroundings.ts";
import { Writer } from "./texts.ts";
import { traceFor } from "./wire-tap.ts";
import { readAs } from "./words.ts";

/** What a connection asks of its socket. */
export interface Wire {
  readonly certificate: ShownCertificate | null;
  send(text: string): void;
  close(code: number, reason: string): void;
  terminate(): void;
  /** The peer has shown who it is. False: there are too many of its tenant already. */
  trust(tenant: string): boolean;
  /** Runs it when it is this peer's turn among all that come at once; false when the turn was not needed any more. */
  pace(tenant: string, run: () => boolean): void;
}

interface Waiting {
  readonly data: Buffer;
  readonly isBinary: boolean;
}

/** Close code of the sockets whose session was reset; the older workers expect exactly this one. */
const resetCloseCode = 1011;
/** Try again later. Not a reset: of that the older workers die at their first handshake, while a socket that is lost is dialled again. */
const crowdedCloseCode = 1013;
/** What a frame that waits weighs besides its bytes. */
const waitingOverheadBytes = 512;

export class Connection implements Line {
  phase: Phase = "new";
  session: Session | null = null;
  /** It waits for its turn. */
  isPaced = false;
  private readonly around: Surroundings;
  private readonly wire: Wire;
  private bound: Bound | null = null;
  private writer: Writer;
  private deadline: number;
  private waiting: Waiting[] = [];
  private waitingBytes = 0;

  constructor(around: Surroundings, wire: Wire) {
    this.around = around;
    this.wire = wire;
    this.writer = new Writer("v2", "unknown", around.stamp);
    this.deadline = this.in(around.limits.strangerMs);
  }

  /** Bytes that were read and not answered: above a limit the socket is not read. */
  get pressure(): number {
    return this.waitingBytes + (this.session?.notes.bytes ?? 0);
  }

  // ---- frames

  hear(data: Buffer, isBinary: boolean): void {
    if (this.phase === "closed") return;
    if (this.isPaced || this.phase === "resuming") {
      this.waiting.push({ data, isBinary });
      this.waitingBytes += data.length + waitingOverheadBytes;
      return;
    }
    const envelope = this.read(data, isBinary);
    if (envelope instanceof Fault) this.fail(envelope);
    else this.receive(envelope, data.length);
  }

  private read(data: Buffer, isBinary: boolean): Envelope | Fault {
    if (isBinary) return fault("E.FRAME.INVALID", "frames are text, not binary");
    const { json } = wireLimits;
    // The socket library has checked that text is UTF-8.
    const value = readJson(data.toString("utf8"), this.bound === null ? json.unauthenticated : json.frame);
    return value instanceof Fault ? value : readEnvelope(value, this.bound?.dialect ?? "any");
  }

  private receive(envelope: Envelope, bytes: number): void {
    // From then on its session writes down what it hears.
    if (this.session === null) this.around.frameLog?.heard(envelope, null);
    if (this.bound === null)
      return envelope.type === "control.resume" ? this.resume(envelope, bytes) : this.greet(envelope, bytes);
    if (!isBound(this.bound, envelope)) {
      this.audit("session.mismatch", { code: "E.SESSION.TENANT_MISMATCH", ...frameFields(envelope) });
      return this.fail(fault("E.SESSION.TENANT_MISMATCH", "tenant and sender must stay those of the handshake"), envelope);
    }
    if (this.session !== null) this.session.inbound.receive(envelope, bytes);
    else {
      this.show(this.bound, envelope, bytes);
      this.hearGreeted(this.bound, envelope, bytes);
    }
  }

  /** To whoever looks on, once it is known from whom it is. */
  private show(bound: Bound, envelope: Envelope, bytes: number): void {
    this.around.wireTap?.heard(envelope, bytes, receiverOf(bound, bound.label.name));
  }

  /** Heard now what came too early, in order. */
  private release(): void {
    const waiting = this.waiting;
    this.waiting = [];
    this.waitingBytes = 0;
    for (const { data, isBinary } of waiting) this.hear(data, isBinary);
  }

  // ---- from stranger to session

  private greet(first: Envelope, bytes: number): void {
    const bound = greet(first, this.wire.certificate, this.around);
    if (bound instanceof Fault) return this.turnAway(first, bound);
    this.bound = bound;
    this.speakTo(receiverOf(bound, bound.label.name));
    this.show(bound, first, bytes);
    this.move("greeted");
    this.deadline = Number.POSITIVE_INFINITY;
    if (!this.wire.trust(bound.tenant)) return this.sendBack(bound.tenant);
    this.around.book.startOver(bound.worker);
    this.isPaced = true;
    this.wire.pace(bound.tenant, () => this.admit(bound));
  }

  /** Its turn has come: only now it hears that it was understood, and goes on. */
  private admit(bound: Bound): boolean {
    if (this.phase === "closed") return false;
    this.isPaced = false;
    this.deadline = this.in(this.around.limits.registerMs);
    this.ackGreeting(bound);
    this.release();
    return true;
  }

  private ackGreeting(bound: Bound): void {
    const rules = dialectRules[bound.dialect];
    const { recv } = windowsOf(this.around, bound.tenant, false);
    const window = { ack_seq: rules.firstNumber - 1, ack_bitmap: 0, recv_window: Math.min(recv, rules.framesMax) };
    const ack: AckPayload = { ok: true, for: bound.greeting, ...(rules.isNumbered && window) };
    this.wire.send(this.writer.ack(ack));
  }

  private hearGreeted(bound: Bound, envelope: Envelope, bytes: number): void {
    const type = toFrameType(bound.dialect, envelope.type) ?? envelope.type;
    if (type === "control.register") return this.hearRegister(bound, envelope, bytes);
    // Repeated by those who heard no ack in time.
    if (type === "control.handshake" && envelope.id === bound.greeting) return this.ackGreeting(bound);
    // The older ones repeat that of an earlier socket too, when they dialled anew at once, and would die of a reset.
    if (type === "control.handshake" && bound.dialect !== "v2")
      return this.wire.send(this.writer.ack({ ok: true, for: envelope.id }));
    if (type === "control.handshake" || type === "control.resume")
      return this.fail(fault("E.FRAME.INVALID", `${envelope.type} is only possible as the first frame`), envelope);
    if (!type.startsWith("control."))
      return this.fail(fault("E.SESSION.NOT_REGISTERED", "register before sending work frames"), envelope);
    // Some workers start beating when the socket opens; before there is a session there is nothing to renew.
    if (envelope.ack?.request !== true || type === "control.ack") return;
    const isKnown = type === "control.heartbeat";
    const info = `E.CMD.UNKNOWN: nobody here takes frames of type ${envelope.type.slice(0, 100)}`;
    this.wire.send(this.writer.ack({ ok: isKnown, for: envelope.id, ...(!isKnown && { info }) }));
  }

  private hearRegister(bound: Bound, envelope: Envelope, bytes: number): void {
    const register = readAs(bound, "control.register", envelope);
    if (register instanceof Fault) return this.fail(register, envelope);
    const introduction = new Introduction(register, null);
    const session = new Session(this.around, bound, introduction, this.writer, this);
    this.session = session;
    session.inbound.registered(envelope);
    session.showManifests(register.manifests ?? []);
    session.showPackages(register.packages ?? []);
    const ticket = ticketOf(envelope, bytes);
    if (introduction.isComplete(bound)) {
      session.entrance.answerFor(ticket);
      return this.described();
    }
    // Acknowledged as received, or the rest would not come; that it counts is said by accept, after the join is stored.
    session.stream.settle(ticket);
    this.move("describing");
    this.deadline = this.in(this.around.limits.inventoryMs);
  }

  /** Refused at once where it must be; else it waits for its turn as a handshake does: a crowd that was cut off comes back all at once. */
  private resume(first: Envelope, bytes: number): void {
    const resume = readPayload("v2", "control.resume", first.payload);
    if (resume instanceof Fault) return this.turnAway(first, resume);
    const session = findSession(first, resume, this.wire.certificate, this.around);
    if (session instanceof Fault) return this.turnAway(first, session);
    this.around.wireTap?.heard(first, bytes, session.receiver);
    this.deadline = Number.POSITIVE_INFINITY;
    if (!this.wire.trust(session.bound.tenant)) return this.sendBack(session.bound.tenant);
    this.isPaced = true;
    this.wire.pace(session.bound.tenant, () => this.takeUp(first, resume));
  }

  /** Looked for again: while it waited the session may have ended, or gone on over another socket under a newer token. */
  private takeUp(first: Envelope, resume: ResumePayload): boolean {
    if (this.phase === "closed") return false;
    this.isPaced = false;
    const session = findSession(first, resume, this.wire.certificate, this.around);
    if (session instanceof Fault) this.turnAway(first, session);
    else this.rebind(session, { id: first.id, lastSeen: resume.last_seen_seq ?? null });
    return true;
  }

  private rebind(session: Session, resume: Parameters<Session["rebind"]>[1]): void {
    this.bound = session.bound;
    this.session = session;
    this.writer = session.writer;
    this.move("resuming");
    session.rebind(this, resume);
  }

  /** No fault of its own: there are too many of its tenant. The others are not to suffer from that. */
  private sendBack(tenant: string): void {
    this.around.meter.reset(tenant, "E.OVERLOADED");
    this.close("too many connections of this tenant; come back later", crowdedCloseCode);
  }

  /** Refused at its first frame. */
  private turnAway(first: Envelope, why: Fault): void {
    const { tenant, sender } = first;
    const dialect = first.type === "handshake" ? "v1" : "v2";
    this.speakTo(receiverOf({ dialect, tenant, instance: sender.id }, null));
    this.audit("session.refused", { code: why.code, tenant, sender: { id: sender.id }, ...frameFields(first) });
    this.fail(why, first);
  }

  private speakTo(to: Receiver): void {
    this.writer = new Writer(to.dialect, to.tenant, this.around.stamp);
    this.writer.trace = traceFor(this.around, to);
  }

  // ---- what the session asks of its line

  send(text: string): void {
    this.wire.send(text);
  }

  described(): void {
    const why = this.bound === null ? null : (this.session?.introduction.objection(this.bound) ?? null);
    if (why !== null) return this.fail(why);
    this.move("joining");
    this.deadline = Number.POSITIVE_INFINITY;
    this.session?.join();
  }

  opened(): void {
    this.move("live");
    this.release();
  }

  refuse(text: string, reason: string): void {
    this.wire.send(text);
    this.close(reason);
  }

  supersede(): void {
    this.close("superseded session");
  }

  terminate(): void {
    this.wire.terminate();
  }

  // ---- time and the end

  tick(now: number): void {
    if (this.phase === "closed" || now < this.deadline) return;
    if (this.phase === "describing") return this.described();
    this.fail(fault("E.TIMEOUT", this.phase === "new" ? "no handshake in time" : "no register in time"));
  }

  /** No frame at all has come for so long. */
  isIdle(silentMs: number): boolean {
    return this.phase === "live" && silentMs > (this.session?.idleMs ?? Number.POSITIVE_INFINITY);
  }

  /** Says why and ends, with the session if there is one. */
  fail(why: Fault, about?: Envelope): void {
    if (this.phase === "closed") return;
    if (this.session !== null) return this.session.reset(why, about);
    const names = this.bound === null ? {} : { tenant: this.bound.tenant, sender: { id: this.bound.instance } };
    this.around.meter.reset(this.bound?.tenant ?? "unknown", why.code);
    this.around.outside.log({ level: "warn", event: "session.reset", ...names, code: why.code, reason: why.message });
    this.refuse(this.writer.refusal(faultCodes[why.code].frame, why.message, { corr: about?.id }), why.message);
  }

  /** The credentials of the house changed. */
  reconsider(): void {
    if (this.bound === null || this.phase === "closed") return;
    if (this.session !== null) this.session.reconsider();
    else if (!this.around.gate.isGood(this.bound.admitted))
      this.fail(fault("E.AUTH.INVALID_TOKEN", "the credential of this worker is no longer good"));
  }

  /** The socket is gone. */
  ended(reason: string): void {
    this.phase = "closed";
    this.waiting = [];
    this.waitingBytes = 0;
    this.session?.lost(this, reason);
  }

  private close(reason: string, code = resetCloseCode): void {
    this.move("closed");
    this.waiting = [];
    this.waitingBytes = 0;
    this.wire.close(code, reason);
  }

  private in(ms: number): number {
    return this.around.outside.clock.ticks() + ms;
  }

  private move(to: Phase): void {
    this.phase = movePhase(this.phase, to);
  }

  private audit(event: string, fields: Readonly<Record<string, unknown>>): void {
    const names = this.bound === null ? {} : { tenant: this.bound.tenant, sender: { id: this.bound.instance } };
    this.around.outside.log({ level: "warn", event, audit: true, ...names, ...fields });
  }
}
