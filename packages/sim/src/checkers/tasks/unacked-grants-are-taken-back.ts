// I2: a grant that no worker ever reports on is requeued, or found to be running, within a time limit. A heartbeat that does not list the attempt is not
// a report on it. While the holder's session is alive the limit is the ack deadline, otherwise its lease, and so it is
// for a task that must not be repeated silently, whose worker is waited for; it starts anew whenever a scheduler or
// the store was disturbed, because no lease ends within one period after a scheduler was away.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { nodeOfTask } from "../../checking/requested-runs.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import type { TrueTime } from "../../observation/observation.ts";
import { isRepeatForbidden } from "./lost-attempts-are-not-repeated.ts";

/** For polling, latency and queued work. */
const slackMs = 1_000;
const leaseSlackMs = 15_000;

export class UnackedGrantsAreTakenBack extends Checker {
  /** Grants without a report, by attempt. */
  readonly #unreportedGrants = new Map<string, { readonly tenant: string; readonly task: string; readonly since: TrueTime }>();
  readonly #reportedGrants = new Set<string>();
  readonly #unackedDispatches = new UnackedFrames<string>();
  /** Connections whose session was ended by the scheduler; a worker that is paused leaves its end open. */
  readonly #reset = new Set<string>();

  override onFact({ type, readAt, tenant, task, attempt }: ObservedFact): void {
    if (type === "task.granted") {
      this.checkedCount++;
      if (!this.#reportedGrants.has(attempt)) this.#unreportedGrants.set(attempt, { tenant, task, since: readAt });
      return;
    }
    const before = this.projection.task(task);
    if (before !== undefined && !["task.feedback", "task.refused", "task.warning"].includes(type))
      this.#unreportedGrants.delete(`${task}#${before.fence}`);
  }

  override onSentToWorker(frame: ObservedFrame): void {
    if (frame.type === "control.reset") this.#reset.add(frame.connection);
    this.#unackedDispatches.recordSent(
      frame,
      frame.dispatches.map(({ attempt }) => attempt),
    );
  }

  override onDeliveredToScheduler(frame: ObservedFrame): void {
    const { reports, heldAttempts, type, payload, worker } = frame;
    for (const { attempt } of [...reports, ...(heldAttempts ?? [])]) this.#recordReport(attempt);
    for (const attempt of this.#unackedDispatches.takeAcked(frame)) this.#recordReport(attempt);
    // The oldest dialect acks by frame id, and the id of a dispatch names the task and the fence.
    const [task, fence] = String(payload["for"]).split("#");
    if (type === "control.ack" && fence !== undefined && this.world.isLegacyWorker(worker))
      this.#recordReport(`${task}#${Number(fence)}`);
  }

  override onTimePassed(): void {
    const { disturbedAt } = this.world;
    for (const [attempt, { tenant, task, since }] of this.#unreportedGrants) {
      const at = this.projection.completeReadAt.get(tenant) ?? 0;
      const holder = this.projection.task(task)?.worker ?? "nobody";
      if (at <= Math.max(since, disturbedAt) + this.#boundFor(task, holder, since)) continue;
      return this.fail(`grant ${attempt} to ${holder} was never acked and never taken back`, task, holder);
    }
  }

  #recordReport(attempt: string): void {
    this.#reportedGrants.add(attempt);
    this.#unreportedGrants.delete(attempt);
  }

  #boundFor(task: string, holder: string, since: TrueTime): number {
    const { ackDeadlineMs = 0, leaseMs = 0, idleMs = 0 } = this.world.setup?.guarantees ?? {};
    const accept = this.sessions.lastAccepts.get(holder);
    // A worker that joined after the grant has settled it with its register; the log is only read later.
    const isAlive = accept !== undefined && this.world.isOpen(accept.connection) && !this.#reset.has(accept.connection);
    const node = nodeOfTask(this.projection.task(task)?.run.requested ?? null, task);
    const isAwaited = isRepeatForbidden(node) && node?.policy.retry === undefined;
    const hasSession = isAlive && accept.at < since && !isAwaited;
    return hasSession ? ackDeadlineMs + 2 * idleMs + slackMs : ackDeadlineMs + 2 * leaseMs + leaseSlackMs;
  }
}
