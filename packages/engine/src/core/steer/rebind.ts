// How work of a run is moved to another worker: what waits goes there at once, what runs is taken back (`switch`) or ends where it is
// (`drain`), and what comes later follows, by a mark in the run.

import type { PlanNode } from "@astraflow/graph";
import { type Fault, fault } from "@astraflow/protocol";
import type { RebindRun } from "../../command.ts";
import type { AnswerBody, Steered } from "../../effect.ts";
import { docKey, type RunRow, type TaskRow, type WorkerId, type WorkerRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { takeBack } from "../flow/end.ts";
import { type Marks, marksOf, withMarks } from "../flow/marks.ts";
import { keepAffinity, ownerOf } from "../place/affinity.ts";
import { boundWorker } from "../place/bindings.ts";
import { bindTask } from "../place/pins.ts";
import { needAddresses } from "../place/post.ts";
import { refsOf } from "../place/refs.ts";
import { announcedBy, fits, type Misfit, needsOf } from "../place/route.ts";
import { isEnded, moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { isFault, liveRun, openTasksOf, type Target, targetOf, tasksOf } from "./target.ts";

export function rebindRun(board: Board, tools: Tools, order: RebindRun): AnswerBody | Fault {
  const run = liveRun(board, order, "a new run may be sent elsewhere");
  if (isFault(run)) return run;
  const target = order.node === null ? null : targetOf(board, tools, run, order.node);
  if (isFault(target)) return target;
  const worker = order.worker === null ? null : workerFor(board, order.worker, order);
  if (isFault(worker)) return worker;
  const rows = target === null ? openTasksOf(board, tools, run, isCarried) : tasksOf(board, tools, run, target);
  if (isFault(rows)) return rows;
  const moving = rowsToMove(board, tools, run, { target, worker, rows });
  if (isFault(moving)) return moving;
  const marked = withMarks(run, marksFor(board, tools, run, target, worker, moving));
  board.put(marked);
  needAddresses(board, tools, moving);
  const tasks = moving.flatMap((row) => {
    const now = board.task(row.id) as TaskRow;
    // A middleware that was taken back has ended what it called.
    return isEnded(now) ? [] : [moveOne(board, tools, order, now)];
  });
  board.tell(marked, "run.rebound", {
    by: order.by,
    mode: order.mode,
    node: order.node,
    worker: order.worker,
    tasks: tasks.map(({ task, from, to, sent }) => ({ task, from, to, sent })),
  });
  return { of: "steered", run: run.id, tasks };
}

/** Whoever is run by a worker; hosts are where their parts are. */
const isCarried = (_node: PlanNode, task: TaskRow): boolean => task.phase !== "hosting" && task.phase !== "waiting";

function workerFor(board: Board, id: WorkerId, order: RebindRun): WorkerRow | Fault {
  const row = board.address(id);
  const name = id.slice(order.tenant.length + 1);
  if (row === null || row.tenant !== order.tenant) return fault("E.NOT_FOUND", `worker ${name} does not exist`, { worker: name });
  if (row.phase === "online" || row.phase === "away") return row;
  return fault("E.WORKER.LOST", `worker ${row.name} is ${row.phase} and cannot take work; name one that is connected`, {
    worker: row.name,
    phase: row.phase,
  });
}

interface Wish {
  readonly target: Target | null;
  readonly worker: WorkerRow | null;
  readonly rows: readonly TaskRow[];
}

/** Open tasks that can go there. For one node that cannot the answer is why; of a whole run the others go. */
function rowsToMove(board: Board, tools: Tools, run: RunRow, { target, worker, rows }: Wish): TaskRow[] | Fault {
  const nodeOf = (row: TaskRow): PlanNode => tools.plans.nodeOf(board, run, row);
  const [only] = rows;
  if (target !== null && only !== undefined && isEnded(only))
    return fault("E.TASK.ENDED", `task ${only.id} is ${only.phase}; there is nothing to move`, {
      task: only.id,
      phase: only.phase,
    });
  const pinned = rows.find((row) => refsOf(nodeOf(row), row.params).length > 0);
  if (target !== null && pinned !== undefined)
    return fault("E.RESOURCE.CONFLICT", `task ${pinned.id} refers to a resource that is where it is; it cannot be moved`, {
      task: pinned.id,
    });
  const open = rows.filter((row) => isCarried(nodeOf(row), row) && refsOf(nodeOf(row), row.params).length === 0);
  if (worker === null) return open;
  if (target !== null) {
    const misfit = misfitOf(run, target.node, worker);
    return misfit === null ? open : unfit(worker, target.node, misfit);
  }
  const fitting = open.filter((row) => misfitOf(run, nodeOf(row), worker) === null);
  const first = open[0];
  if (fitting.length > 0 || first === undefined) return fitting;
  return unfit(worker, nodeOf(first), misfitOf(run, nodeOf(first), worker) as Misfit);
}

const misfitOf = (run: RunRow, node: PlanNode, worker: WorkerRow): Misfit | null =>
  fits(needsOf(run.tenant, node), { tenant: worker.tenant, about: announcedBy(worker) });

function unfit(worker: WorkerRow, node: PlanNode, misfit: Misfit): Fault {
  const has = misfit.has === "" ? "nothing of it" : misfit.has;
  return fault(
    "E.DISPATCH.UNFIT",
    `worker ${worker.name} cannot run node ${node.id} (${misfit.code}: needs ${misfit.needs}, has ${has}); name one that can`,
    { worker: worker.name, node: node.id, misfit },
  );
}

/** What comes later follows: of one node by its id, of a whole run by the packages that the worker has. */
function marksFor(
  board: Board,
  tools: Tools,
  run: RunRow,
  target: Target | null,
  worker: WorkerRow | null,
  rows: readonly TaskRow[],
): Marks {
  const nodes = target === null ? allNodes(tools.plans.of(board, run).nodes) : [target.node];
  const { workers = {}, avoid = {} } = marksOf(run);
  const [nextWorkers, nextAvoid]: [Record<string, WorkerId>, Record<string, WorkerId>] = [{ ...workers }, { ...avoid }];
  const keyOf = (node: PlanNode): string => (target === null ? node.packageName : node.id);
  for (const node of nodes) {
    delete nextWorkers[keyOf(node)];
    delete nextAvoid[keyOf(node)];
  }
  const rowOf = new Map(rows.map((row) => [tools.plans.nodeOf(board, run, row), row]));
  for (const node of nodes) {
    const key = keyOf(node);
    if (worker !== null) {
      if (misfitOf(run, node, worker) === null) nextWorkers[key] = worker.id;
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

function moveOne(board: Board, tools: Tools, order: RebindRun, task: TaskRow): Steered {
  const run = board.run(task.run) as RunRow;
  const node = tools.plans.nodeOf(board, run, task);
  const from = task.worker ?? task.pin;
  const isTaken = task.phase === "leased" && order.mode === "switch" && task.worker !== order.worker;
  moveKey(board, run, node, order.worker, from);
  const meant = { ...task, pin: order.worker };
  if (isTaken)
    takeBack(
      board,
      tools,
      run,
      { ...meant, deliveries: Math.max(0, task.deliveries - 1) },
      {
        unacked: false,
        code: "E.RUNNER.CANCELLED",
        message: `moved by ${order.by}`,
      },
    );
  else if (task.phase === "parked")
    board.put(moveTask(task, { type: "repin", pin: order.worker, line: task.line, due: task.due }, board.now));
  else if (task.phase === "ready") {
    const bound = bindTask(board, tools, run, node, { ...meant, line: task.line });
    if (bound !== null && bound.line !== task.line) board.fresh.push(bound.id);
  }
  board.tell(run, "task.steered", { task: task.id, by: order.by, what: "rebind", reason: order.mode });
  return {
    task: task.id,
    node: node.id,
    from,
    to: task.phase === "leased" && !isTaken ? task.worker : order.worker,
    sent: isTaken ? "stop" : "none",
    phase: board.task(task.id)?.phase ?? task.phase,
  };
}

/** The task's affinity key goes where the task goes; else the next of its kind would be back. */
function moveKey(board: Board, run: RunRow, node: PlanNode, to: WorkerId | null, from: WorkerId | null): void {
  const { affinity } = node.policy;
  if (affinity === undefined) return;
  if (to !== null) keepAffinity(board, run, affinity, to);
  else if (from !== null && ownerOf(board, run.tenant, affinity.key) === from)
    board.drop(docKey(run.tenant, "affinity", affinity.key));
}
