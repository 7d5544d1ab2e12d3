// What every store checks of a turn's units before it writes one: the roots are held, each row comes once, what enters a line is
// there to enter it. Whether a row's fields can be stored is the tables' business.

import type { ChangeSet, Row, RowKey, TaskRow, WorkerId, WorkerRow } from "@astraflow/engine";
import { keyOf, rootOf, runKey, runOf } from "@astraflow/engine";
import { type Fault, fault } from "@astraflow/protocol";
import { chunkProblem, openPhases } from "./row-shape.ts";

export interface InvalidChangeSet {
  readonly unit: number;
  readonly fault: Fault;
}

/** The first unit that may not be written, or null. `isTaken` answers for a root. */
export function findInvalidChangeSet(units: readonly ChangeSet[], isTaken: (root: RowKey) => boolean): InvalidChangeSet | null {
  const seen = new Set<string>();
  for (const [index, unit] of units.entries()) {
    const problem = changeSetProblem(unit, seen, isTaken);
    if (problem !== null) return { unit: index, fault: refusedChangeSetFault(index, problem) };
  }
  return null;
}

export function refusedChangeSetFault(unit: number, problem: string, cause?: unknown): Fault {
  return fault("E.INTERNAL", `unit ${unit} was refused: ${problem}`, { unit }, cause);
}

function changeSetProblem(unit: ChangeSet, seen: Set<string>, isTaken: (root: RowKey) => boolean): string | null {
  for (const root of unit.roots) if (!isTaken(root)) return `root ${root} was not taken in this turn`;
  let run = "";
  for (const row of unit.puts) {
    // Tasks of one run come together, so their root is asked for once.
    if ((row.kind !== "task" || row.run !== run) && !isRootOf(unit.roots[0], row)) {
      const root: RowKey = row.kind === "task" ? `run/${row.run}` : rootOf(keyOf(row));
      if (!isTaken(root)) return `${keyOf(row)} is written under ${root}, which was not taken in this turn`;
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
    const isTask = key.startsWith("task/");
    const root = rootOf(key);
    if (!isTaken(root)) return `${key} is dropped under ${root}, which was not taken in this turn`;
    const name = isTask ? key.slice(5) : key;
    if (seen.has(name)) return `${key} is written more than once in this turn`;
    seen.add(name);
  }
  return outputChunksProblem(unit) ?? taskQueueProblem(unit);
}

/** What a task printed is written with its run in hand, like the task itself; otherwise it takes no lock. */
function outputChunksProblem({ chunks, roots }: ChangeSet): string | null {
  for (const chunk of chunks ?? []) {
    const problem = chunkProblem(chunk);
    if (problem !== null) return problem;
    const root = runKey(runOf(chunk.task));
    if (!roots.includes(root)) return `chunks of task ${chunk.task} are written without ${root} among the unit's roots`;
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
    if (entering.has(task)) return `task ${task} enters a line twice`;
    if (!Number.isFinite(cost) || cost < 0) return `task ${task} enters a line at a cost of ${cost}`;
    entering.add(task);
  }
  let found = 0;
  for (const row of unit.puts) {
    if (row.kind !== "task") continue;
    if (entering.has(row.id)) {
      found++;
      if (row.line === null) return `task ${row.id} enters a line but names none`;
    } else if (row.line !== null && row.rank === null) return `task ${row.id} stands in line ${row.line} without a rank`;
  }
  return found === entering.size ? null : "a task enters a line without being written";
}

/** Workers that are not what these units rely on. `find` gives a worker's row as it is stored, or null when it is in other hands. */
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
  return fault("E.STORE.BUSY", `worker ${changedWorkers.join(", ")} has changed meanwhile`, { workers: changedWorkers });
}

/** A task that was in a line and, by this image (null: dropped), no longer stands at that place of it. */
export function leavesTaskQueue(before: TaskRow, after: TaskRow | null): boolean {
  return before.line !== null && (after === null || after.line !== before.line || after.phase !== before.phase);
}

/** Ended tasks and runs change no more, so nothing waits on them. */
export function hasEnded(row: Row): boolean {
  if (row.kind === "run") return row.phase === "succeeded" || row.phase === "failed" || row.phase === "cancelled";
  return row.kind === "task" && !openPhaseSet.has(row.phase);
}

const openPhaseSet: ReadonlySet<string> = new Set(openPhases);
