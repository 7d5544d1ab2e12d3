// The attempts that a worker holds, and the messages about them that are not acked yet. They outlive connections and sessions.

import type {
  AckPayload,
  CancelPayload,
  DispatchPayload,
  Fault,
  FaultCode,
  HeldTaskRef,
  JsonObject,
  OutgoingFrame,
  PackageEventPayload,
  PkgCatalogPayload,
  PkgUninstallPayload,
  ResetPayload,
} from "@astraflow/protocol";
import type { FeedbackInput } from "@astraflow/sdk";
import type { SentFrame } from "@astraflow/session";
import { type DispatchFrame, type LocalAttempt, restoreAttempt } from "../attempts/attempt.ts";
import { AttemptTable } from "../attempts/attempt-table.ts";
import { FeedbackBuffer } from "../attempts/feedback.ts";
import { type AttemptIdentity, type AttemptOutcome, encodeOutcome, errorOutcome } from "../attempts/outcome.ts";
import type { OutgoingVendorFrame } from "../handlers/vendor-frames.ts";
import { Outbox, type OutboxMessage, type OutboxStream } from "../outbox/outbox.ts";
import type { JournaledOutcome } from "../outbox/outbox-journal.ts";
import type { ResourceRemovedReason } from "../resources/resource.ts";
import type { LinkContext } from "./link-context.ts";
import type { InventoryAttempt, WorkCounts } from "./link-ports.ts";
import { PendingMiddlewareCalls } from "./pending-middleware-calls.ts";
import { RemovedResourceReports } from "./removed-resources.ts";

interface Refusal {
  readonly code: FaultCode;
  readonly message: string;
  readonly fence: number | undefined;
  readonly where?: string;
}

export class AttemptManager {
  readonly #context: LinkContext;
  readonly #attempts: AttemptTable;
  readonly #outbox: Outbox;
  readonly #feedbackBuffer = new FeedbackBuffer();
  /** Calls of `next` that middlewares wait for; they take no slot meanwhile. */
  readonly nextCalls: PendingMiddlewareCalls;
  /** Outcomes that are known and not on disk yet, so not to be sent yet; and how many there ever were. */
  #unpersistedCount = 0;
  #outcomeCount = 0;
  readonly #removedResources: RemovedResourceReports;
  /** By the id of the frame that ended it. */
  readonly #packageEvents = new Map<string, string>();

  constructor(context: LinkContext) {
    const { settings, writer, requestFlush } = context;
    this.#context = context;
    this.#attempts = new AttemptTable({ ...settings.attemptTable, slotsMax: context.slotsMax });
    this.#outbox = new Outbox(settings.outbox);
    this.#removedResources = new RemovedResourceReports((payload) => {
      const id = writer.nextId();
      this.#outbox.addMessage({ kind: "removed", type: "biz.resource.removed", id, corr: undefined, payload });
    });
    this.nextCalls = new PendingMiddlewareCalls({
      nextFrameId: () => writer.nextId(),
      sendRequest: ({ id, task, payload }) => {
        this.#outbox.addMessage({ kind: "next", type: "biz.exec.next.request", id, corr: task, payload });
        requestFlush();
      },
      suspendAttempt: (attempt) => {
        for (const other of this.#attempts.suspendAttempt(attempt)) this.#startHandler(other);
      },
      resumeAttempt: (attempt, calls) => this.#attempts.resumeAttempt(attempt, calls),
    });
  }

  /** No attempt is held, no handler runs, no message is unacked. */
  get isIdle(): boolean {
    return this.#attempts.heldCount === 0 && this.#attempts.occupiedSlots === 0 && this.#unackedCount === 0;
  }

  get counts(): WorkCounts {
    const outbox = this.#outbox.outcomeCount + this.#unpersistedCount;
    return { held: this.#attempts.heldCount, occupied: this.#attempts.occupiedSlots, unacked: this.#unackedCount, outbox };
  }

  get #unackedCount(): number {
    return this.#outbox.messageCount + this.#unpersistedCount;
  }

  /** Exactly the attempts this worker answers for, as register and heartbeat name them. */
  held(): HeldTaskRef[] {
    return this.#attempts.heldAttempts();
  }

  /** The same for people: what became of each, and for how long it has been here. */
  inventory(now: number): InventoryAttempt[] {
    return this.#attempts.listAttempts().map(({ run, task, dispatch, fence, phase, acceptedAt: takenAt }) => {
      return { run, task, node: dispatch.node_id, fence, phase, ageMs: Math.max(0, Math.round(now - takenAt)) };
    });
  }

  get nextSlotWaitEndsAt(): number {
    return this.#attempts.nextSlotWaitEndsAt;
  }

  /** Outcomes that an earlier process left on disk: they are held like outcomes of this one, and sent as soon as there is a session. */
  restoreOutcomes(restored: readonly JournaledOutcome[]): void {
    // An outcome that the scheduler could not read may have stayed on disk beside its replacement.
    const last = new Map(restored.map((outcome) => [`${outcome.task} ${outcome.fence}`, outcome.key]));
    for (const { key, type, id, run, task, node, fence, payload } of restored) {
      if (last.get(`${task} ${fence}`) !== key) {
        this.#context.durableOutbox?.remove(key);
        continue;
      }
      const attempt = restoreAttempt({ run, task, node, fence }, this.#context.ports.now());
      this.#attempts.restoreFinished(attempt);
      this.#outbox.addMessage({ kind: "outcome", type, id, corr: task, payload, attempt, key });
    }
  }

  // ---- frames of the scheduler

  handleDispatch(dispatch: DispatchPayload, frame: DispatchFrame): void {
    const decision = this.#attempts.admitDispatch(dispatch, this.#context.ports.now(), frame);
    switch (decision.verdict) {
      case "start":
      case "wait":
        if (decision.superseded) this.#stopHandler(decision.superseded, "a newer attempt of the task was granted");
        if (decision.verdict === "start") this.#startHandler(decision.attempt);
        return;
      case "repeat":
        return;
      case "stale": {
        const { fence, knownFence: known } = decision;
        const message = `fence ${fence} is stale: this worker already knows fence ${known} of the task`;
        this.#sendRefusal(dispatch, frame, { code: "E.SESSION.STALE_BINDING", message, fence });
        return;
      }
      case "key-taken": {
        const message = `concurrency key ${decision.keyHolder.concurrencyKey} is held by task ${decision.keyHolder.task}`;
        const { fence } = decision;
        this.#sendRefusal(dispatch, frame, { code: "E.CMD.CONCURRENCY_VIOLATION", message, fence, where: "worker.concurrency" });
        return;
      }
      case "full": {
        const { fence } = decision;
        const message = "all slots are occupied";
        this.#sendRefusal(dispatch, frame, { code: "E.RUNNER.CANCELLED", message, fence, where: "worker.concurrency" });
      }
    }
  }

  /** While no new work is taken only the repeat of what is already held is fine; anything else goes back to the scheduler. */
  refuseDispatch(dispatch: DispatchPayload, frame: DispatchFrame, why: string): void {
    if (this.#attempts.findAttempt(dispatch.task_id, dispatch.fence) !== undefined) return;
    this.#sendRefusal(dispatch, frame, { code: "E.RUNNER.CANCELLED", message: why, fence: dispatch.fence });
  }

  /** A dispatch that cannot be read still deserves an answer, or it would be sent again and again. */
  refuseUnreadableDispatch(dispatch: JsonObject, frame: DispatchFrame, { message }: Fault): boolean {
    const { run_id, task_id, node_id, fence } = dispatch;
    if (typeof run_id !== "string" || typeof task_id !== "string") return false;
    const about = { run_id, task_id, node_id: typeof node_id === "string" ? node_id : "" };
    const known = typeof fence === "number" ? fence : undefined;
    this.#sendRefusal(about, frame, { code: "E.FRAME.INVALID", message, fence: known });
    return true;
  }

  refusePackageCommand({ name, version = "*", command_id }: PkgUninstallPayload, frame: DispatchFrame): void {
    const { type, id, seq } = frame;
    const code: FaultCode = "E.CMD.UNKNOWN";
    const reason = `this worker does not install packages; start it with --package-keys to let its scheduler bring them`;
    const details = { type, id, corr: command_id ?? id, seq, package: name, version, code };
    this.#context.log("warn", "package-refused", reason, details);
    const named = command_id === undefined ? {} : { command_id };
    this.sendPackageEvent({ name, version, status: "failed", ...named, details: { reason, code } }, null);
  }

  /** `command`: it is over with this event; whoever took it is told when the scheduler has it. */
  sendPackageEvent(event: PackageEventPayload, command: string | null): void {
    const id = this.#context.writer.nextId();
    if (command !== null) this.#packageEvents.set(id, command);
    this.#addPackageMessage("biz.pkg.event", id, event.command_id, event);
  }

  /** Everything that is installed, with its manifests. */
  sendCatalog(catalog: PkgCatalogPayload): void {
    this.#addPackageMessage("biz.pkg.catalog", this.#context.writer.nextId(), undefined, catalog);
  }

  #addPackageMessage(type: "biz.pkg.event" | "biz.pkg.catalog", id: string, corr: string | undefined, payload: object): void {
    this.#outbox.addMessage({ kind: "package", type, id, corr, payload: JSON.stringify(payload) });
    this.#context.requestFlush();
  }

  /** Whether an attempt runs, or waits to run, a node of this version. */
  hasAttemptsOf(name: string, version: string): boolean {
    return this.#attempts
      .listAttempts()
      .some(
        ({ phase, dispatch }) => phase !== "finished" && dispatch.package_name === name && dispatch.package_version === version,
      );
  }

  handleCancel({ task_id, fence, reason }: CancelPayload): void {
    const attempt = this.#attempts.findAttempt(task_id, fence);
    if (attempt !== undefined) this.#discardAttempt(attempt, reason ?? "cancelled by the scheduler");
  }

  /** False: it names what never left. */
  handleAck(ack: AckPayload, envelopeFor: string | undefined): boolean {
    const settled = this.#outbox.handleAck(ack, envelopeFor);
    if (settled === "unsent") return false;
    for (const { attempt, key, kind, id } of settled) {
      if (kind === "next") this.nextCalls.markAcked(id);
      if (kind === "package") this.#handlePackageEventAcked(id);
      if (attempt !== null) this.#attempts.removeAttempt(attempt);
      if (key !== null) this.#context.durableOutbox?.remove(key);
    }
    return true;
  }

  #handlePackageEventAcked(id: string): void {
    const command = this.#packageEvents.get(id);
    if (command === undefined) return;
    this.#packageEvents.delete(id);
    this.#context.ports.packageCommands?.eventAcked(command);
  }

  /** The scheduler could not read a frame of ours and ended the session. Sent again as it is, it would end the next one too. */
  isolateRejectedMessage(reset: ResetPayload): void {
    const rejected = this.#outbox.isolateRejected();
    if (rejected === undefined) return;
    this.#context.log("error", "word-condemned", `the scheduler cannot read ${rejected.type} ${rejected.id}: ${reset.reason}`, {
      code: reset.code,
    });
    if (rejected.kind === "next") this.nextCalls.failCall(rejected.id, `the scheduler could not read the call: ${reset.reason}`);
    if (rejected.attempt === null) return;
    const message = `the scheduler could not read the outcome of this task: ${reset.reason}`;
    this.#persistOutcome(rejected.attempt, errorOutcome(message, "worker.link"));
    if (rejected.key !== null) this.#context.durableOutbox?.remove(rejected.key);
  }

  // ---- the runner

  /** The outcome of an attempt is known. It is dropped where the attempt is no longer wanted. */
  handleOutcome(attempt: LocalAttempt, outcome: AttemptOutcome): void {
    if (attempt.phase !== "running") return;
    this.#markFinished(attempt);
    this.#persistOutcome(attempt, outcome);
  }

  handleHandlerReturned(attempt: LocalAttempt): void {
    for (const next of this.#attempts.releaseSlot(attempt)) this.#startHandler(next);
  }

  handleFeedback(attempt: LocalAttempt, input: FeedbackInput): void {
    if (attempt.phase !== "running") return;
    for (const payload of this.#feedbackBuffer.add(attempt, input)) this.#queueFeedback(attempt, payload);
    this.#context.requestFlush();
  }

  // ---- the clock and the operator

  expireSlotWaits(now: number): void {
    for (const attempt of this.#attempts.expireSlotWaits(now)) {
      const message = "no slot became free in time; a stopped task still occupies one";
      const { dispatch, frame, fence } = attempt;
      this.#sendRefusal(dispatch, frame, { code: "E.RUNNER.CANCELLED", message, fence, where: "worker.concurrency" });
    }
  }

  /** Drops all attempts whose handler runs or waits to run, without a message. Known outcomes stay. Gives their number. */
  discardUnfinished(reason: string): number {
    const lost = this.#attempts.unfinishedAttempts();
    for (const attempt of lost) this.#discardAttempt(attempt, reason);
    return lost.length;
  }

  /** Stops all unfinished attempts and gives them back to the scheduler. */
  returnUnfinished(reason: string): void {
    for (const attempt of this.#attempts.unfinishedAttempts()) {
      // The scheduler repeats a task that had begun only where that does no harm.
      const where = attempt.phase === "running" ? "worker.runner" : "worker.link";
      this.#markFinished(attempt);
      // Not kept on disk: nothing was achieved, and what is given back must leave before the worker does.
      this.#queueOutcome(attempt, errorOutcome(reason, where, "E.RUNNER.CANCELLED"), attempt);
      this.#stopHandler(attempt, reason);
    }
  }

  /** Sent after every outcome that may name the resource: the scheduler must know a resource before it learns that it is gone. */
  reportRemovedResource(resource: string, reason: ResourceRemovedReason): void {
    this.#removedResources.add({ resource_id: resource, reason }, this.#outcomeCount);
    this.#context.requestFlush();
  }

  /** Sends a package's frame to the subscribers at the scheduler. False: too many vendor frames are unacked. */
  sendVendorFrame({ type, id, corr, payload }: OutgoingVendorFrame): boolean {
    if (!this.#outbox.hasRoomForVendorFrame(payload.length)) return false;
    const name = type as OutgoingFrame["type"];
    this.#outbox.addMessage({ kind: "ext", type: name, id: id ?? this.#context.writer.nextId(), corr, payload });
    this.#context.requestFlush();
    return true;
  }

  // ---- sending

  /** A new session: its stream takes all that was not acked. */
  attachStream(stream: OutboxStream): void {
    this.#outbox.attachStream(stream);
    this.nextCalls.resendUnanswered();
  }

  /** The session is over: nothing that was sent in it counts as received unless it was acked. */
  detachStream(): void {
    this.#outbox.detachStream();
  }

  /** Hands every frame that may leave to `send`, for as long as that takes more. */
  sendPending(send: (sent: SentFrame<OutboxMessage>) => boolean): void {
    this.#removedResources.sendDue(this.#outcomeCount - this.#unpersistedCount);
    if (this.#feedbackBuffer.size > 0 && this.#outbox.hasRoomForFeedback) {
      for (const attempt of this.#feedbackBuffer.attemptsWithFeedback())
        this.#queueFeedback(attempt, this.#feedbackBuffer.take(attempt));
    }
    this.#outbox.sendPending(this.#context.ports.now(), () => this.#context.writer.nextId(), send);
  }

  #startHandler(attempt: LocalAttempt): void {
    attempt.startedAt = this.#context.ports.now();
    this.#context.ports.startHandler(attempt);
  }

  #markFinished(attempt: LocalAttempt): void {
    // Its own last feedback goes before its result; feedback of others may wait behind it.
    const lastFeedback = this.#feedbackBuffer.take(attempt);
    if (lastFeedback !== undefined) this.#queueFeedback(attempt, lastFeedback, true);
    this.nextCalls.cancelCallsOf(attempt);
    this.#attempts.markFinished(attempt);
  }

  /** An outcome that must not be lost: where there is a disk, it is there before it is sent. */
  #persistOutcome(attempt: LocalAttempt, outcome: AttemptOutcome): void {
    const { durableOutbox } = this.#context;
    if (durableOutbox === null) return this.#queueOutcome(attempt, outcome, attempt);
    const { run, task, fence } = attempt;
    const { frameType: type, payload } = encodeOutcome(attempt, outcome);
    const id = this.#context.writer.nextId();
    this.#unpersistedCount++;
    this.#outcomeCount++;
    const key: number = durableOutbox.persist({ type, id, run, task, node: attempt.dispatch.node_id, fence, payload }, () => {
      this.#removedResources.sendDue(this.#outcomeCount - this.#unpersistedCount);
      this.#unpersistedCount--;
      this.#outbox.addMessage({ kind: "outcome", type, id, corr: task, payload, attempt, key });
      this.#context.requestFlush();
    });
  }

  #sendRefusal(
    dispatch: Pick<DispatchPayload, "run_id" | "task_id" | "node_id">,
    frame: DispatchFrame | null,
    { code, message, fence = 0, where = "worker.link" }: Refusal,
  ): void {
    const about = { run: dispatch.run_id, task: dispatch.task_id, fence, dispatch };
    const named = frame === null ? {} : { type: frame.type, id: frame.id, seq: frame.seq };
    this.#context.log("warn", "attempt-refused", message, { ...named, corr: about.task, task: about.task, fence, code });
    this.#queueOutcome(about, errorOutcome(message, where, code), null);
  }

  #queueOutcome(about: AttemptIdentity, outcome: AttemptOutcome, attempt: LocalAttempt | null): void {
    const { frameType: type, payload } = encodeOutcome(about, outcome);
    this.#removedResources.sendDue(this.#outcomeCount - this.#unpersistedCount);
    this.#outbox.addMessage({ kind: "outcome", type, id: this.#context.writer.nextId(), corr: about.task, payload, attempt });
    this.#context.requestFlush();
  }

  #queueFeedback(attempt: LocalAttempt, payload: string | undefined, isUrgent = false): void {
    if (payload === undefined) return;
    const names = { type: "biz.exec.feedback", id: this.#context.writer.nextId(), corr: attempt.task } as const;
    const dropped = this.#outbox.addMessage({ kind: "feedback", ...names, payload, isUrgent });
    if (dropped === undefined) return;
    this.#context.log("warn", "feedback-dropped", "too much feedback is waiting; the oldest was dropped", { task: dropped.corr });
  }

  /** The attempt is no longer this worker's: its outcome is not sent. */
  #discardAttempt(attempt: LocalAttempt, reason: string): void {
    if (attempt.phase === "finished") return; // its outcome is on the way; the scheduler will find it stale and ack it
    this.#attempts.discardAttempt(attempt);
    this.#stopHandler(attempt, reason);
  }

  #stopHandler(attempt: LocalAttempt, reason: string): void {
    this.#feedbackBuffer.discard(attempt);
    this.nextCalls.cancelCallsOf(attempt);
    this.#context.log("info", "attempt-stopped", reason, { task: attempt.task, fence: attempt.fence });
    attempt.stopSignal.stop(new Error(reason));
  }
}
