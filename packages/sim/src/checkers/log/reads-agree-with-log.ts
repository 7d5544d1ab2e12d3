// I42, reads and the log: the page of a run shows what the log contains up to the position of the page: the status of the run, and the status,
// fence, attempt and worker of each node. Lists of runs agree with the log too.

import { type ApiExchange, Checker, type CompleteLogRead } from "../../checking/checker.ts";
import { LogProjection, type ProjectedRun } from "../../checking/log-projection.ts";
import { runsShownBy, type ShownNode, type ShownRun } from "../../checking/run-view.ts";

interface PendingRead {
  readonly tenant: string;
  readonly asOf: number;
  readonly where: string;
  readonly runs: readonly ShownRun[];
}

export class ReadsAgreeWithLog extends Checker {
  #pendingReads: PendingRead[] = [];

  override onExchange(exchange: ApiExchange): void {
    const { call, answer } = exchange;
    const runs = runsShownBy(exchange);
    const where = `by ${call.route} on ${call.scheduler}`;
    if (runs.length > 0)
      this.#pendingReads.push({ tenant: call.tenant, asOf: (answer.body as { asOf: number }).asOf, where, runs });
  }

  override onCompleteLogRead({ tenant }: CompleteLogRead): void {
    const later: PendingRead[] = [];
    for (const read of this.#pendingReads)
      if (read.tenant !== tenant || read.asOf > this.mergedLog.completeUpTo(tenant)) later.push(read);
      else for (const view of read.runs) this.#checkRun(read, view);
    this.#pendingReads = later;
  }

  /** The run as the log tells it up to a position. */
  #projectUpTo(id: string, asOf: number): ProjectedRun | undefined {
    const past = new LogProjection(this.requestedRuns);
    for (const fact of this.projection.runs.get(id)?.facts ?? []) if (fact.position <= asOf) past.apply(fact);
    return past.runs.get(id);
  }

  #checkRun({ asOf, where }: PendingRead, view: ShownRun): void {
    const projected = this.#projectUpTo(view.runId, asOf);
    const as = `${where}, true at ${asOf}`;
    this.checkedCount++;
    if (projected === undefined) return this.fail(`run ${view.runId} is shown ${as}, and the log does not know it`, view.runId);
    const isOpen = view.status === "queued" || view.status === "running";
    if (isOpen ? projected.endStatus !== null : projected.endStatus !== view.status)
      return this.fail(`run ${view.runId} is ${view.status} ${as}; the log says ${projected.endStatus ?? "open"}`, view.runId);
    if (view.status === "queued" && projected.isStarted)
      return this.fail(`run ${view.runId} is queued ${as}; the log says started`, view.runId);
    for (const node of view.nodes ?? []) {
      const problem = findNodeProblem(projected, node);
      if (problem !== null) return this.fail(`${node.taskId} ${problem} ${as}`, node.taskId);
    }
  }
}

function findNodeProblem(run: ProjectedRun, node: ShownNode): string | null {
  const task = run.tasks.get(node.taskId);
  const isUp = task !== undefined && (task.worker !== null || task.isHosting);
  const inLog = task === undefined ? "nothing of it" : (task.endStatus ?? (isUp ? "running" : "queued"));
  const unborn = run.endStatus === null ? "queued" : run.endStatus === "succeeded" ? "skipped" : "cancelled";
  const expected = task === undefined ? unborn : inLog;
  if (node.status !== expected) return `is ${node.status}; the log says ${inLog}`;
  if (task === undefined || task.fence === 0) return null;
  if (node.fence !== task.fence) return `is under fence ${node.fence}; the log says ${task.fence}`;
  if (node.attempt !== task.attempt) return `is at attempt ${node.attempt}; the log says ${task.attempt}`;
  return null;
}
