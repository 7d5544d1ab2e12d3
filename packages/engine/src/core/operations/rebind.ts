// Moving tasks of a run: what waits is pinned, what runs is taken back (`switch`) or ends there (`drain`), later tasks follow by a mark.

import type { PlanNode } from "@astraflow/graph";
import { type Fault, fault } from "@astraflow/protocol";
import type { RebindRunCommand } from "../../interface/command.ts";
import type { AffectedTask, AnswerBody } from "../../interface/effect.ts";
import { docKey, type OpenTask, type RunRow, type TaskRow, type WorkerId, type WorkerRow } from "../../storage/rows.ts";
import { requireHolderAddresses } from "../delivery/worker-mail.ts";
import { findStoredMismatch, type RouteMismatch } from "../fleet/route.ts";
import { type OperatorMarks, readMarks, withMarks } from "../nodes/operator-marks.ts";
import { repinTask } from "../placement/pins.ts";
import { takeBackAttempt, withoutDelivery } from "../progress/end-attempt.ts";
import { acquireAffinity, affinityOwner, boundWorker } from "../queueing/affinity.ts";
import { resourceRefsOf } from "../queueing/resource-refs.ts";
import { isEnded } from "../rows/task.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { findLiveRun, findTarget, isFault, type NodeTarget, openTasksOf, refuseEnded, targetTasks } from "./target.ts";

export function rebindRun(work: UnitOfWork, command: RebindRunCommand): AnswerBody | Fault {
  const run = findLiveRun(work, command, "a new run may be sent elsewhere");
  if (isFault(run)) return run;
  const target = command.node === null ? null : findTarget(work, run, command.node);
  if (isFault(target)) return target;
  const worker = command.worker === null ? null : findRebindWorker(work, command.worker, command);
  if (isFault(worker)) return worker;
  const rows = target === null ? openTasksOf(work, run, runsOnWorker) : targetTasks(work, run, target);
  if (isFault(rows)) return rows;
  const moving = selectMovableTasks(work, run, { target, worker, rows });
  if (isFault(moving)) return moving;
  const marked = withMarks(run, marksAfterRebind(work, run, target, worker, moving));
  work.put(marked);
  requireHolderAddresses(work, moving);
  const tasks = moving.flatMap((row) => {
    const now = work.existingTask(row.id);
    // A middleware that was taken back has ended what it called.
    return isEnded(now) ? [] : [moveTaskToWorker(work, command, now)];
  });
  work.recordRunFact(marked, "run.rebound", {
    by: command.by,
    mode: command.mode,
    node: command.node,
    worker: command.worker,
    tasks: tasks.map(({ task, from, to, sent }) => ({ task, from, to, sent })),
  });
  return { of: "steered", run: run.id, tasks };
}

/** Tasks that a worker runs; hosts have no worker of their own. */
const runsOnWorker = (_node: PlanNode, task: TaskRow): boolean => task.phase !== "hosting" && task.phase !== "waiting";

function findRebindWorker(work: UnitOfWork, id: WorkerId, command: RebindRunCommand): WorkerRow | Fault {
  const row = work.peekWorker(id);
  const name = id.slice(command.tenant.length + 1);
  if (row === null || row.tenant !== command.tenant)
    return fault("E.NOT_FOUND", `worker ${name} does not exist`, { worker: name });
  if (row.phase === "online" || row.phase === "away") return row;
  return fault("E.WORKER.LOST", `worker ${row.name} is ${row.phase} and cannot take work; name one that is connected`, {
    worker: row.name,
    phase: row.phase,
  });
}

interface RebindRequest {
  readonly target: NodeTarget | null;
  readonly worker: WorkerRow | null;
  readonly rows: readonly TaskRow[];
}

/** Open tasks that can go there. For one node that cannot the answer is why; of a whole run the others go. */
function selectMovableTasks(work: UnitOfWork, run: RunRow, { target, worker, rows }: RebindRequest): TaskRow[] | Fault {
  const nodeOf = (row: TaskRow): PlanNode => work.nodeOf(run, row);
  const [only] = rows;
  if (target !== null && only !== undefined && isEnded(only)) return refuseEnded(only, "there is nothing to move");
  const pinned = rows.find((row) => resourceRefsOf(nodeOf(row), row.params).length > 0);
  if (target !== null && pinned !== undefined)
    return fault("E.RESOURCE.CONFLICT", `task ${pinned.id} refers to a resource that is where it is; it cannot be moved`, {
      task: pinned.id,
    });
  const open = rows.filter((row) => runsOnWorker(nodeOf(row), row) && resourceRefsOf(nodeOf(row), row.params).length === 0);
  if (worker === null) return open;
  if (target !== null) {
    const mismatch = findStoredMismatch(run.tenant, target.node, worker);
    return mismatch === null ? open : refuseMismatch(worker, target.node, mismatch);
  }
  const fitting = open.filter((row) => findStoredMismatch(run.tenant, nodeOf(row), worker) === null);
  const first = open[0];
  if (fitting.length > 0 || first === undefined) return fitting;
  return refuseMismatch(worker, nodeOf(first), findStoredMismatch(run.tenant, nodeOf(first), worker) as RouteMismatch);
}

function refuseMismatch(worker: WorkerRow, node: PlanNode, mismatch: RouteMismatch): Fault {
  const has = mismatch.has === "" ? "nothing of it" : mismatch.has;
  return fault(
    "E.DISPATCH.UNFIT",
    `worker ${worker.name} cannot run node ${node.id} (${mismatch.code}: needs ${mismatch.needs}, has ${has}); name one that can`,
    { worker: worker.name, node: node.id, misfit: mismatch },
  );
}

/** Later tasks follow: those of one node by its id, those of a whole run by the packages that the worker has. */
function marksAfterRebind(
  work: UnitOfWork,
  run: RunRow,
  target: NodeTarget | null,
  worker: WorkerRow | null,
  rows: readonly TaskRow[],
): OperatorMarks {
  const nodes = target === null ? allNodes(work.planOf(run).nodes) : [target.node];
  const { workers = {}, avoid = {} } = readMarks(run);
  const [nextWorkers, nextAvoid]: [Record<string, WorkerId>, Record<string, WorkerId>] = [{ ...workers }, { ...avoid }];
  const keyOf = (node: PlanNode): string => (target === null ? node.packageName : node.id);
  for (const node of nodes) {
    delete nextWorkers[keyOf(node)];
    delete nextAvoid[keyOf(node)];
  }
  const rowOf = new Map(rows.map((row) => [work.nodeOf(run, row), row]));
  for (const node of nodes) {
    const key = keyOf(node);
    if (worker !== null) {
      if (findStoredMismatch(run.tenant, node, worker) === null) nextWorkers[key] = worker.id;
      continue;
    }
    const row = rowOf.get(node);
    const left = row?.worker ?? row?.pin ?? workers[key] ?? boundWorker(run, node.packageName);
    if (left !== null) nextAvoid[key] = left;
  }
  return { workers: nextWorkers, avoid: nextAvoid };
}

function allNodes(nodes: readonly PlanNode[]): PlanNode[] {
  return nodes.flatMap((node) => (node.container === null ? [node] : allNodes(node.container.body.nodes)));
}

function moveTaskToWorker(work: UnitOfWork, command: RebindRunCommand, task: OpenTask): AffectedTask {
  const run = work.existingRun(task.run);
  const node = work.nodeOf(run, task);
  const from = task.worker ?? task.pin;
  const isTaken = task.phase === "leased" && command.mode === "switch" && task.worker !== command.worker;
  const { worker: pin } = command;
  moveAffinityKey(work, run, node, pin, from);
  if (isTaken)
    takeBackAttempt(
      work,
      run,
      withoutDelivery({ ...task, pin }),
      { code: "E.RUNNER.CANCELLED", message: `moved by ${command.by}` },
      { mayRepeat: true },
    );
  else if (task.phase === "parked") work.moveTask(task, { type: "repin", pin, queue: null });
  else if (task.phase === "ready") repinTask(work, run, node, { ...task, pin });
  work.recordRunFact(run, "task.steered", { task: task.id, by: command.by, what: "rebind", reason: command.mode });
  return {
    task: task.id,
    node: node.id,
    from,
    to: task.phase === "leased" && !isTaken ? task.worker : command.worker,
    sent: isTaken ? "stop" : "none",
    phase: work.task(task.id)?.phase ?? task.phase,
  };
}

/** The task's affinity key moves with the task; otherwise the next task of the key would go back. */
function moveAffinityKey(work: UnitOfWork, run: RunRow, node: PlanNode, to: WorkerId | null, from: WorkerId | null): void {
  const { affinity } = node.policy;
  if (affinity === undefined) return;
  if (to !== null) acquireAffinity(work, run, affinity, to);
  else if (from !== null && affinityOwner(work, run.tenant, affinity.key) === from)
    work.delete(docKey(run.tenant, "affinity", affinity.key));
}
