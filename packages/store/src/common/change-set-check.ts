// What every store checks of change sets before it writes one: the turn holds their roots, rows are written once, queued tasks are written.

import type { ChangeSet, Row, RowKey, WorkerId, WorkerRow } from "@astraflow/engine";
import { keyOf, rootOf, runKey, runOf } from "@astraflow/engine";
import { type Fault, fault } from "@astraflow/protocol";
import { chunkProblem } from "./row-shape.ts";

export interface InvalidChangeSet {
  readonly unit: number;
  readonly fault: Fault;
}

/** The first change set that must not be written, or null. `isTaken` says whether the turn holds a root. */
export function findInvalidChangeSet(units: readonly ChangeSet[], isTaken: (root: RowKey) => boolean): InvalidChangeSet | null {
  const seen = new Set<string>();
  for (const [index, unit] of units.entries()) {
    const problem = changeSetProblem(unit, seen, isTaken);
    if (problem !== null) return invalidChangeSet(index, problem);
  }
  return null;
}

export function invalidChangeSet(unit: number, problem: string, cause?: unknown): InvalidChangeSet {
  return { unit, fault: fault("E.INTERNAL", `change set ${unit} was refused: ${problem}`, { unit }, cause) };
}

function changeSetProblem(unit: ChangeSet, seen: Set<string>, isTaken: (root: RowKey) => boolean): string | null {
  for (const root of unit.roots) if (!isTaken(root)) return `the turn does not hold root ${root}`;
  let run = "";
  for (const row of unit.puts) {
    // Tasks of one run come together, so their root is asked for once.
    if ((row.kind !== "task" || row.run !== run) && !isRootOf(unit.roots[0], row)) {
      const root: RowKey = row.kind === "task" ? `run/${row.run}` : rootOf(keyOf(row));
      if (!isTaken(root)) return `${keyOf(row)} is written under ${root}, which the turn does not hold`;
    }
    if (row.kind === "task") run = row.run;
    if (row.kind === "run") run = row.id;
    // A task's id holds a dot and no kind, so it cannot be mistaken for the key of another row.
    const name = row.kind === "task" ? row.id : keyOf(row);
    if (seen.has(name)) return `${keyOf(row)} is written more than once in this turn`;
    seen.add(name);
    if (row.kind === "task" && runOf(row.id) !== row.run) return `task ${row.id} names run ${row.run}`;
  }
  for (const key of unit.deletes) {
    const root = rootOf(key);
    if (!isTaken(root)) return `${key} is dropped under ${root}, which the turn does not hold`;
    const name = key.startsWith("task/") ? key.slice(5) : key;
    if (seen.has(name)) return `${key} is written more than once in this turn`;
    seen.add(name);
  }
  return outputChunksProblem(unit) ?? taskQueueProblem(unit);
}

/** Output of a task is written by a turn that holds its run, like the task itself. */
function outputChunksProblem({ chunks, roots }: ChangeSet): string | null {
  for (const chunk of chunks ?? []) {
    const problem = chunkProblem(chunk);
    if (problem !== null) return problem;
    const root = runKey(runOf(chunk.task));
    if (!roots.includes(root))
      return `chunks of task ${chunk.task} are written without ${root} among the roots of the change set`;
  }
  return null;
}

/** Whether a root that was already found taken is this row's: compared by its end, without spelling the root anew for every row. */
function isRootOf(root: RowKey | undefined, row: Row): boolean {
  const run = row.kind === "task" ? row.run : row.kind === "run" ? row.id : null;
  return run !== null && root !== undefined && root.length === run.length + 4 && root.startsWith("run/") && root.endsWith(run);
}

function taskQueueProblem(unit: ChangeSet): string | null {
  const entering = new Set<string>();
  for (const { task, cost } of unit.enqueued) {
    if (entering.has(task)) return `task ${task} is queued twice`;
    if (!Number.isFinite(cost) || cost < 0) return `task ${task} is queued with the invalid cost ${cost}`;
    entering.add(task);
  }
  let found = 0;
  for (const row of unit.puts) {
    if (row.kind !== "task") continue;
    if (entering.has(row.id)) {
      found++;
      if (row.line === null) return `task ${row.id} is queued without naming its queue`;
    } else if (row.line !== null && row.rank === null) return `task ${row.id} is in queue ${row.line} without a rank`;
  }
  return found === entering.size ? null : "a task is queued but not written";
}

/** Workers that no longer meet the preconditions of these change sets. `find` returns a worker's stored row, or null where another turn holds it. */
export function findChangedWorkers(units: readonly ChangeSet[], find: (worker: WorkerId) => WorkerRow | null): WorkerId[] {
  const changedWorkers = new Set<WorkerId>();
  const found = new Map<WorkerId, WorkerRow | null>();
  for (const { workerPreconditions: relies } of units)
    for (const { worker, epoch } of relies ?? []) {
      let row = found.get(worker);
      if (row === undefined) found.set(worker, (row = find(worker)));
      if (row === null || row.epoch !== epoch || row.phase !== "online" || row.draining) changedWorkers.add(worker);
    }
  return [...changedWorkers];
}

export function changedWorkersFault(changedWorkers: readonly WorkerId[]): Fault {
  return fault("E.STORE.BUSY", `worker ${changedWorkers.join(", ")} changed after the turn read it; the turn is tried again`, {
    workers: changedWorkers,
  });
}
