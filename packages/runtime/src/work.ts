// The work of a session worker, whatever the state of its session: attempts it holds, and the words about them that are not acked yet.
// It outlives connections and sessions. Phases, heartbeats and the numbers of frames are the business of link.ts and packages/session.

import type {
  AckPayload,
  CancelPayload,
  DispatchPayload,
  Fault,
  FaultCode,
  JsonObject,
  OutgoingFrame,
  PkgEventPayload,
  PkgUninstallPayload,
  ResetPayload,
} from "@astraflow/protocol";
import type { Sent } from "@astraflow/session";
import { type Attempt, recallAttempt } from "./attempt.ts";
import { AttemptTable, type HeldAttempt, type TableSettings } from "./attempt-table.ts";
import { Calls } from "./calls.ts";
import { FeedbackDrafts, type FeedbackInput } from "./feedback.ts";
import type { ExtWord, InventoryAttempt, LinkEvent, LinkNote, WorkCounts } from "./link-ports.ts";
import { makeWord, Outbox, type OutboxSettings, type Word, type WordStream } from "./outbox.ts";
import type { KeptWord } from "./outbox-journal.ts";
import type { Keeping } from "./outbox-keeper.ts";
import { type AboutAttempt, encodeOutcome, failure, type Outcome } from "./outcome.ts";
import { RemovedResources } from "./removed-resources.ts";
import type { RemovedReason } from "./resource.ts";

export interface WorkPorts {
  now(): number;
  /** Calls the handler of an attempt that has a slot. */
  start(attempt: Attempt): void;
  nextId(): string;
  /** The outbox on disk; null where results are kept in memory only. */
  readonly keeping: Keeping | null;
  /** Something new may be sent. */
  askFlush(): void;
  note(level: LinkNote["level"], event: LinkEvent, message: string, details?: Readonly<Record<string, unknown>>): void;
}

export class Work {
  readonly #ports: WorkPorts;
  readonly #table: AttemptTable;
  readonly #outbox: Outbox;
  readonly #drafts = new FeedbackDrafts();
  /** What middlewares have asked for and wait for; they take no slot meanwhile. */
  readonly calls: Calls;
  /** Outcomes that are known and not on disk yet, so not to be sent yet; and how many there ever were. */
  #unkept = 0;
  #concluded = 0;
  readonly #removed: RemovedResources;

  constructor(ports: WorkPorts, settings: { table: TableSettings; outbox: OutboxSettings }) {
    this.#ports = ports;
    this.#table = new AttemptTable(settings.table);
    this.#outbox = new Outbox(settings.outbox);
    this.#removed = new RemovedResources((payload) => {
      const id = ports.nextId();
      this.#outbox.put(makeWord({ kind: "removed", type: "biz.resource.removed", id, corr: undefined, payload }));
    });
    this.calls = new Calls({
      nextId: () => ports.nextId(),
      say: ({ id, task, payload }) => {
        this.#outbox.put(makeWord({ kind: "next", type: "biz.exec.next.request", id, corr: task, payload }));
        ports.askFlush();
      },
      rest: (attempt) => {
        for (const other of this.#table.rest(attempt)) ports.start(other);
      },
      wake: (attempt, calls) => this.#table.wake(attempt, calls),
    });
  }

  /** Nothing is held, no handler is out, nothing is left to say. */
  get isDone(): boolean {
    return this.#table.heldCount === 0 && this.#table.occupied === 0 && this.#unacked === 0;
  }

  get counts(): WorkCounts {
    const outbox = this.#outbox.outcomes + this.#unkept;
    return { held: this.#table.heldCount, occupied: this.#table.occupied, unacked: this.#unacked, outbox };
  }

  get #unacked(): number {
    return this.#outbox.size + this.#unkept;
  }

  /** Exactly the attempts this worker answers for, as register and heartbeat name them. */
  held(): HeldAttempt[] {
    return this.#table.held();
  }

  /** The same for people: what became of each, and for how long it has been here. */
  inventory(now: number): InventoryAttempt[] {
    return this.#table.all().map(({ run, task, dispatch, fence, phase, takenAt }) => {
      return { run, task, node: dispatch.node_id, fence, phase, ageMs: Math.max(0, Math.round(now - takenAt)) };
    });
  }

  /** When `expireWaiting` has something to do. */
  get waitEndsAt(): number {
    return this.#table.waitEndsAt;
  }

  /** Outcomes that an earlier process has left on disk: they are held, as if finished here, and said as soon as there is a session. */
  recall(left: readonly KeptWord[]): void {
    // A word that was condemned and replaced may have stayed on disk beside its replacement.
    const last = new Map(left.map((word) => [`${word.task} ${word.fence}`, word.key]));
    for (const { key, type, id, run, task, node, fence, payload } of left) {
      if (last.get(`${task} ${fence}`) !== key) {
        this.#ports.keeping?.forget(key);
        continue;
      }
      const attempt = recallAttempt({ run, task, node, fence }, this.#ports.now());
      this.#table.adopt(attempt);
      this.#outbox.put(makeWord({ kind: "outcome", type, id, corr: task, payload, attempt, key }));
    }
  }

  // ---- what the scheduler says

  takeDispatch(dispatch: DispatchPayload): void {
    const offer = this.#table.offer(dispatch, this.#ports.now());
    switch (offer.verdict) {
      case "start":
      case "wait":
        if (offer.superseded) this.#abort(offer.superseded, "a newer attempt of the task was granted");
        if (offer.verdict === "start") this.#ports.start(offer.attempt);
        return;
      case "repeat":
        return;
      case "stale": {
        const { fence, known } = offer;
        this.#refuse(
          dispatch,
          fence,
          "E.SESSION.STALE_BINDING",
          `fence ${fence} is not above ${known}, which is already known here`,
        );
        return;
      }
      case "key-taken": {
        const message = `concurrency key ${offer.by.key} is held by task ${offer.by.task}`;
        this.#refuse(dispatch, offer.fence, "E.CMD.CONCURRENCY_VIOLATION", message, "worker.concurrency");
        return;
      }
      case "full":
        this.#refuse(dispatch, offer.fence, "E.RUNNER.CANCELLED", "all slots are occupied", "worker.concurrency");
    }
  }

  /** While no new work is taken only the repeat of what is already held is fine; anything else goes back to the scheduler. */
  turnAway(dispatch: DispatchPayload, why: string): void {
    if (this.#table.find(dispatch.task_id, dispatch.fence) !== undefined) return;
    this.#refuse(dispatch, dispatch.fence, "E.RUNNER.CANCELLED", why);
  }

  /** A dispatch that cannot be read still deserves an answer, or it would be sent again and again. */
  refuseUnread(dispatch: JsonObject, problem: Fault): boolean {
    const { run_id, task_id, node_id, fence } = dispatch;
    if (typeof run_id !== "string" || typeof task_id !== "string") return false;
    const about = { run_id, task_id, node_id: typeof node_id === "string" ? node_id : "" };
    this.#refuse(about, typeof fence === "number" ? fence : undefined, "E.FRAME.INVALID", problem.message);
    return true;
  }

  refusePackage({ name, version = "*", command_id }: PkgUninstallPayload, reason: string): void {
    const named = command_id === undefined ? {} : { command_id };
    const payload = JSON.stringify({ name, version, status: "failed", ...named, details: { reason } } satisfies PkgEventPayload);
    this.#outbox.put(makeWord({ kind: "package", type: "biz.pkg.event", id: this.#ports.nextId(), corr: command_id, payload }));
    this.#ports.askFlush();
  }

  cancel({ task_id, fence, reason }: CancelPayload): void {
    const attempt = this.#table.find(task_id, fence);
    if (attempt !== undefined) this.#drop(attempt, reason ?? "cancelled by the scheduler");
  }

  /** False: it names what never left. */
  acked(ack: AckPayload, envelopeFor: string | undefined): boolean {
    const settled = this.#outbox.acked(ack, envelopeFor);
    if (settled === "unsent") return false;
    for (const { attempt, key, kind, id } of settled) {
      if (kind === "next") this.calls.acked(id);
      if (attempt !== null) this.#table.release(attempt);
      if (key !== null) this.#ports.keeping?.forget(key);
    }
    return true;
  }

  /** The scheduler could not read a frame of ours and ended the session. Sent again as it is, it would end the next one too. */
  distrust(reset: ResetPayload): void {
    const word = this.#outbox.distrust();
    if (word === undefined) return;
    this.#ports.note("error", "word-condemned", `the scheduler cannot read ${word.type} ${word.id}: ${reset.reason}`, {
      code: reset.code,
    });
    if (word.kind === "next") this.calls.failed(word.id, `the scheduler could not read the call: ${reset.reason}`);
    if (word.attempt === null) return;
    const message = `the scheduler could not read the outcome of this task: ${reset.reason}`;
    this.#conclude(word.attempt, failure(message, "worker.link"));
    if (word.key !== null) this.#ports.keeping?.forget(word.key);
  }

  // ---- what the executor says

  /** The outcome of an attempt is known. What nobody wants any more is not said. */
  finished(attempt: Attempt, outcome: Outcome): void {
    if (attempt.phase !== "running") return;
    this.#finish(attempt);
    this.#conclude(attempt, outcome);
  }

  /** Its handler has come back, so its slot is free. */
  settled(attempt: Attempt): void {
    for (const next of this.#table.settle(attempt)) this.#ports.start(next);
  }

  feedback(attempt: Attempt, input: FeedbackInput): void {
    if (attempt.phase !== "running") return;
    for (const payload of this.#drafts.add(attempt, input)) this.#putFeedback(attempt, payload);
    this.#ports.askFlush();
  }

  // ---- what time and the operator say

  expireWaiting(now: number): void {
    for (const attempt of this.#table.expireWaiting(now)) {
      const message = "no slot became free in time; a stopped task still occupies one";
      this.#refuse(attempt.dispatch, attempt.fence, "E.RUNNER.CANCELLED", message, "worker.concurrency");
    }
  }

  /** Drops all whose handler runs or waits to run, without a word. Results that are known stay. Gives how many there were. */
  dropUnfinished(reason: string): number {
    const lost = this.#table.unfinished();
    for (const attempt of lost) this.#drop(attempt, reason);
    return lost.length;
  }

  /** Stops all that is unfinished and tells the scheduler that it may grant it again. */
  giveBackUnfinished(reason: string): void {
    for (const attempt of this.#table.unfinished()) {
      this.#finish(attempt);
      // Not kept on disk: nothing was achieved, and what is given back must leave before the worker does.
      this.#say(attempt, failure(reason, "worker.link", "E.RUNNER.CANCELLED"), attempt);
      this.#abort(attempt, reason);
    }
  }

  /** Said behind every outcome that may name it: the scheduler must hear of a resource before it hears that it is gone. */
  removed(resource: string, reason: RemovedReason): void {
    this.#removed.add({ resource_id: resource, reason }, this.#concluded);
    this.#ports.askFlush();
  }

  /** A package wants to say something to whoever listens at the scheduler. False: too much of that is unacked. */
  putExt({ type, id, corr, payload }: ExtWord): boolean {
    if (!this.#outbox.hasRoomForExt(payload.length)) return false;
    const name = type as OutgoingFrame["type"];
    this.#outbox.put(makeWord({ kind: "ext", type: name, id: id ?? this.#ports.nextId(), corr, payload }));
    this.#ports.askFlush();
    return true;
  }

  // ---- what leaves

  /** A new session: its stream takes all that was not acked. */
  attach(stream: WordStream): void {
    this.#outbox.attach(stream);
    this.calls.askAgain();
  }

  /** The session is over: nothing that was sent in it counts as received unless it was acked. */
  detach(): void {
    this.#outbox.detach();
  }

  /** Hands every frame that may leave to `send`, for as long as that takes more. */
  pump(send: (sent: Sent<Word>) => boolean): void {
    this.#removed.say(this.#concluded - this.#unkept);
    if (this.#drafts.size > 0 && this.#outbox.hasRoomForFeedback) {
      for (const attempt of this.#drafts.attempts()) this.#putFeedback(attempt, this.#drafts.take(attempt));
    }
    this.#outbox.pump(this.#ports.now(), () => this.#ports.nextId(), send);
  }

  #finish(attempt: Attempt): void {
    // What it said last goes before its result; what others have said may wait behind it.
    const lastWords = this.#drafts.take(attempt);
    if (lastWords !== undefined) this.#putFeedback(attempt, lastWords, true);
    this.calls.forgetAllOf(attempt);
    this.#table.finish(attempt);
  }

  /** An outcome that must not be lost: where there is a disk, it is there before it is sent. */
  #conclude(attempt: Attempt, outcome: Outcome): void {
    const { keeping } = this.#ports;
    if (keeping === null) return this.#say(attempt, outcome, attempt);
    const { run, task, fence } = attempt;
    const { type, payload } = encodeOutcome(attempt, outcome);
    const id = this.#ports.nextId();
    this.#unkept++;
    this.#concluded++;
    const key: number = keeping.keep({ type, id, run, task, node: attempt.dispatch.node_id, fence, payload }, () => {
      this.#removed.say(this.#concluded - this.#unkept);
      this.#unkept--;
      this.#outbox.put(makeWord({ kind: "outcome", type, id, corr: task, payload, attempt, key }));
      this.#ports.askFlush();
    });
  }

  #refuse(
    dispatch: Pick<DispatchPayload, "run_id" | "task_id" | "node_id">,
    fence: number | undefined,
    code: FaultCode,
    message: string,
    where = "worker.link",
  ): void {
    const about = { run: dispatch.run_id, task: dispatch.task_id, fence: fence ?? 0, dispatch };
    this.#ports.note("warn", "attempt-refused", message, { task: about.task, fence: about.fence, code });
    this.#say(about, failure(message, where, code), null);
  }

  #say(about: AboutAttempt, outcome: Outcome, attempt: Attempt | null): void {
    const { type, payload } = encodeOutcome(about, outcome);
    this.#removed.say(this.#concluded - this.#unkept);
    this.#outbox.put(makeWord({ kind: "outcome", type, id: this.#ports.nextId(), corr: about.task, payload, attempt }));
    this.#ports.askFlush();
  }

  #putFeedback(attempt: Attempt, payload: string | undefined, isUrgent = false): void {
    if (payload === undefined) return;
    const names = { type: "biz.exec.feedback", id: this.#ports.nextId(), corr: attempt.task } as const;
    const dropped = this.#outbox.put(makeWord({ kind: "feedback", ...names, payload, isUrgent }));
    if (dropped === undefined) return;
    this.#ports.note("warn", "feedback-dropped", "more feedback waits than is kept; the oldest is gone", { task: dropped.corr });
  }

  /** The attempt is no longer this worker's: its outcome will not be said. */
  #drop(attempt: Attempt, reason: string): void {
    if (attempt.phase === "finished") return; // its word is on the way; the scheduler will find it stale and ack it
    this.#table.drop(attempt);
    this.#abort(attempt, reason);
  }

  #abort(attempt: Attempt, reason: string): void {
    this.#drafts.forget(attempt);
    this.calls.forgetAllOf(attempt);
    this.#ports.note("info", "attempt-stopped", reason, { task: attempt.task, fence: attempt.fence });
    attempt.stop.stop(new Error(reason));
  }
}
