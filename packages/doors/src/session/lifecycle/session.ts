// One worker's session, which outlives its sockets: its reliable stream, its connection, its timers and its end.
// Every step of a session runs through `run` or `post`, so that a bug ends this session and nothing else.

import type { Command, FaultData, ReportErrorCommand, ReportResultCommand } from "@astraflow/engine";
import {
  type Envelope,
  Fault,
  type FramePayloads,
  fault,
  faultCodes,
  type HeartbeatPayload,
  limits as wireLimits,
} from "@astraflow/protocol";
import { type AnswerHandler, type ReportedPackage } from "@astraflow/services";
import { type DeliveryTag, dialectRules, ReliableStream, type SentFrame, type TimeoutResult } from "@astraflow/session";
import { invalidCredentialFault } from "../../auth/worker-authenticator.ts";
import { isRetryable, toPublicFault } from "../../engine-client/public-fault.ts";
import type { ConnectionOwner, SessionConnection } from "../connection/session-connection.ts";
import { type SessionPhase, sessionTransitions, transition } from "../connection/session-phases.ts";
import { type FramePeer, frameLogFields } from "../frames/frame-trace.ts";
import type { SchedulerFrameWriter } from "../frames/frame-writer.ts";
import { type CommandOrigin, readFramePayload, senderOf } from "../frames/work-frames.ts";
import type { Registration } from "../registration/registration.ts";
import type { HandshakeIdentity } from "../registration/worker-handshake.ts";
import { InboundFrames } from "./inbound-frames.ts";
import { MiddlewareAttempts } from "./middleware-attempts.ts";
import { OutboundFrames, type OutboundItem } from "./outbound-frames.ts";
import { clampWindows, type SessionContext, windowSizesFor } from "./session-context.ts";
import { checkJoinTimers, JoinProgress } from "./session-join.ts";
import { endFormerSocket } from "./session-takeover.ts";

export class Session implements ConnectionOwner {
  readonly id: string;
  readonly context: SessionContext;
  identity: HandshakeIdentity;
  origin: CommandOrigin;
  /** The fields that every command of this session begins with. */
  readonly sender: ReturnType<typeof senderOf>;
  readonly stream: ReliableStream<OutboundItem, Envelope>;
  readonly writer: SchedulerFrameWriter;
  readonly chainAttempts = new MiddlewareAttempts();
  readonly outbound: OutboundFrames;
  readonly join = new JoinProgress();
  windows: { readonly send: number; readonly recv: number };
  framePeer: FramePeer;
  registration: Registration;
  phase: SessionPhase = "joining";
  /** Null while the session is detached, and once it has ended. */
  connection: SessionConnection | null;
  /** Frames that the engine has not answered: their bytes, the heartbeats, and others that no window limits. */
  unansweredBytes = 0;
  unansweredHeartbeats = 0;
  /** As a heartbeat listed them; later ones name them by their digest. */
  reportedResources: HeartbeatPayload["resources"];
  unansweredUnnumbered = 0;
  /** Set while nothing but frames beyond the window arrives: the last number delivered, and since when. */
  stall: { readonly at: number; readonly since: number } | null = null;
  /** While lost resources are looked for: what the worker reported, and what its results have added since. */
  presentResources: Set<string> | null = null;
  /** Sent again at the end of the tick: what the engine withdraws in the turn of the join must not be sent once more. */
  private resendOnFlush: readonly SentFrame<OutboundItem>[] = [];
  /** The engine has been sent a join and no leave since. */
  private isJoinedToEngine = false;
  readonly inbound: InboundFrames;

  constructor(
    context: SessionContext,
    identity: HandshakeIdentity,
    registration: Registration,
    writer: SchedulerFrameWriter,
    connection: SessionConnection,
  ) {
    const { tenant, worker, instance, dialect, displayInfo } = identity;
    this.context = context;
    this.identity = identity;
    this.registration = registration;
    this.writer = writer;
    this.connection = connection;
    this.id = context.environment.ids.next();
    this.origin = { tenant, worker, session: this.id, dialect };
    this.sender = senderOf(this.origin);
    const sizes = windowSizesFor(context, tenant, registration.features.has("wide"));
    this.windows = clampWindows(sizes, dialect);
    this.stream = new ReliableStream(dialectRules[dialect], {
      sendFrames: sizes.send,
      sendBytes: context.limits.windowBytes,
      recvFrames: sizes.recv,
      recvBytes: context.limits.windowBytes,
      batchMax: registration.features.has("batch") ? wireLimits.batchItemsMax : 1,
      batchBytesMax: wireLimits.resultInlineBytesMax,
    });
    this.outbound = new OutboundFrames(this.stream, writer, registration.features);
    this.framePeer = { dialect, tenant, instance, workerName: displayInfo.name, session: this.id };
    writer.peer = this.framePeer;
    this.inbound = new InboundFrames(this);
  }

  get isEnded(): boolean {
    return this.phase === "ended";
  }

  /** A silence longer than this ends the session. */
  get idleTimeoutMs(): number {
    const { answer } = this.join;
    if (this.phase !== "live" || answer === null) return Number.POSITIVE_INFINITY;
    return answer.leaseMs * this.context.limits.idleLeasesMax;
  }

  /** Bytes that it holds, for the limits on detached sessions. */
  get heldBytes(): number {
    const { inFlightBytes, waitingBytes, bufferedBytes } = this.stream.counts;
    return inFlightBytes + waitingBytes + bufferedBytes + this.unansweredBytes;
  }

  // ---- steps

  handleFrame(envelope: Envelope, bytes: number): void {
    this.inbound.handleFrame(envelope, bytes);
  }

  /** Runs one step; whatever it owes the worker is sent at the end of the tick. */
  run(step: () => void): void {
    const { connection } = this;
    try {
      step();
    } catch (problem) {
      this.abort(problem, connection);
    }
    this.finishStep();
  }

  /** Sends a command to the engine; its answer is handled as a step of this session. */
  post(command: Command, onAnswer: AnswerHandler): void {
    this.context.engineClient.send(command, (body, why) => {
      const { connection } = this;
      try {
        onAnswer(body, why);
      } catch (problem) {
        this.abort(problem, connection);
      }
      this.finishStep();
    });
  }

  /** Sends a command whose answer changes nothing here. */
  notify(command: Command): void {
    this.context.engineClient.send(command, ignoreAnswer);
  }

  private finishStep(): void {
    this.scheduleFlush();
    this.connection?.resumeIfDrained();
  }

  scheduleFlush(): void {
    if (this.connection !== null) this.context.scheduleFlush(this);
  }

  /** A step threw, so the state of the session is in doubt: it ends. */
  abort(problem: unknown, connection: SessionConnection | null): void {
    const text = problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
    this.context.environment.log({ level: "error", event: "session.bug", session: this.id, problem: text });
    connection?.terminate();
    this.end("internal error in the scheduler");
  }

  // ---- phases

  /** The engine may dispatch in the very turn of the join: from now on its effects must find the session. */
  beginJoin(): void {
    this.context.registry.add(this);
    this.isJoinedToEngine = true;
  }

  /** A new socket of the same worker. Nothing is sent on it until the engine has answered. */
  attachConnection(connection: SessionConnection): void {
    const old = this.connection;
    this.connection = connection;
    if (old !== null) endFormerSocket(this, old, connection);
    this.context.registry.reattach(this);
    this.stream.pause();
    this.resendOnFlush = [];
    this.stall = null;
    this.setPhase("resuming");
    this.isJoinedToEngine = true;
  }

  /** The engine has stored the join: work flows. */
  markLive(): void {
    this.setPhase("live");
    this.context.registry.markCurrent(this);
  }

  resendLater(frames: readonly SentFrame<OutboundItem>[]): void {
    this.resendOnFlush = frames;
  }

  /** The socket is gone. The session is detached if it can be resumed, else it ends; the engine is told in both cases. */
  handleDisconnect(reason: string, connection: SessionConnection, isOrderly: boolean): void {
    if (this.connection !== connection) return;
    this.connection = null;
    if (this.isEnded) return;
    const { limits, registry } = this.context;
    const canDetach =
      (this.phase === "live" || this.phase === "resuming") &&
      dialectRules[this.identity.dialect].canResume &&
      limits.resumeTimeoutMs > 0 &&
      registry.isCurrent(this) &&
      this.heldBytes <= limits.detachedBytesMax;
    if (!canDetach) return this.end(reason, isOrderly);
    this.join.cancel();
    this.resendOnFlush = [];
    this.setPhase("detached");
    this.stream.pause();
    this.reportLeave(reason, isOrderly);
    this.log("info", "session.detached", { reason });
    registry.detach(this, this.now());
  }

  /** Ends the session for good, without telling the worker. */
  end(reason: string, isOrderly = false): void {
    if (this.isEnded) return;
    this.setPhase("ended");
    this.join.cancel();
    this.reportLeave(reason, isOrderly);
    this.context.registry.remove(this);
    this.log("info", "session.ended", { reason });
  }

  private reportLeave(reason: string, isOrderly: boolean): void {
    if (!this.isJoinedToEngine) return;
    this.isJoinedToEngine = false;
    this.notify({ type: "worker.leave", ...this.sender, reason, ...(isOrderly && { isOrderly }) });
  }

  /** Tells the worker why and ends the session. The worker sends a new handshake and loses nothing that it holds. */
  reset(why: Fault, about?: Envelope, retryAfterMs?: number): void {
    if (this.isEnded) return;
    const { connection } = this;
    this.log("warn", "session.reset", { code: why.code, reason: why.message, ...(about !== undefined && frameLogFields(about)) });
    this.context.metrics.reset(this.identity.tenant, why.code);
    this.end(why.message);
    this.connection = null;
    connection?.sendReset(
      this.writer.encodeRefusal(faultCodes[why.code].frame, why.message, { corr: about?.id, retryAfterMs }),
      why.message,
    );
  }

  resetWithFault(why: FaultData | null): void {
    const data = why ?? { code: "E.INTERNAL", message: "the engine did not answer" };
    const { code, message } = toPublicFault(data);
    this.reset(fault(code, message), undefined, isRetryable(data) ? this.context.limits.retryAfterMs : undefined);
  }

  recheckCredentials(): void {
    if (!this.isEnded && !this.context.authenticator.isStillValid(this.identity.authenticated))
      this.reset(invalidCredentialFault());
  }

  // ---- what the worker reported

  /** The worker has finished an attempt: a dispatch of it that has not left yet must not leave any more. */
  handleAttemptEnd(report: ReportResultCommand | ReportErrorCommand): void {
    this.chainAttempts.remove(report.task);
    this.outbound.handleAttemptEnd(report.task, report.fence);
    if (report.type === "task.result" && this.presentResources !== null)
      for (const { resource } of report.artifacts ?? []) this.presentResources.add(resource);
  }

  /** A control frame that cannot be read ends the session. */
  readOrReset<T extends "control.register" | "control.heartbeat" | "control.ack">(
    type: T,
    envelope: Envelope,
  ): FramePayloads[T] | null {
    const payload = readFramePayload(this.identity, type, envelope);
    if (!(payload instanceof Fault)) return payload;
    this.reset(payload, envelope);
    return null;
  }

  recordManifests(reported: readonly ReportedPackage[]): void {
    if (reported.length > 0) this.context.recordManifests?.(this.identity.tenant, reported);
    this.prefetchRequirements(reported);
  }

  /** Reads ahead what these packages require, as work for them may follow. */
  prefetchRequirements(reported: readonly ReportedPackage[]): void {
    this.context.dispatchResources?.prefetch(this.identity.tenant, reported);
  }

  /** A frame has gone to the engine (1), or all of it is answered (-1). */
  countUnanswered(tag: DeliveryTag, change: 1 | -1): void {
    this.unansweredBytes += change * tag.bytes;
    if (tag.number === null) this.unansweredUnnumbered += change;
  }

  /** True, and the session is reset, where no more of these may wait for the engine. */
  hasTooManyUnanswered(what: string): boolean {
    if (this.unansweredUnnumbered < this.context.limits.unnumberedMax) return false;
    this.reset(fault("E.OVERLOADED", `too many unanswered ${what}`));
    return true;
  }

  // ---- the end of a tick, and time

  /** Sends one merged ack, then as much work as window and socket take. All of it leaves in one write, which saves a fifth of the CPU time. */
  flush(): void {
    const { connection } = this;
    if (connection === null || this.isEnded || this.phase === "resuming") return;
    connection.socket.batchWrites(() => {
      try {
        this.sendOwed(connection, this.context.limits.socketBytesSoft - connection.socket.bufferedAmount);
      } catch (problem) {
        this.abort(problem, connection);
      }
    });
    // v1 resends within fractions of a second.
    if (this.identity.dialect === "v1" && this.stream.nextTimeoutAt < Number.POSITIVE_INFINITY) this.context.scheduleFastSweep();
  }

  private sendOwed(connection: SessionConnection, roomBytes: number): void {
    this.flushAcks(connection);
    if (this.phase !== "live") return;
    if (this.resendOnFlush.length > 0) this.resend(connection, this.resendOnFlush);
    this.resendOnFlush = [];
    this.outbound.flush(connection, roomBytes, this.now());
    if (this.stream.counts.waitingBytes > this.context.limits.waitingBytesMax)
      this.reset(fault("E.OVERLOADED", "the send queue of this worker is full"));
  }

  flushAcks(connection: SessionConnection): void {
    if (!this.stream.hasPendingAcks) return;
    for (const ack of this.stream.takeAcks()) connection.send(this.writer.encodeAck(ack));
  }

  checkTimers(now: number, connection: SessionConnection): void {
    if (this.connection !== connection) return;
    this.run(() => {
      this.checkStreamTimers(now);
      checkJoinTimers(this, now);
    });
  }

  checkStreamTimers(now: number): void {
    const { stream, stall } = this;
    if (this.phase === "live" && this.connection !== null && now >= stream.nextTimeoutAt)
      this.resendOrEnd(this.connection, stream.checkTimeouts(now, this.context.jitter));
    const isStalled = stall !== null && stall.at === stream.lastSeen;
    if (this.phase === "live" && isStalled && now - stall.since >= dialectRules[this.identity.dialect].gapTimeoutMs)
      this.reset(gapFault());
  }

  /** The worker reports that it misses frames: resends all that it has not acked. */
  resendAll(): void {
    const { connection } = this;
    if (this.phase === "live" && connection !== null)
      this.resendOrEnd(connection, this.stream.resendAll(this.now(), this.context.jitter));
  }

  private resendOrEnd(connection: SessionConnection, { resend, verdict }: TimeoutResult<OutboundItem>): void {
    if (verdict === "gap") return this.reset(gapFault());
    if (verdict === "exhausted") {
      this.log("warn", "session.unacked", { frames: this.stream.counts.inFlight });
      // The data stays: a worker that can resume finds it all, the others start anew.
      if (dialectRules[this.identity.dialect].canResume) return connection.terminate();
      return this.reset(fault("E.TIMEOUT", "frames were resent the maximum number of times without an acknowledgement"));
    }
    this.resend(connection, resend);
  }

  private resend(connection: SessionConnection, frames: readonly SentFrame<OutboundItem>[]): void {
    this.outbound.resend(connection, frames);
    this.context.metrics.repeated(this.identity.tenant, "out", frames.length);
  }

  log(level: "info" | "warn", event: string, fields: Readonly<Record<string, unknown>>): void {
    const { tenant, instance } = this.identity;
    this.context.environment.log({ level, event, tenant, sender: { id: instance }, session: this.id, ...fields });
  }

  now(): number {
    return this.context.environment.clock.monotonic();
  }

  private setPhase(to: SessionPhase): void {
    this.phase = transition(sessionTransitions, this.phase, to);
  }
}

const ignoreAnswer: AnswerHandler = () => undefined;

const gapFault = (): Fault => fault("E.SESSION.GAP", "frames from this worker are missing and did not arrive in time");
