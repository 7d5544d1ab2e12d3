// I55: a cancel gives a worker that cannot stop a handler nothing more to do: as long as the handler runs, it takes one of the slots. That is promised
// for a limited time, and only within a session and while no scheduler restarts, because schedulers keep it in memory.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { Observation, TrueTime } from "../../observation/observation.ts";

/** The store's clock and the reading of the log: an entry that is nearly over may be over there. */
const slackMs = 2_000;

/** Facts after which the session of a worker is another one. */
const sessionFacts: ReadonlySet<string> = new Set([
  "worker.joined",
  "worker.left",
  "worker.lost",
  "worker.gone",
  "worker.kicked",
]);

export class UnstoppedHandlersKeepTheirSlot extends Checker {
  /** Attempts that a worker has acked or reported. */
  readonly #answered = new Set<string>();
  readonly #unackedDispatches = new UnackedFrames<string>();
  readonly #running = new Map<string, Set<string>>();
  /** Cancelled attempts whose handler runs, and when that was read, by worker. */
  readonly #unstopped = new Map<string, Map<string, TrueTime>>();

  override onObservation(observation: Observation): void {
    if (observation.kind === "process" && observation.role === "scheduler") return this.#unstopped.clear();
    if (observation.kind !== "handler" || !this.world.isLegacyWorker(observation.worker)) return;
    const worker = `${observation.tenant}/${observation.instance}`;
    const attempt = `${observation.task}#${observation.fence}`;
    const running = getOrCreate(this.#running, worker, () => new Set<string>());
    if (observation.event === "starts") running.add(attempt);
    if (observation.event !== "ends" && observation.event !== "gone") return;
    running.delete(attempt);
    this.#unstopped.get(worker)?.delete(attempt);
  }

  override onSentToWorker(frame: ObservedFrame): void {
    if (!this.world.isLegacyWorker(frame.worker)) return;
    this.#unackedDispatches.recordSent(
      frame,
      frame.dispatches.map(({ attempt }) => attempt),
    );
  }

  override onDeliveredToScheduler(frame: ObservedFrame): void {
    const { worker, reports, payload, type } = frame;
    if (!this.world.isLegacyWorker(worker)) return;
    for (const { attempt } of reports) this.#answered.add(attempt);
    for (const attempt of this.#unackedDispatches.takeAcked(frame)) this.#answered.add(attempt);
    if (type === "control.ack" && typeof payload["for"] === "string") this.#answered.add(payload["for"]);
  }

  override onFact(fact: ObservedFact): void {
    if (fact.worker !== null && sessionFacts.has(fact.type)) this.#unstopped.delete(fact.worker);
    if (fact.type === "task.cancelled") this.#noteCancelled(fact);
    if (fact.type === "task.granted") this.#checkGrant(fact);
  }

  #noteCancelled({ data, task, fence, readAt }: ObservedFact): void {
    const worker = String(data["worker"]);
    const attempt = `${task}#${fence}`;
    if (this.#running.get(worker)?.has(attempt) !== true) return;
    getOrCreate(this.#unstopped, worker, () => new Map<string, TrueTime>()).set(attempt, readAt);
  }

  #checkGrant({ data, task, readAt, position, tenant }: ObservedFact): void {
    const worker = String(data["worker"]);
    const { unstoppedSlotMs = 0 } = this.world.setup?.guarantees ?? {};
    const unstopped = [...(this.#unstopped.get(worker) ?? [])].filter(
      ([attempt, since]) => this.#answered.has(attempt) && readAt - since < unstoppedSlotMs - slackMs,
    );
    if (this.world.isLegacyWorker(worker)) this.checkedCount++;
    if (unstopped.length === 0) return;
    const slots = this.projection.workers.get(worker)?.slots ?? 0;
    const held = this.projection.countBusySlots(worker);
    if (held + 1 + unstopped.length <= slots) return;
    this.fail(
      `${task} was granted to ${worker} at position ${position} of ${tenant}: it has ${slots} slots, holds ${held} tasks and still runs ` +
        `what was cancelled, ${unstopped.map(([attempt]) => attempt).join(", ")}`,
      task,
      worker,
    );
  }
}
