// The worker's side of a session, driven by events of the socket, the clock, the handlers and the operator. No sockets, no timers.

import {
  type AckPayload,
  compileFrameReaders,
  type DispatchPayload,
  type Envelope,
  Fault,
  limits,
  type PackageEventPayload,
  readEnvelope,
  readFrame,
  readJson,
} from "@astraflow/protocol";
import type { FeedbackInput } from "@astraflow/sdk";
import type { LocalAttempt } from "../attempts/attempt.ts";
import type { AttemptOutcome } from "../attempts/outcome.ts";
import type { MiddlewareCallAnswer, MiddlewareCallDraft } from "../handlers/middleware-call.ts";
import type { OutgoingVendorFrame } from "../handlers/vendor-frames.ts";
import type { JournaledOutcome } from "../outbox/outbox-journal.ts";
import type { ResourceRemovedReason } from "../resources/resource.ts";
import { AttemptManager } from "./attempt-manager.ts";
import { ConnectionLifecycle } from "./connection-lifecycle.ts";
import { Heartbeats } from "./heartbeats.ts";
import { FrameWriter, type LinkContext, logIgnoredFrame } from "./link-context.ts";
import { type LinkInventory, type LinkPorts, type LinkStatus, packageFeature } from "./link-ports.ts";
import type { DialerEvents, DialTarget } from "./websocket-dialer.ts";
import { WorkFrameDispatcher } from "./work-frame-dispatcher.ts";

const noDeadline = Number.POSITIVE_INFINITY;
/** A batch nests its items two levels deeper than they would travel alone. */
const frameJsonLimits = { ...limits.json.frameToWorker, depthMax: limits.json.frameToWorker.depthMax + 2 };

export type SchedulerLinkOptions = Omit<LinkContext, "writer" | "requestFlush" | "log">;

export class SchedulerLink implements DialerEvents {
  readonly #context: LinkContext;
  readonly #ports: LinkPorts;
  readonly #attempts: AttemptManager;
  readonly #heartbeats: Heartbeats;
  readonly #lifecycle: ConnectionLifecycle;

  #isLeaving = false;
  #hasReportedDrained = false;
  /** Id of the heartbeat that announces the leave. Until it is answered more work may be on its way here. */
  #farewellHeartbeatId = "";
  #tickScheduledAt = noDeadline;
  #isFlushRequested = false;

  constructor(options: SchedulerLinkOptions) {
    const { ports, identity } = options;
    const context: LinkContext = {
      ...options,
      writer: new FrameWriter(ports, identity),
      requestFlush: () => this.#requestFlush(),
      log: (level, event, message, details) => ports.log({ level, event, message, ...(details !== undefined && { details }) }),
    };
    const attempts = new AttemptManager(context);
    this.#context = context;
    this.#ports = ports;
    this.#attempts = attempts;
    this.#heartbeats = new Heartbeats(context, attempts);
    this.#lifecycle = new ConnectionLifecycle(context, {
      attempts,
      heartbeats: this.#heartbeats,
      dispatcher: new WorkFrameDispatcher(context, attempts, (dispatch) => this.#findRefusalReason(dispatch)),
      isLeaving: () => this.#isLeaving,
      sessionReady: () => this.#handleSessionReady(),
      disconnected: () => this.#handleDisconnected(),
    });
  }

  get status(): LinkStatus {
    return { phase: this.#lifecycle.phase, ...this.#attempts.counts };
  }

  inventory(): LinkInventory {
    const now = this.#ports.now();
    const leftMs = this.#heartbeats.lease.selfFenceAt - now;
    return {
      phase: this.#lifecycle.phase,
      session: this.#lifecycle.session?.id ?? null,
      leaseLeftMs: leftMs === noDeadline ? null : Math.max(0, Math.round(leftMs)),
      attempts: this.#attempts.inventory(now),
      counts: this.#attempts.counts,
      stream: this.#lifecycle.session?.stream.counts ?? null,
    };
  }

  // ---- the operator

  start(): void {
    compileFrameReaders();
    this.#lifecycle.dial();
    this.#scheduleTick();
  }

  /** Before `start`: what an earlier process left on disk, oldest first. */
  restoreOutcomes(restored: readonly JournaledOutcome[]): void {
    this.#attempts.restoreOutcomes(restored);
  }

  /** Takes no new work, finishes what it holds, then closes for good. */
  drainAndClose(): void {
    if (this.#isLeaving || this.#isClosed) return;
    this.#isLeaving = true;
    this.#lifecycle.transition("drain");
    if (this.#lifecycle.activeSession !== null) this.#farewellHeartbeatId = this.#sendHeartbeat();
    this.#closeIfIdle();
    this.#scheduleTick();
  }

  /** Ends now: what still runs is given back to the scheduler. */
  stop(): void {
    if (this.#isClosed) return;
    this.#attempts.returnUnfinished("the worker was stopped before the task ended");
    this.flush();
    this.#close("stopped");
  }

  // ---- the socket

  connectionOpened(): void {
    this.#selfFenceIfDue();
    this.#lifecycle.handleOpen();
    this.#scheduleTick();
  }

  /** The socket is gone, or never came up. A scheduler that has fallen silent is better not asked first: `next`. */
  connectionLost(reason: string, target: DialTarget = "same"): void {
    this.#lifecycle.handleConnectionLost(reason, target);
  }

  messageReceived(text: string): void {
    const { phase } = this.#lifecycle;
    if (phase === "CLOSED" || phase === "BACKOFF" || phase === "NEW") return;
    if (this.#selfFenceIfDue()) return this.#scheduleTick();
    const value = readJson(text, frameJsonLimits);
    const envelope = value instanceof Fault ? value : readEnvelope(value, "v2");
    if (envelope instanceof Fault) {
      // In the same session it would be sent again, and end the next socket too.
      this.#lifecycle.endSession(1002, `the scheduler sent a frame that cannot be read: ${envelope.message}`);
    } else if (envelope.type.startsWith("control.")) this.#handleControlFrame(envelope);
    else this.#handleWorkFrame(envelope, text.length);
    this.#scheduleTick();
  }

  // ---- the runner of the handlers, whose listener the link is

  attemptFinished(attempt: LocalAttempt, outcome: AttemptOutcome): void {
    this.#ports.attemptEnded?.(attempt, outcome, this.#ports.now() - attempt.startedAt);
    this.#selfFenceIfDue();
    this.#attempts.handleOutcome(attempt, outcome);
  }

  handlerReturned(attempt: LocalAttempt): void {
    // Its slot would go to an attempt that waits, perhaps one that is no longer this worker's.
    this.#selfFenceIfDue();
    this.#attempts.handleHandlerReturned(attempt);
    this.#closeIfIdle();
  }

  feedbackReceived(attempt: LocalAttempt, input: FeedbackInput): void {
    this.#attempts.handleFeedback(attempt, input);
  }

  /** A middleware calls the next of its chain; see pending-middleware-calls.ts. */
  nextCalled(attempt: LocalAttempt, draft: MiddlewareCallDraft, answer: (answer: MiddlewareCallAnswer) => void): () => void {
    this.#selfFenceIfDue();
    return this.#attempts.nextCalls.startCall(attempt, draft, answer);
  }

  /** A vendor frame for the scheduler: kept until acked, at least once across sessions. False: too much of that waits. */
  vendorFrameSent(frame: OutgoingVendorFrame): boolean {
    return !this.#isClosed && this.#attempts.sendVendorFrame(frame);
  }

  /** A resource that a result has named is gone; the scheduler is told once. */
  resourceRemoved(resource: string, reason: ResourceRemovedReason): void {
    if (!this.#isClosed) this.#attempts.reportRemovedResource(resource, reason);
  }

  problemReported(problem: { readonly message: string; readonly cause: unknown }): void {
    this.#ports.reportProblem(problem);
  }

  // ---- packages that come and go

  /** How a package command goes on, or ended. Stages are for schedulers that know them, and for those that are here now. */
  sendPackageEvent(event: PackageEventPayload, command: string | null): void {
    const isStage = event.status === "installing" || event.status === "removing";
    if (this.#isClosed || (isStage && !this.#lifecycle.activeSession?.features.includes(packageFeature))) return;
    this.#attempts.sendPackageEvent(event, command);
  }

  /** The scheduler gets everything that is installed now, with its manifests, and then a heartbeat. */
  packagesChanged(): void {
    if (this.#lifecycle.activeSession === null) return; // the next register lists it
    const { manifests } = this.#context.capabilities();
    this.#attempts.sendCatalog({ packages: manifests.map((one) => ({ ...one, status: "installed" })) });
    this.healthChanged();
  }

  hasAttemptsOf(name: string, version: string): boolean {
    return this.#attempts.hasAttemptsOf(name, version);
  }

  /** The outbox failed or recovered, or a problem came or went: a heartbeat is sent at once. */
  healthChanged(): void {
    if (this.#lifecycle.activeSession === null) return;
    this.#sendHeartbeat();
    this.#scheduleTick();
  }

  // ---- the clock

  /** Does all that is due, and asks for the next call. */
  tick(): void {
    const now = this.#ports.now();
    this.#tickScheduledAt = noDeadline;
    this.#selfFenceIfDue();
    this.#attempts.expireSlotWaits(now);
    if (!this.#lifecycle.tick(now) && this.#heartbeats.nextHeartbeatAt <= now) {
      if (this.#heartbeats.lease.isSchedulerSilent)
        this.#lifecycle.disconnect(1001, "the scheduler does not answer heartbeats", "next");
      else this.#sendHeartbeat();
    }
    this.#retransmitDue();
    this.#scheduleTick();
  }

  /** Sends what one tick has gathered: one ack for all that came, then the messages that fit into the window. */
  flush(): void {
    this.#isFlushRequested = false;
    this.#lifecycle.activeSession?.flush();
    this.#scheduleTick();
  }

  // ---- coming and going

  #handleSessionReady(): void {
    this.#hasReportedDrained = false;
    if (this.#isLeaving) this.#farewellHeartbeatId = this.#sendHeartbeat();
    else if (this.#heartbeats.shouldReportHealth()) this.#sendHeartbeat();
    this.#requestFlush();
    this.#closeIfIdle();
  }

  #handleDisconnected(): void {
    this.#farewellHeartbeatId = "";
    this.#closeIfIdle();
    this.#scheduleTick();
  }

  /** A worker that leaves closes once nothing is held and nothing unacked; one that drains reports that it is done, and stays. */
  #closeIfIdle(): void {
    if (!this.#attempts.isIdle) return;
    if (this.#isLeaving) {
      if (this.#farewellHeartbeatId === "") this.#close("left");
    } else if (this.#lifecycle.phase === "DRAINING" && !this.#hasReportedDrained) {
      this.#hasReportedDrained = true;
      this.#context.log("info", "drained", "drained: every task is finished and acknowledged");
      this.#sendHeartbeat();
    }
  }

  #close(reason: string): void {
    if (!this.#lifecycle.transition("stop")) return;
    this.#ports.closeConnection(1000, reason);
    this.#context.log("info", "closed", reason);
  }

  get #isClosed(): boolean {
    return this.#lifecycle.phase === "CLOSED";
  }

  /** Near the end of the lease others may be granted these tasks: they must not be touched. True: the socket was closed for it. */
  #selfFenceIfDue(): boolean {
    const { lease } = this.#heartbeats;
    if (this.#ports.now() < lease.selfFenceAt) return false;
    lease.expire();
    const lost = this.#attempts.discardUnfinished("the worker's lease expired");
    const message = `the lease expired before the scheduler answered; ${lost} attempts were stopped`;
    if (lost > 0) this.#context.log("error", "self-fenced", message, { lost });
    const hasSessionSocket = this.#lifecycle.activeSession !== null || this.#lifecycle.isResuming;
    if (hasSessionSocket) this.#lifecycle.endSession(1001, "the lease expired before the scheduler answered");
    else this.#lifecycle.discardSession();
    return hasSessionSocket;
  }

  // ---- frames that come in

  #handleControlFrame(envelope: Envelope): void {
    const frame = readFrame("v2", envelope);
    if (frame instanceof Fault) {
      // A type of frame from a newer scheduler is no reason to part; a known one that is malformed is.
      if (frame.code === "E.CMD.UNKNOWN") this.#ignoreFrame(envelope, frame.message);
      else this.#lifecycle.endSession(1002, frame.message);
    } else if (frame.type === "control.ack") this.#handleAck(frame.payload, envelope);
    else if (frame.type === "control.session.accept") {
      const problem = this.#lifecycle.handleAccept(frame.payload);
      if (problem !== null) this.#ignoreFrame(envelope, problem);
    } else if (frame.type === "control.reset") this.#lifecycle.handleReset(frame.payload);
    else if (frame.type === "control.drain" || frame.type === "control.undrain") {
      if (envelope.ack?.request)
        this.#context.writer.sendControl("control.ack", { ok: true, for: envelope.id }, { ackFor: envelope.id });
      if (frame.type === "control.undrain") this.#handleUndrain();
      else if (this.#lifecycle.transition("drain")) this.#closeIfIdle();
    } else this.#ignoreFrame(envelope, `${frame.type} is not for workers`);
  }

  #handleUndrain(): void {
    if (this.#isLeaving || !this.#lifecycle.transition("undrain")) return;
    this.#hasReportedDrained = false;
    this.#context.log("info", "undrained", "the worker accepts new work again");
    this.#sendHeartbeat();
  }

  #handleAck(ack: AckPayload, envelope: Envelope): void {
    const id = ack.for ?? envelope.ack?.for;
    if (this.#lifecycle.activeSession === null) return this.#lifecycle.handleHandshakeAck(id, ack);
    if (id !== undefined) this.#heartbeats.handleAck(id);
    if (id === this.#farewellHeartbeatId) this.#farewellHeartbeatId = "";
    if (ack.ok === false) {
      const message = ack.info ?? "the scheduler did not understand a frame";
      this.#context.log("warn", "word-refused", message, { for: id });
      if (id !== undefined) this.#attempts.nextCalls.failCall(id, message);
    }
    if (!this.#attempts.handleAck(ack, envelope.ack?.for)) return this.#lifecycle.endInconsistentSession();
    this.#requestFlush();
    this.#closeIfIdle();
  }

  #handleWorkFrame(envelope: Envelope, bytes: number): void {
    const session = this.#lifecycle.activeSession;
    if (session === null) return this.#ignoreFrame(envelope, `${envelope.type} came before the session was accepted`);
    session.receiveFrame(envelope, bytes);
    if (session.stream.hasPendingAcks) this.#requestFlush();
    this.#closeIfIdle();
  }

  #findRefusalReason({ package_name: name, package_version: version }: DispatchPayload): string | null {
    if (this.#lifecycle.phase === "DRAINING") return "the worker is draining and takes no new work";
    if (this.#ports.packageCommands?.isLeaving(name, version)) return `${name} ${version} is being removed from this worker`;
    return this.#heartbeats.canPersistOutcomes ? null : "the worker cannot write results to its disk and takes no new work";
  }

  /** Never fatal: a frame that asks for an ack gets a negative one. */
  #ignoreFrame(envelope: Envelope, message: string): void {
    logIgnoredFrame(this.#context, envelope, message);
    if (envelope.seq !== undefined || !envelope.ack?.request) return;
    this.#context.writer.sendControl("control.ack", { ok: false, for: envelope.id, info: message }, { ackFor: envelope.id });
  }

  // ---- what goes out in time

  #sendHeartbeat(): string {
    return this.#heartbeats.sendHeartbeat({ isLeaving: this.#isLeaving, isDraining: this.#lifecycle.phase === "DRAINING" });
  }

  #retransmitDue(): void {
    const verdict = this.#lifecycle.activeSession?.retransmitDue();
    if (verdict === "gap") this.#lifecycle.endSession(1002, "a frame of the scheduler did not come in time");
    else if (verdict === "exhausted") this.#lifecycle.disconnect(1001, "the scheduler does not acknowledge work frames");
  }

  #requestFlush(): void {
    if (this.#isFlushRequested) return;
    this.#isFlushRequested = true;
    this.#ports.requestFlush();
  }

  /** Asks for a tick when the earliest due instant has come nearer; a tick that comes too early only asks again. */
  #scheduleTick(): void {
    if (this.#isClosed) return;
    const { nextHeartbeatAt: beatAt, lease } = this.#heartbeats;
    const at = Math.min(this.#lifecycle.nextDueAt, beatAt, lease.selfFenceAt, this.#attempts.nextSlotWaitEndsAt);
    if (at >= this.#tickScheduledAt) return;
    this.#tickScheduledAt = at;
    this.#ports.wakeAt(at);
  }
}
