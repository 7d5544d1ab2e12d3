// I13: the deadlines of runs, attempts and queued tasks never fire early, and fire within a time limit after they are due or after the last disturbance
// of a scheduler or the store; so does the lease of a silent worker. Early is checked exactly, in store time; late is checked in true time, with
// some slack for a store clock that is catching up.

import { Checker } from "../../checking/checker.ts";
import type { ProjectedRun, ProjectedTask } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { isRunByOtherTasks } from "../../checking/requested-runs.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** After the later of due and the last trouble: the look of a second, work that waits, what is due before it. */
const firesWithinMs = 4_000;
/** A store clock that follows a slower wall is at most 1 in 20 slower than true time; a reader of the log comes late, never early. */
const storeClockSlowestFactor = 1.1;

/** A pause doubles with every failure up to a minute, and is spread by a fifth to either side. */
const backoffFactor = 2;
const backoffMsMax = 60_000;
const backoffSpread = 0.2;

interface FactError {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly details?: Readonly<Record<string, unknown>>;
}

export class DeadlinesFireOnTime extends Checker {
  readonly #notBefore = new Map<string, number>();
  readonly #failures = new Map<string, number>();
  /** When a worker's last lease renewal reached a scheduler. */
  readonly #renewedAt = new Map<string, TrueTime>();

  override onFact(fact: ObservedFact): void {
    const run = fact.run === null ? undefined : this.projection.runs.get(fact.run);
    if (run === undefined) return;
    if (fact.type === "run.failed") this.#checkRun(run, fact);
    if (typeof fact.data["task"] !== "string") return;
    const task = this.projection.task(fact.data["task"]);
    // Containers retry iterations by a rule of their own.
    if (fact.type === "task.retrying" && fact.data["frame"] === undefined) this.#checkPause(fact.data["task"], task, fact);
    this.#checkEarly(fact.data["task"], task, fact);
  }

  override onDeliveredToScheduler({ type, workerKey, at }: ObservedFrame): void {
    if (type === "control.heartbeat" || type === "control.register" || type === "control.resume")
      this.#renewedAt.set(workerKey, at);
  }

  override onTimePassed(): void {
    this.#checkLeases();
    for (const run of this.projection.runs.values())
      if (run.endStatus === null) this.#checkLateFact(this.projection.completeReadAt.get(run.tenant) ?? 0, run);
  }

  #checkEarly(id: string, task: ProjectedTask | undefined, { type, data, at, position }: ObservedFact): void {
    const error = (data["error"] ?? {}) as FactError;
    const where = `${type} at position ${position}`;
    const since = at - (task?.grantedAt ?? 0);
    // The worker enforces the limit too, by its own clock; only the scheduler's timeouts are checked in store time.
    const isOurs =
      error.code === "E.TIMEOUT" && String(error.message).startsWith("attempt ") && !isRunByOtherTasks(task?.node ?? null, id);
    if (isOurs && (type === "task.failed" || type === "task.retrying") && task?.node) {
      this.checkedCount++;
      const { timeoutMs } = task.node.policy;
      if (timeoutMs === undefined || since < timeoutMs)
        return this.fail(`${where}: ${id} was ended after ${since} ms, its limit is ${timeoutMs ?? "none"}`, id);
    }
    const waited = error.details?.["waitedMs"];
    if (type === "task.failed" && typeof waited === "number" && task?.node) {
      this.checkedCount++;
      const { queueTimeoutMs } = task.node.policy;
      if (queueTimeoutMs === undefined || waited < queueTimeoutMs)
        return this.fail(
          `${where}: ${id} was given up after ${waited} ms in queue, its limit is ${queueTimeoutMs ?? "none"}`,
          id,
        );
    }
    if (type === "task.retrying") this.#notBefore.set(id, at + Number(data["delayMs"] ?? 0));
    // An operator may end the backoff early.
    if (type === "task.steered") this.#notBefore.delete(id);
    if (type === "task.granted") {
      const due = this.#notBefore.get(id) ?? 0;
      this.#notBefore.delete(id);
      if (at < due) this.fail(`${where}: ${id} was granted ${due - at} ms before its pause was over`, id);
    }
  }

  #checkPause(id: string, task: ProjectedTask | undefined, { data, position }: ObservedFact): void {
    const failed = this.#failures.get(id) ?? 0;
    this.#failures.set(id, failed + 1);
    const first = task?.node?.policy.retry?.backoffMs;
    if (first === undefined) return;
    const pause = Math.min(backoffMsMax, first * backoffFactor ** failed);
    const delayMs = Number(data["delayMs"]);
    this.checkedCount++;
    if (Math.abs(delayMs - pause) > pause * backoffSpread + 1)
      this.fail(
        `task.retrying at position ${position}: ${id} pauses for ${delayMs} ms after failure ${failed + 1}, not about ${pause}`,
        id,
      );
  }

  #checkRun(run: ProjectedRun, { data, at, position }: ObservedFact): void {
    const error = (data["error"] ?? {}) as FactError;
    if (error.code !== "E.TIMEOUT" || error.details?.["task"] !== undefined || run.requested === null) return;
    this.checkedCount++;
    const limit = run.requested.body.timeoutMs;
    const ranMs = at - run.createdAt;
    const where = `run.failed at position ${position}`;
    if (limit === undefined || ranMs < limit)
      this.fail(`${where}: run ${run.id} was ended after ${ranMs} ms, its limit is ${limit ?? "none"}`, run.id);
  }

  #isLate(at: TrueTime, since: TrueTime, limit: number): boolean {
    return at > Math.max(since + limit * storeClockSlowestFactor, this.world.disturbedAt) + firesWithinMs;
  }

  #checkLateFact(at: TrueTime, run: ProjectedRun): void {
    const limit = run.requested?.body.timeoutMs;
    if (limit !== undefined && this.#isLate(at, run.readAt, limit))
      return this.fail(`run ${run.id} has a limit of ${limit} ms and has not ended`, run.id);
    for (const task of run.tasks.values()) {
      if (task.endStatus !== null || task.node === null || run.isEndingEarly) continue;
      const granted = this.projection.grants.get(`${task.id}#${task.fence}`)?.fact.readAt ?? at;
      const { timeoutMs, queueTimeoutMs } = task.node.policy;
      if (task.worker !== null && timeoutMs !== undefined && this.#isLate(at, granted, timeoutMs))
        return this.fail(`attempt ${task.id}#${task.fence} has a limit of ${timeoutMs} ms and has not ended`, task.id);
      if (task.isReady && queueTimeoutMs !== undefined && this.#isLate(at, task.readAt, queueTimeoutMs))
        return this.fail(`${task.id} may wait ${queueTimeoutMs} ms and still waits`, task.id);
    }
  }

  #checkLeases(): void {
    const { disturbedAt } = this.world;
    const { leaseMs: usual = 0, quietLeaseMs: quiet = 0 } = this.world.setup?.guarantees ?? {};
    for (const [worker, held] of this.projection.heldTasks) {
      const leaseMs = (this.world.isLegacyWorker(worker) ? quiet : usual) * storeClockSlowestFactor;
      const at = this.projection.completeReadAt.get(worker.slice(0, worker.indexOf("/"))) ?? 0;
      // After a disturbance no lease ends before a whole period has passed.
      const due = Math.max((this.#renewedAt.get(worker) ?? 0) + leaseMs, disturbedAt + 2 * leaseMs);
      if (held.size > 0 && at > due + firesWithinMs)
        return this.fail(`${worker} no longer renews its lease and still holds ${[...held].join(", ")}`, worker, ...held);
    }
  }
}
