// I4: only reports of the holder under the current fence change a task, and only those of the process it was granted to. A stale report is answered
// with the stale code on the connection it came by.

import { Checker } from "../../checking/checker.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { NewestSessions } from "../../checking/newest-sessions.ts";
import { ackCovers, type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";
import { isRunByOtherTasks, nodeOfTask } from "../../checking/requested-runs.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** Facts that only a worker's report can cause, and those reports. */
const reportsByFact: Readonly<Record<string, readonly string[]>> = {
  "task.succeeded": ["SUCCEEDED"],
  "task.skipped": ["SKIPPED"],
  "task.feedback": ["feedback"],
};

/** How long after its ack a stale report may wait for the cancel frame. */
const staleAnswerMs = 3_000;

interface StaleReport {
  readonly task: string;
  readonly fence: number;
  /** By which it came, and when: the session is its stream. */
  readonly frame: ObservedFrame;
  readonly seq: number;
  ackedAt: TrueTime;
}

export class StaleReportsChangeNothing extends Checker {
  /** Reports that were delivered to a scheduler: `<task>#<fence>` to `<what> <worker> <boot>`. */
  readonly #said = new Map<string, Set<string>>();
  readonly #newestSessions = new NewestSessions();
  readonly #announced = new Set<string>();
  readonly #stopped = new Set<string>();
  #staleReports: StaleReport[] = [];

  override onFact(fact: ObservedFact): void {
    if (reportsByFact[fact.type] !== undefined) this.#checkReportedFact(fact);
  }

  override onFrame(frame: ObservedFrame): void {
    const { observation } = frame;
    this.#newestSessions.observeFrame(frame);
    if (observation.toward === "scheduler" && observation.event === "delivered") this.#handleWorkerFrame(frame);
    if (observation.toward !== "worker" || observation.event !== "sent") return;
    if (frame.type === "biz.exec.cancel")
      this.#stopped.add(`${frame.sessionKey} ${String(frame.payload["task_id"])}#${Number(frame.payload["fence"])}`);
    if (frame.type === "control.ack")
      for (const one of this.#staleReports)
        if (one.frame.sessionKey === frame.sessionKey && ackCovers(frame, one.seq))
          one.ackedAt = Math.min(one.ackedAt, observation.at);
  }

  override onTimePassed(at: TrueTime): void {
    const waiting: StaleReport[] = [];
    for (const one of this.#staleReports) {
      const { sessionKey, observation } = one.frame;
      const link = this.world.connections.get(observation.connection);
      const isUnreachable =
        link?.isOpen !== true ||
        !this.world.isRunning(link.scheduler) ||
        !this.#announced.has(this.#newestSessions.firstConnectionOf(sessionKey));
      if (isUnreachable || this.#stopped.has(`${sessionKey} ${one.task}#${one.fence}`)) continue;
      if (at <= one.ackedAt + staleAnswerMs) waiting.push(one);
      else if (this.#newestSessions.isNewest(one.frame) && this.world.disturbedAt < one.ackedAt)
        return this.reportViolation(`a stale report about ${one.task}#${one.fence} was acked and not answered as stale`, [
          one.task,
        ]);
    }
    this.#staleReports = waiting;
  }

  #checkReportedFact(fact: ObservedFact): void {
    const { type, data, position } = fact;
    const id = String(data["task"]);
    const task = this.projection.task(id);
    const fence = Number(data["fence"]);
    this.checkedCount++;
    const where = `${type} at position ${position} of ${fact.tenant}`;
    if (data["isLate"] === true) return this.#checkLateFact(where, id, fence);
    // Pinned, skipped by an operator, or carried out by other tasks: no worker reports it.
    if (
      data["worker"] === null &&
      (data["why"] !== undefined || isRunByOtherTasks(nodeOfTask(this.projection.run(runIdOf(fact))?.requested ?? null, id), id))
    )
      return;
    if (type === "task.skipped" && data["why"] !== undefined) return;
    if (task === undefined || task.worker === null) return this.reportViolation(`${where}: no worker held ${id}`, [id]);
    if (task.fence !== fence) return this.reportViolation(`${where}: ${id} is under fence ${task.fence}, not ${fence}`, [id]);
    if (data["worker"] !== undefined && data["worker"] !== task.worker)
      return this.reportViolation(`${where}: ${task.worker} held ${id}, not ${String(data["worker"])}`, [id]);
    const reports = this.#said.get(`${id}#${fence}`) ?? new Set();
    const granted = this.projection.grants.get(`${id}#${fence}`)?.boot;
    const isReported = (reportsByFact[type] ?? []).some(
      (what) => reports.has(`${what} ${task.worker} ${task.boot}`) || reports.has(`${what} ${task.worker} ${granted}`),
    );
    // A dialect without fences names the dispatch it answers, which may be an earlier one of the same task.
    const isReportedForAnyFence =
      this.world.isLegacyWorker(task.worker) &&
      (reportsByFact[type] ?? []).some((what) => this.#said.get(id)?.has(`${what} ${task.worker}`));
    if (!isReported && !isReportedForAnyFence)
      this.reportViolation(`${where}: ${task.worker} (boot ${task.boot}) never reported that for attempt ${id}#${fence}`, [id]);
  }

  /** The result overtook it: the task has no holder any more, but the attempt that ended it must have reported this. */
  #checkLateFact(where: string, id: string, fence: number): void {
    const last = this.projection.task(id)?.fence;
    if (last !== fence) return this.reportViolation(`${where}: ${id} ended under fence ${last ?? "none"}, not ${fence}`, [id]);
    const isReported = [...(this.#said.get(`${id}#${fence}`) ?? [])].some((word) => word.startsWith("feedback "));
    if (!isReported) this.reportViolation(`${where}: no worker ever reported that for attempt ${id}#${fence}`, [id]);
  }

  #handleWorkerFrame(frame: ObservedFrame): void {
    const { observation } = frame;
    const worker = frame.workerKey;
    if (frame.type === "control.register" && JSON.stringify(frame.payload).includes('"cancel"'))
      this.#announced.add(observation.connection);
    for (const { of, task, fence, outcome } of taskReportsIn(frame)) {
      getOrCreate(this.#said, `${task}#${fence}`, () => new Set<string>()).add(`${outcome} ${worker} ${observation.boot}`);
      if (this.world.isLegacyWorker(worker)) getOrCreate(this.#said, task, () => new Set<string>()).add(`${outcome} ${worker}`);
      // The log may lag behind, so what is stale there is stale for certain. A process that was replaced gets no answer.
      const isStale = (this.projection.task(task)?.fence ?? 0) > fence;
      if (isStale && of !== "feedback" && frame.seq !== null && this.#newestSessions.isNewest(frame))
        this.#staleReports.push({ task, fence, frame, seq: frame.seq, ackedAt: Number.POSITIVE_INFINITY });
    }
  }
}

const runIdOf = ({ run }: ObservedFact): string => run ?? "";
