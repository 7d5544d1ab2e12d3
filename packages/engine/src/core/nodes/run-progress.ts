// What one command changes in one run: the ends and hosts that still have to be followed up, and the tasks opened and ended so far.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { EndedTask, Fact, HostingTask, RunRow, TaskRow } from "../../storage/rows.ts";
import { InvariantBroken } from "../rows/invariant-broken.ts";
import { type TaskPath, taskIdAt } from "../rows/task-path.ts";
import type { FanOutCursor } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

type FollowUp =
  /** A row has ended: whatever waited for it goes on. */
  | { readonly type: "ended"; readonly row: EndedTask }
  /** A host was reached: its iterations, or the outermost middleware of its chain, have to be opened. */
  | { readonly type: "hosting"; readonly row: HostingTask };

/** Nodes that every command may reach: in a crowded turn ordinary nodes go on at once, only large fan-outs wait. */
const nodesPerCommandMin = 16;

export class RunProgress {
  readonly work: UnitOfWork;
  /** As it was when this step began; `refresh` reads it again. */
  run: RunRow;
  readonly pending: FollowUp[] = [];
  /** Task rows opened (+) and ended (-) so far and not yet counted in the run's row. */
  openedTasks = 0;
  nodesReached = 0;
  /** Fan-outs of the top level that are too large for this turn. */
  readonly unfinishedFanOuts: FanOutCursor[] = [];

  constructor(work: UnitOfWork, run: RunRow) {
    this.work = work;
    this.run = run;
  }

  refresh(): RunRow {
    this.run = this.work.existingRun(this.run.id);
    return this.run;
  }

  get plan(): Plan {
    return this.work.planOf(this.run);
  }

  nodeOf(task: Pick<TaskRow, "id" | "run">): PlanNode {
    return this.work.nodeOf(this.run, task);
  }

  /** A host around a task that goes on. */
  hostAt(path: TaskPath): HostingTask {
    const host = this.work.existingTask(taskIdAt(this.run.id, path));
    if (host.phase !== "hosting") throw new InvariantBroken("legal move", `task ${host.id} is ${host.phase} and hosts nothing`);
    return host;
  }

  /** Whether another node may be reached in this turn. The first always may, or nothing would ever go on. */
  hasCapacity(): boolean {
    const most = this.work.settings.sweepTasksMax;
    if (this.nodesReached > 0 && this.work.checks.isSpent(this.run.tenant)) return false;
    return this.nodesReached < Math.min(nodesPerCommandMin, most) || this.work.nodesReached < most;
  }

  countReachedNode(): void {
    this.nodesReached += 1;
    this.work.nodesReached += 1;
  }

  record(type: string, data: Fact["data"]): void {
    this.work.recordRunFact(this.run, type, data);
  }

  /** A task has ended and is written: records its end and follows it up. */
  end(row: EndedTask, more: Fact["data"] = {}): void {
    this.work.recordTaskFact(this.run, `task.${row.phase}`, row, more);
    this.pending.push({ type: "ended", row });
  }
}
