// Handles the frames of a worker that has a session: control frames at once, work frames in order. A frame is acknowledged once the engine
// has answered the commands made from it.

import type { AttemptRef, Command, ReportErrorCommand, SendWorkerCommand } from "@astraflow/engine";
import {
  type Dialect,
  dialectOfNumber,
  type Envelope,
  Fault,
  fault,
  type NextRequestPayload,
  type PackageEventPayload,
  toFrameType,
  transportNumber,
} from "@astraflow/protocol";
import type { AnswerHandler } from "@astraflow/services";
import { type DeliveryTag, fillerFrameType } from "@astraflow/session";
import { isRetryable, toPublicFault } from "../../engine-client/public-fault.ts";
import { frameLogFields } from "../frames/frame-trace.ts";
import { salvageInvalidFrame } from "../frames/invalid-frames.ts";
import { RecentIds } from "../frames/older-dialects.ts";
import {
  controlFrameTag,
  findRunMismatch,
  type InboundWorkFrame,
  noTag,
  type ParsedWorkFrame,
  parseDispatchId,
  parseWorkFrame,
  taskFromCorr,
  toHeartbeatCommand,
  toNextCommand,
  toPackageCommand,
  toPackageOperation,
} from "../frames/work-frames.ts";
import { changeDialect } from "./dialect-change.ts";
import { publishHeartbeat } from "./heartbeat-events.ts";
import type { Session } from "./session.ts";
import type { SessionContext } from "./session-context.ts";
import { postDescription, postDialectChange } from "./session-join.ts";
import { handleRegister } from "./worker-description.ts";

/** Of a reason that a worker gives. */
const reasonCharsMax = 500;

export class InboundFrames {
  readonly #session: Session;
  readonly #context: SessionContext;
  /** Only of the dialect "first", whose sessions have one connection. */
  #recentIds: RecentIds | null = null;

  constructor(session: Session) {
    this.#session = session;
    this.#context = session.context;
  }

  handleDialectChange(dialect: Dialect): void {
    if (dialect === "first") this.#recentIds = new RecentIds();
  }

  handleFrame(envelope: Envelope, bytes: number): void {
    const { framePeer, identity } = this.#session;
    this.#context.frameTrace?.received(envelope, bytes, framePeer);
    if (identity.dialect !== "v2") this.#context.restartDetector.recordFrame(identity.worker, envelope);
    const type = this.#canonicalType(envelope);
    if (type.startsWith("control.")) this.#handleControlFrame(type, envelope, bytes);
    else this.#handleWorkFrame(type, envelope, bytes);
  }

  /** Its name in v2. */
  #canonicalType(envelope: Envelope): string {
    const { dialect } = this.#session.identity;
    return dialect === "v1" ? (toFrameType(dialect, envelope.type) ?? envelope.type) : envelope.type;
  }

  // ---- control frames

  #handleControlFrame(type: string, envelope: Envelope, bytes: number): void {
    switch (type) {
      case "control.ack":
        return this.#handleAck(envelope);
      case "control.heartbeat":
        return this.#handleHeartbeat(envelope, bytes);
      case "control.register":
        return handleRegister(this.#session, envelope, bytes);
      case "control.handshake":
      case "control.resume":
        return this.#handleRepeatedHandshake(envelope);
      default:
        return this.#refuseUnknown(envelope, controlFrameTag(envelope, bytes));
    }
  }

  /** Workers repeat their first frame when its ack is late; older ones even that of an earlier socket, and they exit on a reset. */
  #handleRepeatedHandshake(envelope: Envelope): void {
    const { identity, join, stream } = this.#session;
    const isOlder = identity.dialect !== "v2" && envelope.type !== "control.resume";
    if (isOlder || envelope.id === identity.handshakeFrameId || envelope.id === join.resumeFrameId)
      return stream.queueNamedAck(envelope.id);
    this.#session.reset(fault("E.FRAME.INVALID", `${envelope.type} is only allowed as the first frame`), envelope);
  }

  #handleHeartbeat(envelope: Envelope, bytes: number): void {
    const session = this.#session;
    const { limits } = this.#context;
    const heartbeat = session.readOrReset("control.heartbeat", envelope);
    if (heartbeat === null) return;
    const tag = controlFrameTag(envelope, bytes);
    // Some workers send heartbeats before they are accepted; there is no lease to renew yet.
    if (session.phase !== "live") return session.stream.settle(tag);
    const installed = heartbeat.packages?.installed;
    if (installed !== undefined && session.registration.updateInstalled(installed)) postDescription(session, noTag);
    // While the store stalls, earlier heartbeats still wait; this one would add nothing.
    if (session.isEnded || session.unansweredHeartbeats >= limits.unansweredHeartbeatsMax) return;
    const { resources } = heartbeat;
    if (resources?.items !== undefined) session.reportedResources = resources;
    const { reportedResources } = session;
    const isKnown = reportedResources !== undefined && resources?.hash === reportedResources.hash;
    const withResources = isKnown ? { ...heartbeat, resources: reportedResources } : heartbeat;
    const command = toHeartbeatCommand(session.origin, withResources, limits.vitalsCharsMax);
    session.unansweredBytes += tag.bytes;
    session.unansweredHeartbeats += 1;
    session.post(command, (body, why) => {
      session.unansweredBytes -= tag.bytes;
      session.unansweredHeartbeats -= 1;
      if (session.isEnded) return;
      if (why !== null) {
        this.#context.metrics.refused(session.identity.tenant, why.code);
        // One that could not be stored is not worth a session: it stays unacked, and the next one reports the same.
        if (isRetryable(why) && !why.code.startsWith("E.SESSION.")) return;
        return session.resetWithFault(why);
      }
      session.stream.settle(tag);
      // Where the session has lost its socket meanwhile, its later events say more.
      if (session.phase === "live") publishHeartbeat(this.#context, session.identity, command, body);
    });
  }

  #handleAck(envelope: Envelope): void {
    const session = this.#session;
    const ack = session.readOrReset("control.ack", envelope);
    if (ack === null) return;
    const acked = session.stream.handleAck(ack, envelope.ack?.for);
    if (acked === "unsent")
      return session.reset(fault("E.SESSION.ACK_UNSENT", "the ack names a frame that was never sent"), envelope);
    const named = envelope.ack?.for ?? ack.for;
    const refusedAttempt = ack.ok === false ? parseDispatchId(named) : null;
    const held: AttemptRef[] = [];
    for (const { send, id } of acked) {
      session.outbound.handleAcked(send);
      if (send.type === "order" && ack.ok === false && id === named) this.#handleRefusedCommand(send, ack.info);
      if (send.type === "dispatch" && (refusedAttempt === null || id !== named))
        held.push({ task: send.dispatch.task, fence: send.dispatch.fence });
    }
    const drainAck = session.outbound.takeAckedDrain(named);
    if (drainAck !== null) session.notify({ type: "worker.heard", ...session.sender, ...drainAck });
    if (held.length > 0) session.notify({ type: "task.ack", ...session.sender, held });
    if (refusedAttempt !== null) this.#handleRefusedDispatch(refusedAttempt, envelope, ack.info);
  }

  /**
   * The worker has received a dispatch and will not run it: without this the attempt would stay leased while the worker sends heartbeats.
   * The attempt is read from the name, as an earlier ack may have covered its number already.
   */
  #handleRefusedDispatch(refusedAttempt: AttemptRef, envelope: Envelope, info = "no reason given"): void {
    const session = this.#session;
    if (session.hasTooManyUnanswered("refused dispatches")) return;
    const isStillRunning = info.includes("E.CMD.CONCURRENCY_VIOLATION");
    const code = isStillRunning ? "E.CMD.CONCURRENCY_VIOLATION" : "E.RUNNER.CANCELLED";
    const reason = info.slice(0, reasonCharsMax);
    session.log("warn", "session.untaken", { ...frameLogFields(envelope), ...refusedAttempt, code, reason });
    session.outbound.withdrawDispatch(refusedAttempt);
    const message = `the worker refused the dispatch: ${reason}`;
    this.#postCommands([{ type: "task.error", ...session.sender, ...refusedAttempt, code, message }], noTag);
  }

  /** The worker cannot or will not carry out a command: nothing more will come of it, and its author should read why. */
  #handleRefusedCommand({ id, order }: SendWorkerCommand, info = "no reason given"): void {
    const details = { command: id, reason: info.slice(0, reasonCharsMax) };
    const about = { name: order.name, version: order.version ?? "*", status: "failed", details } as const;
    this.#postCommands([{ type: "worker.package", ...this.#session.sender, ...about }], noTag);
  }

  // ---- work frames, in order

  #handleWorkFrame(type: string, envelope: Envelope, bytes: number): void {
    const session = this.#session;
    if (session.identity.dialect === "undecided") this.#decideDialect(envelope);
    const { identity, stream } = session;
    if (identity.dialect === "v1" && this.#rejectWrongRunNumber(type, envelope)) return;
    const number = transportNumber(identity.dialect, envelope);
    const { id, corr } = envelope;
    // Checked before the stream sees it, which would ack a reused number as a duplicate. It is delivered without its number.
    const isRenumbered = this.#recentIds?.has(id) === false && number !== undefined && stream.hasSeen(number);
    const isAsked = envelope.ack?.request === true;
    const header = { number: isRenumbered ? undefined : number, id, corr, isAsked, bytes };
    const { verdict, deliver } = stream.receive(header, envelope, session.now());
    if (verdict !== "outside") this.#recentIds?.add(id);
    if (verdict === "repeat") return this.#context.metrics.repeated(identity.tenant, "in", 1);
    // Not acked: it comes again when there is room for it.
    if (verdict === "outside") return this.#handleBeyondWindow();
    for (const { tag, item } of deliver) {
      if (session.isEnded) return;
      this.#handleDelivered({ type: item === envelope ? type : this.#canonicalType(item), envelope: item, tag });
    }
  }

  /** The first numbered work frame shows what a worker with protocol 1 is; the row of the worker remembers it. */
  #decideDialect(envelope: Envelope): void {
    const dialect = dialectOfNumber(envelope);
    // Where control frames take numbers too, those of work frames have gaps that nothing fills.
    if (dialect === null || (dialect === "basic" && this.#session.identity.isHandshakeNumbered)) return;
    changeDialect(this.#session, dialect);
    // Before the join is stored there is nothing to change: then the description follows it.
    if (this.#session.phase === "live") postDialectChange(this.#session);
  }

  /**
   * A peer that gave frames up may never send the next one, only frames beyond the window: a gap without anything behind it. While frames
   * wait for the engine the cause is our own slowness instead.
   */
  #handleBeyondWindow(): void {
    const session = this.#session;
    const { lastSeen, counts } = session.stream;
    this.#context.metrics.refused(session.identity.tenant, "E.SESSION.WINDOW");
    if (counts.unsettled === 0 && session.stall?.at !== lastSeen) session.stall = { at: lastSeen, since: session.now() };
  }

  #rejectWrongRunNumber(type: string, envelope: Envelope): boolean {
    const { identity, connection, writer } = this.#session;
    const problem = type === "biz.exec.result" ? this.#context.runSequence.findWrongNumber(envelope, identity.worker) : null;
    if (problem === null) return false;
    this.#context.metrics.refused(identity.tenant, "E.RESULT.SEQ_GAP");
    connection?.send(writer.encodeError("E.RESULT.SEQ_GAP", problem, envelope.id));
    return true;
  }

  #handleDelivered(frame: InboundWorkFrame): void {
    const session = this.#session;
    if (frame.tag.number === null && session.hasTooManyUnanswered("frames without a number")) return;
    const parsed = parseWorkFrame(session.origin, frame.type, frame.envelope, frame.tag.bytes);
    if (parsed instanceof Fault) this.#handleInvalid(frame, parsed);
    else this.#handleParsed(parsed, frame);
  }

  #handleParsed(parsed: ParsedWorkFrame, frame: InboundWorkFrame): void {
    const session = this.#session;
    const { envelope, tag } = frame;
    switch (parsed.of) {
      case "commands":
        if (parsed.refused === undefined) return this.#postCommands(parsed.commands, tag);
        return this.#postCommands(parsed.commands, tag, this.#recordInvalid(envelope, parsed.refused));
      case "catalog":
        session.registration.replaceCatalog(parsed.catalog);
        session.recordManifests(parsed.catalog.packages);
        return postDescription(session, tag);
      case "package":
        return this.#handlePackageEvent(parsed.event, frame);
      case "error": {
        const { code, message } = parsed.error;
        session.log("warn", "session.error", { ...frameLogFields(envelope), code, message: message.slice(0, reasonCharsMax) });
        return session.stream.settle(tag);
      }
      case "gap":
        session.log("warn", "session.missing", { ...frameLogFields(envelope), code: parsed.error.code });
        session.stream.settle(tag);
        return session.resendAll();
      case "next":
        return this.#handleNextRequest(parsed.request, frame);
      case "vendor":
        return this.#handleVendorFrame(parsed.payload, frame);
      case "unknown":
        return this.#refuseUnknown(envelope, tag);
    }
  }

  #handlePackageEvent(event: PackageEventPayload, { envelope, tag }: InboundWorkFrame): void {
    const session = this.#session;
    const { op, status } = toPackageOperation(event);
    const { name, version } = event;
    this.#context.metrics.packageOp(session.identity.tenant, op, status);
    session.log("info", "session.package", { ...frameLogFields(envelope), package: name, version, status });
    this.#postCommands([toPackageCommand(session.origin, event)], tag);
  }

  /** A middleware waits for the answer: where the engine will not give one, it is given here. */
  #handleNextRequest(request: NextRequestPayload, { envelope, tag }: InboundWorkFrame): void {
    const session = this.#session;
    const { runId, middlewareId, nodeId } = request;
    const task = request.task_id ?? taskFromCorr(envelope.corr, session.identity.dialect);
    const held = session.chainAttempts.find(runId, [middlewareId, nodeId], task);
    const command = toNextCommand(session.origin, request, envelope.corr, held);
    const mismatch = command === null ? null : findRunMismatch(runId, command.task);
    if (mismatch !== null) {
      this.#refuseNextRequest(request, { code: "next_no_chain", message: mismatch.message });
      return session.stream.refuse(tag, this.#recordInvalid(envelope, mismatch));
    }
    if (command !== null) return this.#postCommands([command], tag, undefined, request);
    const message = `node ${middlewareId} of run ${runId} is not part of a middleware chain on this worker`;
    this.#refuseNextRequest(request, { code: "next_no_chain", message });
    session.stream.settle(tag);
  }

  #refuseNextRequest({ requestId, runId, middlewareId }: NextRequestPayload, error: { code: string; message: string }): void {
    const names = { ...this.#session.sender, run: runId, task: "", node: middlewareId, request: requestId };
    this.#session.outbound.enqueueNextResponse({ type: "next", ...names, result: null, error, trace: {} });
  }

  #handleVendorFrame(payload: object, { type, envelope, tag }: InboundWorkFrame): void {
    const { tenant, worker, instance } = this.#session.identity;
    const { id, corr } = envelope;
    const isTaken =
      type === fillerFrameType ||
      this.#context.extensions?.publish({ tenant, worker, instance, type, id, corr, payload }) === true;
    if (isTaken) this.#session.stream.settle(tag);
    else this.#refuseUnknown(envelope, tag);
  }

  /** An invalid payload costs its own frame and the attempt it names, never the session. */
  #handleInvalid({ type, envelope, tag }: InboundWorkFrame, why: Fault): void {
    if (why.code === "E.CMD.UNKNOWN") return this.#refuseUnknown(envelope, tag);
    const { commands, reason } = salvageInvalidFrame(this.#session.origin, type, envelope, why);
    this.#postCommands(commands, tag, this.#recordInvalid(envelope, { code: why.code, message: reason }));
  }

  /** Returns what the ack of the frame tells its sender. */
  #recordInvalid(envelope: Envelope, { code, message: reason }: { readonly code: string; readonly message: string }): string {
    const session = this.#session;
    this.#context.metrics.refused(session.identity.tenant, code);
    session.log("warn", "session.misfit", { ...frameLogFields(envelope), code, reason });
    return this.#describeRefusal({ code, message: reason }, envelope.id);
  }

  /** Why a frame is refused, for its ack. Workers of protocol 1 read no reason in an ack: they get an error frame as well. */
  #describeRefusal({ code, message }: { readonly code: string; readonly message: string }, frameId: string): string {
    const { identity, connection, writer } = this.#session;
    if (identity.dialect === "v1") connection?.send(writer.encodeError(code, message, frameId));
    return `${code}: ${message}`;
  }

  /** Never fatal: a newer worker may know more types than we do. */
  #refuseUnknown(envelope: Envelope, tag: DeliveryTag): void {
    this.#context.metrics.refused(this.#session.identity.tenant, "E.CMD.UNKNOWN");
    this.#session.stream.refuse(tag, `E.CMD.UNKNOWN: unknown frame type ${envelope.type.slice(0, 100)}`);
  }

  // ---- the engine

  /** Once the engine has answered all commands the frame is settled, or refused if there is a refusal. */
  #postCommands(commands: readonly Command[], tag: DeliveryTag, refusal?: string, nextRequest?: NextRequestPayload): void {
    const session = this.#session;
    if (commands.length === 0) return this.#settleOrRefuse(tag, refusal);
    let answersLeft = commands.length;
    let reason = refusal;
    session.countUnanswered(tag, 1);
    const onAnswer: AnswerHandler = (_body, why) => {
      answersLeft -= 1;
      if (answersLeft === 0) session.countUnanswered(tag, -1);
      if (session.isEnded) return;
      if (why !== null) {
        this.#context.metrics.refused(session.identity.tenant, why.code);
        // What was refused for good is settled; what could not be stored must come again, in a new session.
        if (isRetryable(why)) return session.resetWithFault(why);
        if (why.code === "E.RESULT.DUPLICATE") reason ??= this.#describeRefusal(why, tag.id);
        if (nextRequest !== undefined)
          this.#refuseNextRequest(nextRequest, { code: "next_unavailable", message: toPublicFault(why).message });
      }
      if (answersLeft === 0) this.#settleOrRefuse(tag, reason);
    };
    for (const command of commands) {
      const isRepeated = command.type === "task.error" && this.#isRepeatRefused(command);
      if (command.type === "task.result" || (command.type === "task.error" && !isRepeated)) session.handleAttemptEnd(command);
      session.post(isRepeated ? { ...command, isRepeated } : command, onAnswer);
    }
  }

  /** The worker refuses the key of a dispatch that it may have received twice, and runs the first. */
  #isRepeatRefused({ code, task, fence }: ReportErrorCommand): boolean {
    return code === "E.CMD.CONCURRENCY_VIOLATION" && fence !== null && this.#session.outbound.isRepeated({ task, fence });
  }

  #settleOrRefuse(tag: DeliveryTag, refusal: string | undefined): void {
    if (refusal === undefined) this.#session.stream.settle(tag);
    else this.#session.stream.refuse(tag, refusal);
  }
}
