// Invariants of the rows at any time, and between two snapshots of them. Reads the store's pages alone.

import { type RunDetail, type RunRow, readTaskState, type TaskRow, type WorkerRow } from "@astraflow/engine";

const hasEnded = ({ phase }: RunRow | TaskRow): boolean =>
  phase === "succeeded" || phase === "failed" || phase === "cancelled" || phase === "skipped";

export class RowChecker {
  /** Ended rows as they were first seen. */
  readonly #ended = new Map<string, string>();
  readonly #fences = new Map<string, number>();

  /** The first broken promise, or null. */
  check(details: readonly RunDetail[], workers: readonly WorkerRow[]): string | null {
    const byId = new Map(workers.map((worker) => [worker.id, worker]));
    for (const detail of details) {
      const problem = this.#checkRun(detail, byId);
      if (problem !== null) return problem;
    }
    return null;
  }

  #checkRun({ run, tasks }: RunDetail, workers: ReadonlyMap<string, WorkerRow>): string | null {
    const open = tasks.filter((task) => !hasEnded(task)).length;
    if (run.open !== open) return `run ${run.id} (${run.phase}) counts ${run.open} open tasks and has ${open}`;
    // A run that is ending may need one more turn to find that nothing is left.
    if (!hasEnded(run) && run.phase !== "ending" && open === 0) return `run ${run.id} is ${run.phase} and nothing of it is open`;
    if (new Set(tasks.map((task) => task.id)).size !== tasks.length) return `run ${run.id} has a task twice`;
    for (const row of [run, ...tasks]) {
      const problem = this.#checkEndedRow(row);
      if (problem !== null) return problem;
    }
    for (const task of tasks) {
      if (task.fence < (this.#fences.get(task.id) ?? 0)) return `the fence of ${task.id} went back to ${task.fence}`;
      this.#fences.set(task.id, task.fence);
      const problem =
        task.phase === "leased" && run.phase !== "ending" ? leaseProblem(task, workers.get(task.worker ?? "")) : null;
      if (problem !== null) return problem;
    }
    return null;
  }

  #checkEndedRow(row: RunRow | TaskRow): string | null {
    if (!hasEnded(row)) return null;
    const image = JSON.stringify(row.kind === "task" ? withoutRefusals(row) : row);
    const before = this.#ended.get(row.id) ?? image;
    this.#ended.set(row.id, image);
    return before === image ? null : `${row.kind} ${row.id} changed after its end: ${before} became ${image}`;
  }
}

/** The number of late outcomes that were refused is counted after the end too; nothing else is. */
function withoutRefusals(task: TaskRow): TaskRow {
  const { refused: _, ...state } = readTaskState(task);
  return { ...task, state: Object.keys(state).length === 0 ? null : JSON.stringify(state) };
}

/** A leased task hangs on its worker's boot and epoch; one that hangs on an older one is watched by nobody and would wait for ever. */
function leaseProblem(task: TaskRow, worker: WorkerRow | undefined): string | null {
  if (worker === undefined) return `${task.id} is leased to ${task.worker}, which has no row`;
  const seen = `${task.id} is leased to ${worker.id}, boot ${task.boot}, epoch ${task.epoch}`;
  if (task.boot !== worker.boot || task.epoch !== worker.epoch)
    return `${seen}, whose row says boot ${worker.boot}, epoch ${worker.epoch}`;
  return worker.due === null ? `${seen}, whose lease nobody watches (${worker.phase})` : null;
}

/** What must be true once nothing is open any more. */
export function unfinishedRunProblem({ run, tasks, workflow }: RunDetail): string | null {
  if (!hasEnded(run)) return `run ${run.id} is still ${run.phase}: ${tasks.map((task) => `${task.id} ${task.phase}`).join(", ")}`;
  if (run.phase !== "succeeded") return null;
  const { nodes } = JSON.parse(workflow) as { nodes: readonly unknown[] };
  if (tasks.length !== nodes.length) return `run ${run.id} succeeded with ${tasks.length} tasks of ${nodes.length} nodes`;
  const left = tasks.find((task) => task.phase !== "succeeded" && task.phase !== "skipped");
  return left === undefined ? null : `run ${run.id} succeeded although ${left.id} is ${left.phase}`;
}
