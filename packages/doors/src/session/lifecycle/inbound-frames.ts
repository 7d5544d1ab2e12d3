// What a worker says in its session: control frames heard, work frames put in order and read, acknowledged once answered. Order and
// repeats are the stream's business, what words of work lead to is work-frame-handler.ts; how the session began and ends is in session.ts.

import type { AnswerBody, AttemptRef, FaultData, SendWorkerCommand } from "@astraflow/engine";
import { type Envelope, Fault, type FramePayloads, fault, toFrameType } from "@astraflow/protocol";
import { type DeliveryTag, fillerFrameType } from "@astraflow/session";
import { isRetryable } from "../../engine-client/public-fault.ts";
import { RecentIds } from "../frames/recent-ids.ts";
import { controlFrameTag, type UnansweredFrame } from "../frames/unanswered-frames.ts";
import { parseDispatchId, parseWorkFrame, readFramePayload, toHeartbeatCommand } from "../frames/work-frames.ts";
import { Registration } from "../registration/registration.ts";
import { publishHeartbeat } from "./heartbeat-events.ts";
import type { Session } from "./session.ts";
import { frameLogFields, type SessionContext } from "./session-context.ts";
import { WorkFrameHandler } from "./work-frame-handler.ts";

export class InboundFrames {
  readonly #session: Session;
  readonly #context: SessionContext;
  /**
   * The first generation counts anew when it hears the accept, and may have spoken before that: a number it uses twice under two ids is
   * two frames. The second is taken without its number, and both ends agree again once the count passes what was used before.
   */
  readonly #recentIds: RecentIds | null;
  readonly #workFrames: WorkFrameHandler;
  #registerFrameId: string | null = null;
  #stall: { readonly at: number; readonly since: number } | null = null;

  constructor(session: Session, context: SessionContext) {
    this.#session = session;
    this.#context = context;
    this.#workFrames = new WorkFrameHandler(session, context);
    this.#recentIds = session.identity.dialect === "first" ? new RecentIds() : null;
  }

  /** A frame on the session's socket, from whom it is bound to. */
  handleFrame(envelope: Envelope, bytes: number): void {
    this.#context.frameLog?.logReceived(envelope, this.#session.id);
    this.#context.frameTap?.publishReceived(envelope, bytes, this.#session.framePeer);
    const type = this.#canonicalType(envelope);
    const { dialect, worker } = this.#session.identity;
    if (dialect !== "v2") this.#context.restartDetector.recordFrame(worker, envelope.id);
    if (type.startsWith("control.")) this.#handleControlFrame(type, envelope, bytes);
    else this.#handleWorkFrame(type, envelope, bytes);
  }

  /** The register that the session began with: it may be repeated until it is acked. */
  rememberRegister(envelope: Envelope): void {
    this.#registerFrameId = envelope.id;
  }

  /** Its name in our own dialect, whatever it was called on the wire. */
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
        return this.#handleRegister(envelope, bytes);
      case "control.handshake":
      case "control.resume":
        return this.#handleRepeatedHandshake(envelope);
      default:
        return this.#workFrames.refuseUnknown(envelope, controlFrameTag(envelope, bytes));
    }
  }

  /**
   * Those who hear no ack in time say their first frame again. The older ones say even that of an earlier socket again, when they dialled
   * anew at once, and would die of a reset.
   */
  #handleRepeatedHandshake(envelope: Envelope): void {
    const { identity, handshake, stream } = this.#session;
    const isOlder = identity.dialect !== "v2" && envelope.type !== "control.resume";
    if (isOlder || envelope.id === identity.handshakeFrameId || envelope.id === handshake.resumeFrameId)
      return stream.queueNamedAck(envelope.id);
    this.#session.reset(fault("E.FRAME.INVALID", `${envelope.type} is only possible as the first frame`), envelope);
  }

  #handleRegister(envelope: Envelope, bytes: number): void {
    const session = this.#session;
    if (envelope.id === this.#registerFrameId) {
      // Before the join is stored the ack must not leave; then it leaves anyway.
      if (session.phase === "live") session.stream.queueNamedAck(envelope.id);
      return;
    }
    if (session.phase !== "live")
      return session.reset(fault("E.FRAME.INVALID", "register again only once the session is accepted"), envelope);
    const register = this.#readOrReset("control.register", envelope);
    if (register === null) return;
    // A register says everything anew; what an earlier catalogue said no longer counts if this one lists packages.
    const listsPackages = register.packages !== undefined || register.manifests !== undefined;
    session.registration = new Registration(register, listsPackages ? null : session.registration.catalog);
    session.recordManifests(register.manifests ?? []);
    session.resources.reconcile();
    this.#postDescription(controlFrameTag(envelope, bytes));
  }

  #handleHeartbeat(envelope: Envelope, bytes: number): void {
    const session = this.#session;
    const heartbeat = this.#readOrReset("control.heartbeat", envelope);
    if (heartbeat === null) return;
    const tag = controlFrameTag(envelope, bytes);
    // Some workers start beating before they are accepted; there is nothing to renew yet.
    if (session.phase !== "live") return session.stream.settle(tag);
    const installed = heartbeat.packages?.installed;
    if (installed !== undefined && session.registration.updateInstalled(installed)) this.#postDescription(noTag);
    // While the store stalls the older beats still wait; this one would say nothing they do not.
    if (session.isEnded || session.unanswered.heartbeats >= this.#context.limits.unansweredHeartbeatsMax) return;
    const command = toHeartbeatCommand(session.origin, heartbeat, this.#context.limits.vitalsCharsMax);
    const frame: UnansweredFrame = { kind: "beat", tag, answersLeft: 1, heartbeat: command };
    session.unanswered.add(frame);
    session.postCommand(command, frame);
  }

  #handleAck(envelope: Envelope): void {
    const session = this.#session;
    const ack = this.#readOrReset("control.ack", envelope);
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
    const { tenant, worker, session: sessionId } = session.origin;
    const drainAck = session.outbound.takeAckedDrain(named);
    if (drainAck !== null) session.postCommand({ type: "worker.heard", tenant, worker, session: sessionId, ...drainAck }, null);
    if (held.length > 0) session.postCommand({ type: "task.ack", tenant, worker, session: sessionId, held }, null);
    if (refusedAttempt !== null) this.#handleRefusedDispatch(refusedAttempt, envelope, ack.info);
  }

  /**
   * The worker has a dispatch and will not run it. Read from the name, as an earlier ack may have covered its number already: the attempt
   * goes back at once, where it would else stay leased for as long as the worker beats. What it no longer holds, the engine knows.
   */
  #handleRefusedDispatch(refusedAttempt: AttemptRef, envelope: Envelope, info = "the worker did not say why"): void {
    const session = this.#session;
    if (session.unanswered.unnumbered >= this.#context.limits.unnumberedMax)
      return session.reset(fault("E.OVERLOADED", "too many refusals of dispatches wait for an answer"));
    const isStillRunning = info.includes("E.CMD.CONCURRENCY_VIOLATION");
    const code = isStillRunning ? "E.CMD.CONCURRENCY_VIOLATION" : "E.RUNNER.CANCELLED";
    session.log("warn", "session.untaken", { ...frameLogFields(envelope), ...refusedAttempt, code, reason: info.slice(0, 500) });
    session.outbound.withdrawDispatch(refusedAttempt);
    const { tenant, worker, session: sessionId } = session.origin;
    const message = `the worker refused the dispatch: ${info.slice(0, 500)}`;
    this.#workFrames.postCommands(
      [{ type: "task.error", tenant, worker, session: sessionId, ...refusedAttempt, code, message }],
      noTag,
    );
  }

  /** It does not know how, or will not: nothing more will come of the command, and whoever gave it should read why. */
  #handleRefusedCommand({ id, order }: SendWorkerCommand, info = "the worker did not say why"): void {
    const { tenant, worker, session } = this.#session.origin;
    const details = { command: id, reason: info.slice(0, 500) };
    const about = { name: order.name, version: order.version ?? "*", status: "failed", details } as const;
    this.#workFrames.postCommands([{ type: "worker.package", tenant, worker, session, ...about }], noTag);
  }

  // ---- work frames

  #handleWorkFrame(type: string, envelope: Envelope, bytes: number): void {
    const session = this.#session;
    const { identity } = session;
    if (identity.dialect === "v1" && this.#rejectWrongRunNumber(type, envelope)) return;
    const number = identity.dialect === "v2" ? envelope.seq : envelope.session_seq;
    const { id, corr } = envelope;
    // Asked before it arrives: as a repeat of another frame it would be acked by name before its own word is stored.
    const isRenumbered = this.#recentIds?.has(id) === false && number !== undefined && session.stream.hasSeen(number);
    const isAsked = envelope.ack?.request === true;
    const frame = { number: isRenumbered ? undefined : number, id, corr, isAsked, bytes };
    const { verdict, deliver } = session.stream.receive(frame, envelope, this.#context.environment.clock.monotonic());
    if (verdict !== "outside") this.#recentIds?.add(id);
    if (verdict === "repeat") return this.#context.metrics.repeated(identity.tenant, "in", 1);
    // Not acked: it comes again when there is room for it.
    if (verdict === "outside") return this.#handleBeyondWindow();
    for (const { tag, item } of deliver) {
      if (session.isEnded) return;
      this.#handleDelivered(item === envelope ? type : this.#canonicalType(item), item, tag);
    }
  }

  /**
   * A peer that gave frames up may never send the next one, only such as lie beyond the window: a hole without anything behind it.
   * While frames wait for the engine it is our own slowness instead.
   */
  #handleBeyondWindow(): void {
    const { stream, identity } = this.#session;
    this.#context.metrics.refused(identity.tenant, "E.SESSION.WINDOW");
    if (stream.counts.unsettled > 0 || this.#stall?.at === stream.lastSeen) return;
    this.#stall = { at: stream.lastSeen, since: this.#context.environment.clock.monotonic() };
  }

  /** Since when nothing but frames beyond the window came; Infinity where that is not so. */
  get stalledSince(): number {
    return this.#stall?.at === this.#session.stream.lastSeen ? this.#stall.since : Number.POSITIVE_INFINITY;
  }

  /** A new socket may bring what was missing. */
  clearStall(): void {
    this.#stall = null;
  }

  /**
   * v1 numbers what it says by run. Only a number that this worker was never sent is answered: results of one run come from
   * several workers and in any order.
   */
  #rejectWrongRunNumber(type: string, envelope: Envelope): boolean {
    const session = this.#session;
    const { seq, payload } = envelope;
    const run = payload["run_id"];
    if (type !== "biz.exec.result" || seq === undefined || typeof run !== "string") return false;
    if (!this.#context.runSequence.isKnownWrong(run, seq, session.identity.worker)) return false;
    this.#context.metrics.refused(session.identity.tenant, "E.RESULT.SEQ_GAP");
    const message = `number ${seq} of run ${run} was never dispatched to this worker; send again from the last acknowledged one`;
    session.connection?.send(session.writer.encodeError("E.RESULT.SEQ_GAP", message, envelope.id));
    return true;
  }

  #handleDelivered(type: string, envelope: Envelope, tag: DeliveryTag): void {
    const session = this.#session;
    if (session.phase === "describing") return this.#handleInventory(type, envelope, tag);
    if (tag.number === null && session.unanswered.unnumbered >= this.#context.limits.unnumberedMax)
      return session.reset(fault("E.OVERLOADED", "too many frames without a number wait for an answer"));
    const parsed = parseWorkFrame(session.origin, type, envelope, tag.bytes);
    if (parsed instanceof Fault) return this.#workFrames.handleInvalid(type, envelope, tag, parsed);
    if (parsed.of !== "catalog") return this.#workFrames.handle(parsed, type, envelope, tag);
    session.registration.replaceCatalog(parsed.catalog);
    session.recordManifests(parsed.catalog.packages);
    this.#postDescription(tag);
  }

  // ---- the inventory

  #handleInventory(type: string, envelope: Envelope, tag: DeliveryTag): void {
    const session = this.#session;
    const { registration } = session;
    if (type === "biz.pkg.catalog") {
      const catalog = readFramePayload(session.identity, type, envelope);
      if (catalog instanceof Fault) return this.#workFrames.handleInvalid(type, envelope, tag, catalog);
      registration.catalog = catalog;
      session.recordManifests(catalog.packages);
    } else if (type === "biz.exec.inventory") {
      const inventory = readFramePayload(session.identity, type, envelope);
      if (inventory instanceof Fault) return this.#workFrames.handleInvalid(type, envelope, tag, inventory);
      registration.inventory = inventory;
    } else if (type !== fillerFrameType) {
      const why = fault("E.SESSION.NOT_REGISTERED", "catalogue and inventory must come before other work frames");
      return session.reset(why, envelope);
    }
    if (session.handshake.settleAfterJoin(tag) > this.#context.limits.unnumberedMax + this.#context.limits.wideRecvWindow)
      return session.reset(fault("E.OVERLOADED", "too many frames wait for the rest of the inventory"));
    if (registration.isComplete(session.identity)) session.connection?.startJoin();
  }

  #postDescription(tag: DeliveryTag): void {
    const session = this.#session;
    if (session.unanswered.unnumbered >= this.#context.limits.unnumberedMax)
      return session.reset(fault("E.OVERLOADED", "too many descriptions wait for an answer"));
    const why = session.registration.sizeFault(session.identity);
    if (why !== null) return session.reset(why);
    const frame: UnansweredFrame = { kind: "describe", tag, answersLeft: 1 };
    session.unanswered.add(frame);
    session.postCommand(session.registration.buildDescribe(session.identity, session.origin), frame);
  }

  // ---- what the engine answered

  handleAnswer(frame: UnansweredFrame, body: AnswerBody | null, why: FaultData | null): void {
    const session = this.#session;
    const isLast = session.unanswered.recordAnswer(frame);
    if (session.isEnded) return;
    if (why !== null) {
      this.#context.metrics.refused(session.identity.tenant, why.code);
      const isSessionGone = why.code.startsWith("E.SESSION.") && frame.kind !== "word";
      // A beat that could not be stored is not worth a session: the next one says as much, and this one stays unacked.
      if (frame.kind === "beat" && !isSessionGone && isRetryable(why)) return;
      // A word that was refused for good is settled; one that could not be stored must come again, in a new session.
      if (frame.kind !== "word" || isRetryable(why)) return session.resetWithFault(why);
      this.#workFrames.handleRefusal(frame, why);
    }
    if (isLast) this.#workFrames.settleOrRefuse(frame.tag, frame.refusal);
    // Of a session that has lost its socket meanwhile the log says more, and later.
    if (frame.heartbeat !== undefined && why === null && session.phase === "live")
      publishHeartbeat(this.#context, session.identity, frame.heartbeat, body);
  }

  #readOrReset<T extends ControlFrameRead>(type: T, envelope: Envelope): FramePayloads[T] | null {
    const payload = readFramePayload(this.#session.identity, type, envelope);
    if (!(payload instanceof Fault)) return payload;
    this.#session.reset(payload, envelope);
    return null;
  }
}

type ControlFrameRead = "control.register" | "control.heartbeat" | "control.ack";

/** For words of ours that no frame waits on. */
const noTag: DeliveryTag = { number: null, id: "", isAsked: false, bytes: 0 };
