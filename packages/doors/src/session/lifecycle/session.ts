// One worker's session, which outlives its sockets: who speaks, its stream, what the engine says to it, its time and its end.
// How it gets into the engine is join-handshake.ts; what its worker says, inbound-frames.ts; what that is sent, outbound-frames.ts; its sockets, connection.ts.

import type {
  AnswerBody,
  FaultData,
  SendDispatch,
  SendDrain,
  SendNextAnswer,
  SendReset,
  SendStop,
  SendVendorFrame,
  SendWorkerCommand,
} from "@astraflow/engine";
import { type Envelope, type Fault, fault, faultCodes, limits as wireLimits } from "@astraflow/protocol";
import type { ReportedPackage } from "@astraflow/services";
import { dialectRules, ReliableStream, type SentFrame, type TimeoutResult } from "@astraflow/session";
import { isRetryable, toPublicFault } from "../../engine-client/public-fault.ts";
import type { FramePeer } from "../frames/frame-log.ts";
import { createFrameTracer } from "../frames/frame-tap.ts";
import type { SchedulerFrameWriter } from "../frames/frame-writer.ts";
import { type UnansweredFrame, UnansweredFrames } from "../frames/unanswered-frames.ts";
import type { CommandOrigin } from "../frames/work-frames.ts";
import type { Registration } from "../registration/registration.ts";
import type { HandshakeIdentity } from "../registration/worker-handshake.ts";
import { ChainAttempts } from "./chain-attempts.ts";
import { InboundFrames } from "./inbound-frames.ts";
import { JoinHandshake } from "./join-handshake.ts";
import { OutboundFrames, type OutboundItem } from "./outbound-frames.ts";
import { ResourceReconciler } from "./resource-reconciler.ts";
import { frameLogFields, type SessionContext, type SessionTransport, windowSizesFor } from "./session-context.ts";
import { type SessionPhase, transitionSession } from "./session-phases.ts";

export class Session {
  readonly id: string;
  readonly identity: HandshakeIdentity;
  readonly origin: CommandOrigin;
  readonly stream: ReliableStream<OutboundItem, Envelope>;
  readonly writer: SchedulerFrameWriter;
  readonly unanswered = new UnansweredFrames();
  readonly chainAttempts = new ChainAttempts();
  readonly outbound: OutboundFrames;
  readonly inbound: InboundFrames;
  readonly resources: ResourceReconciler;
  readonly handshake: JoinHandshake;
  readonly windows: { readonly send: number; readonly recv: number };
  /** Its worker, as frames are shown. */
  readonly framePeer: FramePeer;
  registration: Registration;
  phase: SessionPhase = "describing";
  /** Its socket; null while it waits for its worker to come back. */
  connection: SessionTransport | null;
  /** Silence of so long ends it. */
  idleTimeoutMs = Number.POSITIVE_INFINITY;
  private readonly context: SessionContext;
  /** To be sent again at the end of the tick: what the engine takes back in the turn of the join must not go out once more. */
  private resendOnFlush: readonly SentFrame<OutboundItem>[] = [];
  /** The engine was told that it is here and not yet that it has gone. */
  private isJoinedToEngine = false;

  constructor(
    context: SessionContext,
    identity: HandshakeIdentity,
    registration: Registration,
    writer: SchedulerFrameWriter,
    connection: SessionTransport,
  ) {
    this.context = context;
    this.identity = identity;
    this.registration = registration;
    this.writer = writer;
    this.connection = connection;
    this.id = context.environment.ids.next();
    this.origin = { tenant: identity.tenant, worker: identity.worker, session: this.id, dialect: identity.dialect };
    const rules = dialectRules[identity.dialect];
    const sizes = windowSizesFor(context, identity.tenant, registration.features.has("wide"));
    this.windows = { send: Math.min(sizes.send, rules.framesMax), recv: Math.min(sizes.recv, rules.framesMax) };
    this.stream = new ReliableStream(rules, {
      sendFrames: this.windows.send,
      sendBytes: context.limits.windowBytes,
      recvFrames: this.windows.recv,
      recvBytes: context.limits.windowBytes,
      batchMax: registration.features.has("batch") && identity.dialect === "v2" ? wireLimits.batchItemsMax : 1,
      batchBytesMax: wireLimits.resultInlineBytesMax,
    });
    this.outbound = new OutboundFrames(this.stream, writer, identity.dialect === "v2" ? registration.features : new Set());
    this.inbound = new InboundFrames(this, context);
    this.resources = new ResourceReconciler(this, context);
    this.handshake = new JoinHandshake(this, context);
    const { dialect, tenant, instance, displayInfo: label } = identity;
    this.framePeer = { dialect, tenant, instance, workerName: label.name, session: this.id };
    writer.tracer = createFrameTracer(context, this.framePeer);
  }

  get isEnded(): boolean {
    return this.phase === "ended";
  }

  /** What it holds, for the limits of those that wait. */
  get heldBytes(): number {
    const { inFlightBytes, waitingBytes, bufferedBytes } = this.stream.counts;
    return inFlightBytes + waitingBytes + bufferedBytes + this.unanswered.bytes;
  }

  // ---- its sockets

  startJoin(): void {
    this.setPhase("joining");
    // The engine may grant in the very turn of the join: effects for this session must find it.
    this.context.registry.add(this);
    this.isJoinedToEngine = true;
    this.handshake.sendJoin();
  }

  /** A new socket of the same worker. Until the engine has spoken nothing leaves. */
  attachConnection(connection: SessionTransport, resume: { readonly id: string; readonly lastSeen: number | null }): void {
    const old = this.connection;
    this.connection = connection;
    old?.supersede();
    this.context.registry.reattach(this);
    this.stream.pause();
    this.resendOnFlush = [];
    this.inbound.clearStall();
    this.setPhase("resuming");
    this.isJoinedToEngine = true;
    this.handshake.sendRejoin(resume);
  }

  /** The engine has stored it: work flows. */
  markLive(): void {
    this.setPhase("live");
    this.context.registry.markCurrent(this);
  }

  resendLater(frames: readonly SentFrame<OutboundItem>[]): void {
    this.resendOnFlush = frames;
  }

  /** The socket is gone. What can be resumed waits for its worker; the engine hears that it is away either way. */
  handleDisconnect(connection: SessionTransport, reason: string): void {
    if (this.connection !== connection) return;
    this.connection = null;
    if (this.isEnded) return;
    const canDetach =
      (this.phase === "live" || this.phase === "resuming") &&
      dialectRules[this.identity.dialect].canResume &&
      this.context.limits.resumeTimeoutMs > 0 &&
      this.context.registry.isCurrent(this) &&
      this.heldBytes <= this.context.limits.detachedBytesMax;
    if (!canDetach) return this.end(reason);
    this.handshake.cancel();
    this.resendOnFlush = [];
    this.setPhase("detached");
    this.stream.pause();
    this.reportLeave(reason);
    this.log("info", "session.detached", { reason });
    this.context.registry.detach(this, this.now());
  }

  /** Over for good, without a word to the worker. */
  end(reason: string): void {
    if (this.isEnded) return;
    this.setPhase("ended");
    this.handshake.cancel();
    this.reportLeave(reason);
    this.context.registry.remove(this);
    this.log("info", "session.ended", { reason });
  }

  private reportLeave(reason: string): void {
    if (!this.isJoinedToEngine) return;
    this.isJoinedToEngine = false;
    const { tenant, worker, session } = this.origin;
    this.postCommand({ type: "worker.leave", tenant, worker, session, reason }, null);
  }

  /** Says why and ends the session. The worker starts over with a handshake; nothing it holds is lost by that. */
  reset(why: Fault, about?: Envelope, retryAfterMs?: number): void {
    if (this.isEnded) return;
    const { connection } = this;
    this.log("warn", "session.reset", { code: why.code, reason: why.message, ...(about !== undefined && frameLogFields(about)) });
    this.context.metrics.reset(this.identity.tenant, why.code);
    this.end(why.message);
    this.connection = null;
    connection?.sendAndClose(
      this.writer.encodeRefusal(faultCodes[why.code].frame, why.message, { corr: about?.id, retryAfterMs }),
      why.message,
    );
  }

  /** Manifests as the worker shows them; whoever keeps them decides which are new. */
  recordManifests(reported: readonly ReportedPackage[]): void {
    if (reported.length > 0) this.context.recordManifests?.(this.identity.tenant, reported);
    this.prefetchRequirements(reported);
  }

  /** Work of these packages may follow: what they ask for is read ahead. */
  prefetchRequirements(reported: readonly ReportedPackage[]): void {
    this.context.binder?.prefetch(this.identity.tenant, reported);
  }

  // ---- what the engine says

  handleAnswer(frame: UnansweredFrame, body: AnswerBody | null, why: FaultData | null): void {
    if (frame.kind === "join") this.handshake.handleAnswer(frame, body, why);
    else this.inbound.handleAnswer(frame, body, why);
  }

  resetWithFault(why: FaultData | null): void {
    const data = why ?? { code: "E.INTERNAL", message: "the engine gave no answer" };
    const { code, message } = toPublicFault(data);
    this.reset(fault(code, message), undefined, isRetryable(data) ? this.context.limits.retryAfterMs : undefined);
  }

  handleDispatch(send: SendDispatch): void {
    const { outbound } = this;
    // Sent again while the first one waits for its resources: one of them leaves.
    if (this.isEnded || outbound.isAwaitingResources(send.dispatch)) return;
    const isDeferred = this.context.binder?.bind(send, (boundDispatch) =>
      this.context.runStep(this, () => {
        if (outbound.finishAwaiting(send.dispatch)) this.enqueueDispatch(boundDispatch);
      }),
    );
    if (isDeferred === true) outbound.awaitResources(send.dispatch);
    else this.enqueueDispatch(send);
  }

  /** Numbered only as it leaves: one that is taken back before leaves no gap. */
  private enqueueDispatch(send: SendDispatch): void {
    if (this.isEnded) return;
    const { run, task, fence } = send.dispatch;
    const { tenant, worker, session, dialect } = this.origin;
    const runSeq = dialect === "v2" ? undefined : this.context.runSequence.assignNumber(run, fence, worker);
    this.chainAttempts.add(send.dispatch);
    if (this.outbound.enqueueDispatch(send, runSeq)) return;
    const bytesMax = dialect === "v2" ? wireLimits.frameBytesMax : wireLimits.legacyFrameBytesMax;
    const message = `the parameters, with the resources bound to them, are larger than the ${bytesMax} bytes that a worker of this protocol takes`;
    this.postCommand({ type: "task.error", tenant, worker, session, task, fence, code: "E.FRAME.TOO_LARGE", message }, null);
  }

  handleStop(stop: SendStop): void {
    if (this.isEnded) return;
    this.chainAttempts.remove(stop.task);
    this.outbound.enqueueStop(stop);
  }

  handleNextResponse(next: SendNextAnswer): void {
    if (!this.isEnded) this.outbound.enqueueNextResponse(next);
  }

  handleCommand(order: SendWorkerCommand): void {
    if (!this.isEnded) this.outbound.enqueueCommand(order);
  }

  handleVendorFrame(vendorFrame: SendVendorFrame): void {
    if (this.isEnded) return;
    const { waitingBytes } = this.stream.counts;
    // v1 has no frames of vendors; and a worker that reads nothing must not fill the house with them.
    if (this.identity.dialect === "v1" || waitingBytes + vendorFrame.frame.payload.length > this.context.limits.waitingBytesMax)
      return this.log("warn", "session.untold", { type: vendorFrame.frame.type, id: vendorFrame.frame.id });
    this.outbound.enqueueVendorFrame(vendorFrame);
  }

  handleReset(effect: SendReset): void {
    const { code, message } = toPublicFault({ code: effect.code, message: effect.reason });
    this.reset(fault(code, message));
  }

  handleDrain({ on, reason }: SendDrain): void {
    const { connection } = this;
    // Whoever is not here is told when it comes back.
    if (this.phase !== "live" || connection === null) return;
    if (on || this.registration.features.has("undrain")) return this.outbound.sendDrain(connection, on, reason);
    // The older dialects cannot be told, and need not: they take work while they drain. Others take it after a fresh start.
    if (this.identity.dialect === "v2") this.reset(fault("E.SESSION.UNKNOWN", "the drain has ended; send a new handshake"));
  }

  // ---- the end of a tick, and time

  /** One merged ack, then as much work as window and socket take. */
  flush(roomBytes: number): void {
    const { connection } = this;
    if (connection === null || this.isEnded || this.phase === "resuming") return;
    this.flushAcks(connection);
    if (this.phase !== "live") return;
    if (this.resendOnFlush.length > 0) this.resend(connection, this.resendOnFlush);
    this.resendOnFlush = [];
    this.outbound.flush(connection, roomBytes, this.now());
    if (this.stream.counts.waitingBytes > this.context.limits.waitingBytesMax)
      this.reset(fault("E.OVERLOADED", "more work waits for this worker than the door holds"));
  }

  flushAcks(connection: SessionTransport): void {
    if (!this.stream.hasPendingAcks) return;
    for (const ack of this.stream.takeAcks()) connection.send(this.writer.encodeAck(ack));
  }

  checkTimers(now: number): void {
    if (this.phase === "live" && this.connection !== null && now >= this.stream.nextTimeoutAt)
      this.resendDue(this.connection, now);
    if (this.phase === "live" && now - this.inbound.stalledSince >= dialectRules[this.identity.dialect].gapTimeoutMs)
      this.reset(gapFault());
    this.handshake.checkTimers(now);
  }

  private resendDue(connection: SessionTransport, now: number): void {
    this.resendOrEnd(connection, this.stream.checkTimeouts(now, this.context.jitter));
  }

  /** The worker misses frames: all that it has not acked, without waiting for their time. */
  resendAll(): void {
    const { connection } = this;
    if (this.phase === "live" && connection !== null)
      this.resendOrEnd(connection, this.stream.resendAll(this.now(), this.context.jitter));
  }

  private resendOrEnd(connection: SessionTransport, { resend: repeat, verdict }: TimeoutResult<OutboundItem>): void {
    if (verdict === "gap") return this.reset(gapFault());
    if (verdict === "exhausted") {
      this.log("warn", "session.unacked", { frames: this.stream.counts.inFlight });
      // The data stays: a worker that can resume finds it all, the others start over.
      if (dialectRules[this.identity.dialect].canResume) return connection.terminate();
      return this.reset(fault("E.TIMEOUT", "frames were sent as often as they may be and never acknowledged"));
    }
    this.resend(connection, repeat);
  }

  private resend(connection: SessionTransport, frames: readonly SentFrame<OutboundItem>[]): void {
    this.outbound.resend(connection, frames);
    this.context.metrics.repeated(this.identity.tenant, "out", frames.length);
  }

  /** Asked when credentials changed or ran out. */
  recheckCredentials(): void {
    if (!this.isEnded && !this.context.authenticator.isStillValid(this.identity.authenticated))
      this.reset(fault("E.AUTH.INVALID_TOKEN", "the credential of this worker is no longer good"));
  }

  postCommand(command: Parameters<SessionContext["postCommand"]>[1], note: UnansweredFrame | null): void {
    this.context.postCommand(this, command, note);
  }

  log(level: "info" | "warn", event: string, fields: Readonly<Record<string, unknown>>): void {
    const { tenant, instance } = this.identity;
    this.context.environment.log({ level, event, tenant, sender: { id: instance }, session: this.id, ...fields });
  }

  private now(): number {
    return this.context.environment.clock.monotonic();
  }

  private setPhase(to: SessionPhase): void {
    this.phase = transitionSession(this.phase, to);
  }
}

const gapFault = (): Fault =>
  fault("E.SESSION.GAP", "frames of this worker are missing and did not come within the time allowed");
