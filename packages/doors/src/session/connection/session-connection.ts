// One socket's way from a stranger to a session: handshake, register, inventory, or a resume. Frames that come before a verdict wait for it.
// What is said in a session is inbound-frames.ts; sockets and their pressure are monitored-socket.ts. The moves between phases are in phase.ts.

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
import type { PeerCertificate } from "../../auth/worker-authenticator.ts";
import { type FramePeer, peerWithoutSession } from "../frames/frame-log.ts";
import { createFrameTracer } from "../frames/frame-tap.ts";
import { SchedulerFrameWriter } from "../frames/frame-writer.ts";
import { controlFrameTag } from "../frames/unanswered-frames.ts";
import { readFramePayload } from "../frames/work-frames.ts";
import { Session } from "../lifecycle/session.ts";
import { frameLogFields, type SessionContext, type SessionTransport, windowSizesFor } from "../lifecycle/session-context.ts";
import { type ConnectionPhase, transitionConnection } from "../lifecycle/session-phases.ts";
import { Registration } from "../registration/registration.ts";
import { authenticateHandshake, type HandshakeIdentity, isSentBy } from "../registration/worker-handshake.ts";
import { findResumableSession } from "./resume-lookup.ts";

/** What a connection asks of its socket. */
export interface ConnectionTransport {
  readonly certificate: PeerCertificate | null;
  send(text: string): void;
  close(code: number, reason: string): void;
  terminate(): void;
  /** The peer has shown who it is. False: there are too many of its tenant already. */
  markAuthenticated(tenant: string): boolean;
  /** Runs it when it is this peer's turn among all that come at once; false when the turn was not needed any more. */
  scheduleJoin(tenant: string, run: () => boolean): void;
}

interface BufferedFrame {
  readonly data: Buffer;
  readonly isBinary: boolean;
}

/** Close code of the sockets whose session was reset; the older workers expect exactly this one. */
const resetCloseCode = 1011;
/** Try again later. Not a reset: of that the older workers die at their first handshake, while a socket that is lost is dialled again. */
const overCapacityCloseCode = 1013;
/** What a frame that waits weighs besides its bytes. */
const bufferedOverheadBytes = 512;

export class SessionConnection implements SessionTransport {
  phase: ConnectionPhase = "new";
  session: Session | null = null;
  /** It waits for its turn. */
  isWaitingToJoin = false;
  private readonly context: SessionContext;
  private readonly transport: ConnectionTransport;
  private identity: HandshakeIdentity | null = null;
  private writer: SchedulerFrameWriter;
  private deadline: number;
  private buffered: BufferedFrame[] = [];
  private bufferedBytes = 0;

  constructor(context: SessionContext, transport: ConnectionTransport) {
    this.context = context;
    this.transport = transport;
    this.writer = new SchedulerFrameWriter("v2", "unknown", context.timestamp);
    this.deadline = this.deadlineIn(context.limits.handshakeTimeoutMs);
  }

  /** Bytes that were read and not answered: above a limit the socket is not read. */
  get unansweredBytes(): number {
    return this.bufferedBytes + (this.session?.unanswered.bytes ?? 0);
  }

  // ---- frames

  handleMessage(data: Buffer, isBinary: boolean): void {
    if (this.phase === "closed") return;
    if (this.isWaitingToJoin || this.phase === "resuming") {
      this.buffered.push({ data, isBinary });
      this.bufferedBytes += data.length + bufferedOverheadBytes;
      return;
    }
    const envelope = this.parseFrame(data, isBinary);
    if (envelope instanceof Fault) this.fail(envelope);
    else this.handleFrame(envelope, data.length);
  }

  private parseFrame(data: Buffer, isBinary: boolean): Envelope | Fault {
    if (isBinary) return fault("E.FRAME.INVALID", "frames are text, not binary");
    const { json } = wireLimits;
    // The socket library has checked that text is UTF-8.
    const value = readJson(data.toString("utf8"), this.identity === null ? json.unauthenticated : json.frame);
    return value instanceof Fault ? value : readEnvelope(value, this.identity?.dialect ?? "any");
  }

  private handleFrame(envelope: Envelope, bytes: number): void {
    // From then on its session writes down what it hears.
    if (this.session === null) this.context.frameLog?.logReceived(envelope, null);
    if (this.identity === null)
      return envelope.type === "control.resume" ? this.handleResume(envelope, bytes) : this.handleHandshake(envelope, bytes);
    if (!isSentBy(this.identity, envelope)) {
      this.audit("session.mismatch", { code: "E.SESSION.TENANT_MISMATCH", ...frameLogFields(envelope) });
      return this.fail(fault("E.SESSION.TENANT_MISMATCH", "tenant and sender must stay those of the handshake"), envelope);
    }
    if (this.session !== null) this.session.inbound.handleFrame(envelope, bytes);
    else {
      this.traceFrame(this.identity, envelope, bytes);
      this.handleBeforeSession(this.identity, envelope, bytes);
    }
  }

  /** To whoever looks on, once it is known from whom it is. */
  private traceFrame(identity: HandshakeIdentity, envelope: Envelope, bytes: number): void {
    this.context.frameTap?.publishReceived(envelope, bytes, peerWithoutSession(identity, identity.displayInfo.name));
  }

  /** Heard now what came too early, in order. */
  private replayBuffered(): void {
    const buffered = this.buffered;
    this.buffered = [];
    this.bufferedBytes = 0;
    for (const { data, isBinary } of buffered) this.handleMessage(data, isBinary);
  }

  // ---- from stranger to session

  private handleHandshake(first: Envelope, bytes: number): void {
    const identity = authenticateHandshake(first, this.transport.certificate, this.context);
    if (identity instanceof Fault) return this.rejectFirstFrame(first, identity);
    this.identity = identity;
    this.openWriter(peerWithoutSession(identity, identity.displayInfo.name));
    this.traceFrame(identity, first, bytes);
    this.setPhase("greeted");
    this.deadline = Number.POSITIVE_INFINITY;
    if (!this.transport.markAuthenticated(identity.tenant)) return this.rejectOverCapacity(identity.tenant);
    this.context.registry.endDetachedOf(identity.worker);
    this.isWaitingToJoin = true;
    this.transport.scheduleJoin(identity.tenant, () => this.acceptHandshake(identity));
  }

  /** Its turn has come: only now it hears that it was understood, and goes on. */
  private acceptHandshake(identity: HandshakeIdentity): boolean {
    if (this.phase === "closed") return false;
    this.isWaitingToJoin = false;
    this.deadline = this.deadlineIn(this.context.limits.registerTimeoutMs);
    this.ackHandshake(identity);
    this.replayBuffered();
    return true;
  }

  private ackHandshake(identity: HandshakeIdentity): void {
    const rules = dialectRules[identity.dialect];
    const { recv } = windowSizesFor(this.context, identity.tenant, false);
    const window = { ack_seq: rules.firstNumber - 1, ack_bitmap: 0, recv_window: Math.min(recv, rules.framesMax) };
    const ack: AckPayload = { ok: true, for: identity.handshakeFrameId, ...(rules.isNumbered && window) };
    this.transport.send(this.writer.encodeAck(ack));
  }

  private handleBeforeSession(identity: HandshakeIdentity, envelope: Envelope, bytes: number): void {
    const type = toFrameType(identity.dialect, envelope.type) ?? envelope.type;
    if (type === "control.register") return this.handleRegister(identity, envelope, bytes);
    // Repeated by those who heard no ack in time.
    if (type === "control.handshake" && envelope.id === identity.handshakeFrameId) return this.ackHandshake(identity);
    // The older ones repeat that of an earlier socket too, when they dialled anew at once, and would die of a reset.
    if (type === "control.handshake" && identity.dialect !== "v2")
      return this.transport.send(this.writer.encodeAck({ ok: true, for: envelope.id }));
    if (type === "control.handshake" || type === "control.resume")
      return this.fail(fault("E.FRAME.INVALID", `${envelope.type} is only possible as the first frame`), envelope);
    if (!type.startsWith("control."))
      return this.fail(fault("E.SESSION.NOT_REGISTERED", "register before sending work frames"), envelope);
    // Some workers start beating when the socket opens; before there is a session there is nothing to renew.
    if (envelope.ack?.request !== true || type === "control.ack") return;
    const isKnown = type === "control.heartbeat";
    const info = `E.CMD.UNKNOWN: nobody here takes frames of type ${envelope.type.slice(0, 100)}`;
    this.transport.send(this.writer.encodeAck({ ok: isKnown, for: envelope.id, ...(!isKnown && { info }) }));
  }

  private handleRegister(identity: HandshakeIdentity, envelope: Envelope, bytes: number): void {
    const register = readFramePayload(identity, "control.register", envelope);
    if (register instanceof Fault) return this.fail(register, envelope);
    const registration = new Registration(register, null);
    const session = new Session(this.context, identity, registration, this.writer, this);
    this.session = session;
    session.inbound.rememberRegister(envelope);
    session.recordManifests(register.manifests ?? []);
    session.prefetchRequirements(register.packages ?? []);
    const tag = controlFrameTag(envelope, bytes);
    if (registration.isComplete(identity)) {
      session.handshake.settleAfterJoin(tag);
      return this.startJoin();
    }
    // Acknowledged as received, or the rest would not come; that it counts is said by accept, after the join is stored.
    session.stream.settle(tag);
    this.setPhase("describing");
    this.deadline = this.deadlineIn(this.context.limits.inventoryTimeoutMs);
  }

  /** Refused at once where it must be; else it waits for its turn as a handshake does: a crowd that was cut off comes back all at once. */
  private handleResume(first: Envelope, bytes: number): void {
    const resume = readPayload("v2", "control.resume", first.payload);
    if (resume instanceof Fault) return this.rejectFirstFrame(first, resume);
    const session = findResumableSession(first, resume, this.transport.certificate, this.context);
    if (session instanceof Fault) return this.rejectFirstFrame(first, session);
    this.context.frameTap?.publishReceived(first, bytes, session.framePeer);
    this.deadline = Number.POSITIVE_INFINITY;
    if (!this.transport.markAuthenticated(session.identity.tenant)) return this.rejectOverCapacity(session.identity.tenant);
    this.isWaitingToJoin = true;
    this.transport.scheduleJoin(session.identity.tenant, () => this.resumeSession(first, resume));
  }

  /** Looked for again: while it waited the session may have ended, or gone on over another socket under a newer token. */
  private resumeSession(first: Envelope, resume: ResumePayload): boolean {
    if (this.phase === "closed") return false;
    this.isWaitingToJoin = false;
    const session = findResumableSession(first, resume, this.transport.certificate, this.context);
    if (session instanceof Fault) this.rejectFirstFrame(first, session);
    else this.attachSession(session, { id: first.id, lastSeen: resume.last_seen_seq ?? null });
    return true;
  }

  private attachSession(session: Session, resume: Parameters<Session["attachConnection"]>[1]): void {
    this.identity = session.identity;
    this.session = session;
    this.writer = session.writer;
    this.setPhase("resuming");
    session.attachConnection(this, resume);
  }

  /** No fault of its own: there are too many of its tenant. The others are not to suffer from that. */
  private rejectOverCapacity(tenant: string): void {
    this.context.metrics.reset(tenant, "E.OVERLOADED");
    this.close("too many connections of this tenant; come back later", overCapacityCloseCode);
  }

  /** Refused at its first frame. */
  private rejectFirstFrame(first: Envelope, why: Fault): void {
    const { tenant, sender } = first;
    const dialect = first.type === "handshake" ? "v1" : "v2";
    this.openWriter(peerWithoutSession({ dialect, tenant, instance: sender.id }, null));
    this.audit("session.refused", { code: why.code, tenant, sender: { id: sender.id }, ...frameLogFields(first) });
    this.fail(why, first);
  }

  private openWriter(to: FramePeer): void {
    this.writer = new SchedulerFrameWriter(to.dialect, to.tenant, this.context.timestamp);
    this.writer.tracer = createFrameTracer(this.context, to);
  }

  // ---- what the session asks of its line

  send(text: string): void {
    this.transport.send(text);
  }

  startJoin(): void {
    const why = this.identity === null ? null : (this.session?.registration.sizeFault(this.identity) ?? null);
    if (why !== null) return this.fail(why);
    this.setPhase("joining");
    this.deadline = Number.POSITIVE_INFINITY;
    this.session?.startJoin();
  }

  markLive(): void {
    this.setPhase("live");
    this.replayBuffered();
  }

  sendAndClose(text: string, reason: string): void {
    this.transport.send(text);
    this.close(reason);
  }

  supersede(): void {
    this.close("superseded session");
  }

  terminate(): void {
    this.transport.terminate();
  }

  // ---- time and the end

  checkDeadline(now: number): void {
    if (this.phase === "closed" || now < this.deadline) return;
    if (this.phase === "describing") return this.startJoin();
    this.fail(fault("E.TIMEOUT", this.phase === "new" ? "no handshake in time" : "no register in time"));
  }

  /** No frame at all has come for so long. */
  isIdle(silentMs: number): boolean {
    return this.phase === "live" && silentMs > (this.session?.idleTimeoutMs ?? Number.POSITIVE_INFINITY);
  }

  /** Says why and ends, with the session if there is one. */
  fail(why: Fault, about?: Envelope): void {
    if (this.phase === "closed") return;
    if (this.session !== null) return this.session.reset(why, about);
    const names = this.identity === null ? {} : { tenant: this.identity.tenant, sender: { id: this.identity.instance } };
    this.context.metrics.reset(this.identity?.tenant ?? "unknown", why.code);
    this.context.environment.log({ level: "warn", event: "session.reset", ...names, code: why.code, reason: why.message });
    this.sendAndClose(this.writer.encodeRefusal(faultCodes[why.code].frame, why.message, { corr: about?.id }), why.message);
  }

  /** The credentials of the house changed. */
  recheckCredentials(): void {
    if (this.identity === null || this.phase === "closed") return;
    if (this.session !== null) this.session.recheckCredentials();
    else if (!this.context.authenticator.isStillValid(this.identity.authenticated))
      this.fail(fault("E.AUTH.INVALID_TOKEN", "the credential of this worker is no longer good"));
  }

  /** The socket is gone. */
  handleDisconnect(reason: string): void {
    this.phase = "closed";
    this.buffered = [];
    this.bufferedBytes = 0;
    this.session?.handleDisconnect(this, reason);
  }

  private close(reason: string, code = resetCloseCode): void {
    this.setPhase("closed");
    this.buffered = [];
    this.bufferedBytes = 0;
    this.transport.close(code, reason);
  }

  private deadlineIn(ms: number): number {
    return this.context.environment.clock.monotonic() + ms;
  }

  private setPhase(to: ConnectionPhase): void {
    this.phase = transitionConnection(this.phase, to);
  }

  private audit(event: string, fields: Readonly<Record<string, unknown>>): void {
    const names = this.identity === null ? {} : { tenant: this.identity.tenant, sender: { id: this.identity.instance } };
    this.context.environment.log({ level: "warn", event, audit: true, ...names, ...fields });
  }
}
