// A connection until it has a session: its first frame is a handshake, followed by a register, or a resume of an earlier session.

import {
  detectDialect,
  type Envelope,
  Fault,
  fault,
  faultCodes,
  isRecord,
  type ResumePayload,
  readPayload,
  toFrameType,
} from "@astraflow/protocol";
import { dialectRules } from "@astraflow/session";
import type { PeerCertificate } from "../../auth/certificates.ts";
import { invalidCredentialFault } from "../../auth/worker-authenticator.ts";
import { invalidSessionTokenFault, type SessionTokenClaims } from "../../auth/worker-session-tokens.ts";
import type { ConnectionOwner, SessionConnection } from "../connection/session-connection.ts";
import { type FramePeer, frameLogFields } from "../frames/frame-trace.ts";
import { SchedulerFrameWriter } from "../frames/frame-writer.ts";
import { controlFrameTag, readFramePayload } from "../frames/work-frames.ts";
import { Session } from "../lifecycle/session.ts";
import { type SessionContext, windowSizesFor } from "../lifecycle/session-context.ts";
import { startJoin, startRejoin } from "../lifecycle/session-join.ts";
import { Registration } from "../registration/registration.ts";
import { authenticateHandshake, type HandshakeIdentity } from "../registration/worker-handshake.ts";
import type { AdmissionControl } from "./admission-control.ts";
import type { HandshakeOrigin } from "./handshake-throttle.ts";

export interface JoinContext extends SessionContext {
  readonly admission: AdmissionControl<SessionConnection>;
}

/** "Try again later". Not a reset: older workers exit on a reset during their first handshake, but reconnect when the socket closes. */
const overCapacityCloseCode = 1013;

export class JoinHandshake implements ConnectionOwner {
  readonly id = null;
  readonly unansweredBytes = 0;
  readonly idleTimeoutMs = Number.POSITIVE_INFINITY;
  readonly #connection: SessionConnection;
  readonly #context: JoinContext;
  /** Null until the handshake is accepted. */
  #identity: HandshakeIdentity | null = null;
  #writer: SchedulerFrameWriter;
  #hasSentFrame = false;
  /** For the next frame that the worker has to send. */
  #deadline: number;

  constructor(connection: SessionConnection, context: JoinContext) {
    this.#connection = connection;
    this.#context = context;
    this.#writer = this.#createWriter(framePeer({ dialect: "v2", tenant: "unknown", instance: "" }, null));
    this.#deadline = this.#deadlineIn(context.limits.handshakeTimeoutMs);
  }

  handleFrame(envelope: Envelope, bytes: number): void {
    this.#context.frameTrace?.logReceived(envelope, null);
    const identity = this.#identity;
    this.#hasSentFrame = true;
    if (identity !== null) {
      this.#traceReceived(identity, envelope, bytes);
      this.#handleBeforeSession(identity, envelope, bytes);
    } else if (envelope.type === "control.resume") this.#handleResume(envelope, bytes);
    else this.#delayHandshake(envelope, bytes);
  }

  // ---- handshake and register

  /** Where its address has failed too often lately, the handshake is looked at only after a while. */
  #delayHandshake(first: Envelope, bytes: number): void {
    const { admission, environment, metrics } = this.#context;
    const connection = this.#connection;
    const origin = { address: connection.socket.address, tenant: first.tenant, instance: first.sender.id };
    const waitMs = admission.throttle.waitMs(origin);
    if (waitMs === 0) return this.#handleHandshake(first, bytes, origin);
    metrics.handshakeDelayed();
    this.#deadline = Number.POSITIVE_INFINITY;
    connection.hold("turn");
    environment.timers.after(waitMs, () =>
      connection.runTurn(() => {
        if (!connection.isClosed) this.#handleHandshake(first, bytes, origin);
        return true;
      }),
    );
  }

  #handleHandshake(first: Envelope, bytes: number, origin: HandshakeOrigin): void {
    const { throttle } = this.#context.admission;
    const identity = authenticateHandshake(first, this.#connection.socket.certificate, this.#context);
    if (identity instanceof Fault) {
      if (detectDialect(first) === undefined) throttle.countSilence(origin.address);
      else throttle.countRefusal(origin, shownToken(first));
      return this.#rejectFirstFrame(first, identity);
    }
    throttle.recordSuccess(origin);
    this.#identity = identity;
    this.#connection.bindTo(identity);
    this.#writer = this.#createWriter(framePeer(identity, identity.displayInfo.name));
    this.#traceReceived(identity, first, bytes);
    this.#waitForTurn(identity.tenant, () => this.#acceptHandshake(identity));
  }

  /** Workers that were cut off together come back together: they join one after the other. */
  #waitForTurn(tenant: string, join: () => void): void {
    const connection = this.#connection;
    const { admission, registry, metrics } = this.#context;
    this.#deadline = Number.POSITIVE_INFINITY;
    if (!admission.markAuthenticated(connection, tenant)) {
      metrics.reset(tenant, "E.OVERLOADED");
      return connection.close("this tenant has too many connections; try again later", overCapacityCloseCode);
    }
    connection.markAuthenticated(tenant);
    if (this.#identity !== null) registry.endDetachedOf(this.#identity.worker);
    connection.hold("turn");
    admission.scheduleJoin(tenant, () =>
      connection.runTurn(() => {
        if (connection.isClosed) return false;
        join();
        return true;
      }),
    );
  }

  #acceptHandshake(identity: HandshakeIdentity): void {
    this.#deadline = this.#deadlineIn(this.#context.limits.registerTimeoutMs);
    this.#ackHandshake(identity);
    this.#connection.replayBuffered();
  }

  #ackHandshake({ dialect, tenant, handshakeFrameId }: HandshakeIdentity): void {
    const rules = dialectRules[dialect];
    const { recv } = windowSizesFor(this.#context, tenant, false);
    const window = { ack_seq: rules.firstNumber - 1, ack_bitmap: 0, recv_window: Math.min(recv, rules.framesMax) };
    this.#connection.send(this.#writer.encodeAck({ ok: true, for: handshakeFrameId, ...(rules.isWindowAcked && window) }));
  }

  #handleBeforeSession(identity: HandshakeIdentity, envelope: Envelope, bytes: number): void {
    const type = toFrameType(identity.dialect, envelope.type) ?? envelope.type;
    if (type === "control.register") return this.#handleRegister(identity, envelope, bytes);
    // Workers repeat their handshake when its ack is late.
    if (type === "control.handshake" && envelope.id === identity.handshakeFrameId) return this.#ackHandshake(identity);
    // Older workers that reconnected at once repeat that of an earlier socket too, and would exit on a reset.
    if (type === "control.handshake" && identity.dialect !== "v2")
      return this.#connection.send(this.#writer.encodeAck({ ok: true, for: envelope.id }));
    if (type === "control.handshake" || type === "control.resume")
      return this.reset(fault("E.FRAME.INVALID", `${envelope.type} is only allowed as the first frame`), envelope);
    if (!type.startsWith("control."))
      return this.reset(fault("E.SESSION.NOT_REGISTERED", "register before sending work frames"), envelope);
    // Some workers send heartbeats as soon as the socket opens; before there is a session there is no lease to renew.
    if (envelope.ack?.request !== true || type === "control.ack") return;
    const isKnown = type === "control.heartbeat";
    const info = `E.CMD.UNKNOWN: unknown frame type ${envelope.type.slice(0, 100)}`;
    this.#connection.send(this.#writer.encodeAck({ ok: isKnown, for: envelope.id, ...(!isKnown && { info }) }));
  }

  #handleRegister(identity: HandshakeIdentity, envelope: Envelope, bytes: number): void {
    const register = readFramePayload(identity, "control.register", envelope);
    if (register instanceof Fault) return this.reset(register, envelope);
    const registration = new Registration(register, identity.dialect, null);
    const session = new Session(this.#context, identity, registration, this.#writer, this.#connection);
    this.#connection.attach(session);
    session.join.registerFrameId = envelope.id;
    session.recordManifests(register.manifests ?? []);
    session.prefetchRequirements(register.packages ?? []);
    session.join.tagsToSettle.push(controlFrameTag(envelope, bytes));
    startJoin(session);
  }

  // ---- resume

  #handleResume(first: Envelope, bytes: number): void {
    const resume = readPayload("v2", "control.resume", first.payload);
    if (resume instanceof Fault) return this.#rejectFirstFrame(first, resume);
    const session = findResumableSession(first, resume, this.#connection.socket.certificate, this.#context);
    if (session instanceof Fault) return this.#rejectFirstFrame(first, session);
    // Checked once: from here on the proof is used up.
    const unproven = session.identity.sessionKey?.checkProof(resume, session.join.tokenAgeMs(session.now())) ?? null;
    if (unproven !== null) return this.#rejectFirstFrame(first, unproven);
    const { tenant, instance } = session.identity;
    this.#context.admission.throttle.recordSuccess({ address: this.#connection.socket.address, tenant, instance });
    this.#context.frameTrace?.publishReceived(first, bytes, session.framePeer);
    this.#waitForTurn(session.identity.tenant, () => this.#resumeSession(first, resume));
  }

  /** Looked up again: meanwhile the session may have ended, or gone on over another socket under a newer token. */
  #resumeSession(first: Envelope, resume: ResumePayload): void {
    const connection = this.#connection;
    const session = findResumableSession(first, resume, connection.socket.certificate, this.#context);
    if (session instanceof Fault) return this.#rejectFirstFrame(first, session);
    connection.bindTo(session.identity);
    connection.attach(session);
    connection.hold("session");
    session.attachConnection(connection);
    startRejoin(session, { id: first.id, lastSeen: resume.last_seen_seq ?? null });
  }

  // ---- rejections and the end

  #rejectFirstFrame(first: Envelope, why: Fault): void {
    const { tenant, sender } = first;
    const dialect = first.type === "handshake" ? "v1" : "v2";
    this.#writer = this.#createWriter(framePeer({ dialect, tenant, instance: sender.id }, null));
    const about = { code: why.code, tenant, sender: { id: sender.id }, ...frameLogFields(first) };
    this.#context.environment.log({ level: "warn", event: "session.refused", audit: true, ...about });
    this.reset(why, first);
  }

  reset(why: Fault, about?: Envelope): void {
    if (this.#connection.isClosed) return;
    const identity = this.#identity;
    const names = identity === null ? {} : { tenant: identity.tenant, sender: { id: identity.instance } };
    this.#context.metrics.reset(identity?.tenant ?? "unknown", why.code);
    this.#context.environment.log({ level: "warn", event: "session.reset", ...names, code: why.code, reason: why.message });
    const text = this.#writer.encodeRefusal(faultCodes[why.code].frame, why.message, { corr: about?.id });
    this.#connection.sendReset(text, why.message);
  }

  abort(problem: unknown): void {
    const text = problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
    this.#context.environment.log({ level: "error", event: "session.bug", session: null, problem: text });
    this.#connection.terminate();
  }

  checkTimers(now: number): void {
    if (now < this.#deadline) return;
    const missing = this.#identity === null ? "handshake" : "register frame";
    this.reset(fault("E.TIMEOUT", `no ${missing} was received in time`));
  }

  recheckCredentials(): void {
    if (this.#identity !== null && !this.#context.authenticator.isStillValid(this.#identity.authenticated))
      this.reset(invalidCredentialFault());
  }

  /** There is no session that could have anything to send. */
  scheduleFlush(): void {}

  handleDisconnect(): void {
    if (!this.#hasSentFrame) this.#context.admission.throttle.countSilence(this.#connection.socket.address);
  }

  // ---- details

  #createWriter(peer: FramePeer): SchedulerFrameWriter {
    return new SchedulerFrameWriter(peer, this.#context.timestamp, this.#context.frameTrace);
  }

  #traceReceived(identity: HandshakeIdentity, envelope: Envelope, bytes: number): void {
    this.#context.frameTrace?.publishReceived(envelope, bytes, framePeer(identity, identity.displayInfo.name));
  }

  #deadlineIn(ms: number): number {
    return this.#context.environment.clock.monotonic() + ms;
  }
}

/** The token in a handshake that may be invalid in any other way. */
function shownToken({ payload }: Envelope): string | null {
  const auth: unknown = payload["auth"];
  const token = isRecord(auth) ? auth["token"] : null;
  return typeof token === "string" ? token : null;
}

const framePeer = (
  { dialect, tenant, instance }: Pick<FramePeer, "dialect" | "tenant" | "instance">,
  workerName: string | null,
): FramePeer => ({ dialect, tenant, instance, workerName, session: null });

/**
 * The session that a resume asks for. The token is checked first and alone: a peer without a valid token, or without the key it is bound
 * to, gets the same answer whatever exists here. A session that this scheduler cannot resume is unknown, which leads to a new handshake.
 */
function findResumableSession(
  first: Envelope,
  resume: ResumePayload,
  certificate: PeerCertificate | null,
  { authenticator, registry, limits }: JoinContext,
): Session | Fault {
  const claims = authenticator.readSessionToken(resume.session_token);
  if (claims instanceof Fault) return claims;
  if ((claims.cnf ?? null) !== (certificate?.thumbprint ?? null)) return invalidSessionTokenFault();
  // Looked up by the token, never by the frame: nobody can ask about a worker that is not their own.
  const { tenant, wid, sid, dialect } = claims;
  const canResume = limits.resumeTimeoutMs > 0 && dialect !== "v1" && dialect !== "first";
  const session = canResume ? (registry.findByWorker(`${tenant}/${wid}`) ?? registry.findById(sid)) : undefined;
  // A token of an undecided worker says nothing more: its session knows what the worker has shown since.
  if (session === undefined || !dialectRules[session.identity.dialect].canResume)
    return fault("E.SESSION.UNKNOWN", "no such session can be resumed here; send a new handshake");
  const why = resumeFault(first, resume, claims, session);
  if (why !== null) return why;
  return authenticator.isStillValid(session.identity.authenticated) ? session : invalidCredentialFault();
}

/** In the order of checks that workers in the field expect. */
function resumeFault(first: Envelope, resume: ResumePayload, claims: SessionTokenClaims, session: Session): Fault | null {
  const { identity, join } = session;
  if (first.tenant !== claims.tenant) return fault("E.SESSION.TENANT_MISMATCH", "the session belongs to a different tenant");
  if (join.jti === null) return fault("E.SESSION.NOT_REGISTERED", "the session of this worker was never accepted");
  if (session.id !== resume.session_id || first.sender.id !== claims.wid || first.sender.role !== "worker")
    return fault("E.SESSION.MISMATCH", "the session does not belong to this worker");
  if (resume.boot_id !== undefined && resume.boot_id !== session.registration.bootIdFor(identity))
    return fault("E.SESSION.MISMATCH", "the session belongs to another process of this worker");
  const isOwnToken = claims.sid === session.id && claims.wid === identity.instance && claims.tenant === identity.tenant;
  // Every accept ends the token before it: an older one was copied, or its successor was lost on the way.
  return isOwnToken && claims.jti === join.jti ? null : invalidSessionTokenFault();
}
