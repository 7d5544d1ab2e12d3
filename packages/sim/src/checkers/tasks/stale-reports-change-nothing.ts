// I4: only reports of the holder under the current fence change a task, and only those of the process it was granted to. A stale report is answered
// with the stale code on the connection it came by.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { ackCovers, type ObservedFrame } from "../../checking/observed-frame.ts";
import { isRunByOtherTasks, nodeOfTask } from "../../checking/requested-runs.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** Facts that only a worker's report can cause, and that report. */
const reportByFact: Readonly<Record<string, string>> = {
  "task.succeeded": "SUCCEEDED",
  "task.skipped": "SKIPPED",
  "task.feedback": "feedback",
};

/** How long after its ack a stale report may wait for the cancel frame. */
const staleAnswerMs = 3_000;

interface StaleReport {
  readonly task: string;
  readonly attempt: string;
  readonly frame: ObservedFrame;
  readonly seq: number;
  ackedAt: TrueTime;
}

export class StaleReportsChangeNothing extends Checker {
  /** Reports that were delivered to a scheduler: `<task>#<fence>` to `<what> <worker> <boot>`. */
  readonly #delivered = new Map<string, Set<string>>();
  readonly #announced = new Set<string>();
  readonly #stopped = new Set<string>();
  #staleReports: StaleReport[] = [];

  override onSentToWorker(frame: ObservedFrame): void {
    const { type, sessionKey, payload } = frame;
    if (type === "biz.exec.cancel") this.#stopped.add(`${sessionKey} ${String(payload["task_id"])}#${Number(payload["fence"])}`);
    for (const one of this.#staleReports)
      if (one.frame.sessionKey === sessionKey && ackCovers(frame, one.seq)) one.ackedAt = Math.min(one.ackedAt, frame.at);
  }

  override onTimePassed(at: TrueTime): void {
    const waiting: StaleReport[] = [];
    for (const one of this.#staleReports) {
      const { sessionKey, connection, scheduler } = one.frame;
      const isUnreachable =
        !this.world.isOpen(connection) ||
        !this.world.isRunning(scheduler) ||
        !this.#announced.has(this.sessions.firstConnectionOf(sessionKey));
      if (isUnreachable || this.#stopped.has(`${sessionKey} ${one.attempt}`)) continue;
      if (at <= one.ackedAt + staleAnswerMs) waiting.push(one);
      else if (this.sessions.isNewest(one.frame) && this.world.disturbedAt < one.ackedAt)
        return this.fail(`a stale report about ${one.attempt} was acked and not answered as stale`, one.task);
    }
    this.#staleReports = waiting;
  }

  override onFact(fact: ObservedFact): void {
    const { type, data, task: id, fence, attempt, where } = fact;
    if (reportByFact[type] === undefined) return;
    const task = this.projection.task(id);
    this.checkedCount++;
    if (data["isLate"] === true) return this.#checkLateFact(fact);
    const node = nodeOfTask(this.projection.runs.get(fact.run ?? "")?.requested ?? null, id);
    // Pinned, skipped by an operator, or carried out by other tasks: no worker reports it.
    if (data["worker"] === null && (data["why"] !== undefined || isRunByOtherTasks(node, id))) return;
    if (type === "task.skipped" && data["why"] !== undefined) return;
    if (task === undefined || task.worker === null) return this.fail(`${where}: no worker held ${id}`, id);
    if (task.fence !== fence) return this.fail(`${where}: ${id} is under fence ${task.fence}, not ${fence}`, id);
    if (data["worker"] !== undefined && data["worker"] !== task.worker)
      return this.fail(`${where}: ${task.worker} held ${id}, not ${String(data["worker"])}`, id);
    const reports = this.#delivered.get(attempt) ?? new Set();
    const report = `${reportByFact[type]} ${task.worker}`;
    const granted = this.projection.grants.get(attempt)?.boot;
    const isReported = reports.has(`${report} ${task.boot}`) || reports.has(`${report} ${granted}`);
    // A dialect without fences names the dispatch it answers, which may be an earlier one of the same task.
    const isReportedForAnyFence = this.world.isLegacyWorker(task.worker) && this.#delivered.get(id)?.has(report) === true;
    if (!isReported && !isReportedForAnyFence)
      this.fail(`${where}: ${task.worker} (boot ${task.boot}) never reported that for attempt ${attempt}`, id);
  }

  /** The result overtook it: the task has no holder any more, but the attempt that ended it must have reported this. */
  #checkLateFact({ task: id, fence, attempt, where }: ObservedFact): void {
    const last = this.projection.task(id)?.fence;
    if (last !== fence) return this.fail(`${where}: ${id} ended under fence ${last ?? "none"}, not ${fence}`, id);
    const isReported = [...(this.#delivered.get(attempt) ?? [])].some((word) => word.startsWith("feedback "));
    if (!isReported) this.fail(`${where}: no worker ever reported that for attempt ${attempt}`, id);
  }

  override onDeliveredToScheduler(frame: ObservedFrame): void {
    const { workerKey: worker, seq } = frame;
    if (frame.type === "control.register" && JSON.stringify(frame.payload).includes('"cancel"'))
      this.#announced.add(frame.connection);
    for (const { of, task, fence, attempt, outcome } of frame.reports) {
      getOrCreate(this.#delivered, attempt, () => new Set<string>()).add(`${outcome} ${worker} ${frame.boot}`);
      if (this.world.isLegacyWorker(worker))
        getOrCreate(this.#delivered, task, () => new Set<string>()).add(`${outcome} ${worker}`);
      // The log may lag behind, so what is stale there is stale for certain. A process that was replaced gets no answer.
      const isStale = (this.projection.task(task)?.fence ?? 0) > fence;
      if (isStale && of !== "feedback" && seq !== null && this.sessions.isNewest(frame))
        this.#staleReports.push({ task, attempt, frame, seq, ackedAt: Number.POSITIVE_INFINITY });
    }
  }
}
