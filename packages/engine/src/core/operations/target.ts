// The target of an operator's command: a node by its id, which may have many tasks, or one task by its path.

import type { Plan, PlanNode } from "@astraflow/graph";
import { Fault, fault } from "@astraflow/protocol";
import type { RetryNodeCommand, SkipNodeCommand } from "../../interface/command.ts";
import type { LiveRun, RunId, RunRow, TaskRow, Tenant } from "../../storage/rows.ts";
import { isRunLive } from "../rows/run.ts";
import { nodeAt, type TaskPath, taskIdAt } from "../rows/task-path.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

export interface NodeTarget {
  readonly node: PlanNode;
  /** The one task that is meant, whether or not it is there yet; null where the node may run more than once. */
  readonly path: TaskPath | null;
}

/** A run that can still be steered. Unknown and another tenant's get one and the same answer. */
export function findLiveRun(
  work: UnitOfWork,
  request: { readonly tenant: Tenant; readonly run: RunId },
  wayOut: string,
): LiveRun | Fault {
  const run = work.run(request.run);
  if (run === null || run.tenant !== request.tenant)
    return fault("E.NOT_FOUND", `run ${request.run} does not exist`, { run: request.run });
  if (isRunLive(run)) return run;
  return fault("E.RUN.TERMINAL", `run ${run.id} is ${run.phase}; ${wayOut}`, { run: run.id, phase: run.phase });
}

const taskPathPattern = /^\d+(?:[~*/]\d+)*$/;

/** `name`: a node's id, a task path, or a whole task id. */
export function findTarget(work: UnitOfWork, run: RunRow, name: string): NodeTarget | Fault {
  const plan = work.planOf(run);
  const path = name.startsWith(`${run.id}.`) ? name.slice(run.id.length + 1) : name;
  if (taskPathPattern.test(path)) {
    const node = nodeAt(plan, path);
    if (node !== null) return { node, path };
  } else {
    const node = findNode(plan, name);
    if (node !== null) {
      const runsOnce = plan.nodes[node.ordinal] === node && node.host === null;
      return { node, path: runsOnce ? String(node.ordinal) : null };
    }
  }
  return fault("E.NOT_FOUND", `run ${run.id} has no node ${name}`, { run: run.id, node: name });
}

function findNode(plan: Plan, id: string): PlanNode | null {
  const open = [plan];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const found = at.nodes.find((node) => node.id === id);
    if (found !== undefined) return found;
    for (const { container } of at.nodes) if (container !== null) open.push(container.body);
  }
  return null;
}

/** The matching open tasks of a run; a run with more open tasks than one turn reads must be handled task by task. */
export function openTasksOf(work: UnitOfWork, run: RunRow, fits: (node: PlanNode, task: TaskRow) => boolean): TaskRow[] | Fault {
  const { tasks, last } = work.openTasks(run.id, "", work.settings.sweepTasksMax);
  if (last !== null)
    return fault(
      "E.REQUEST.TOO_LARGE",
      `run ${run.id} has more than ${work.settings.sweepTasksMax} open tasks; name the task by its path`,
      { run: run.id, open: run.open },
    );
  return tasks.map((task) => work.existingTask(task.id)).filter((task) => fits(work.nodeOf(run, task), task));
}

/** The run, the node and the tasks that an operator's command is about. */
export function findTargetTasks(work: UnitOfWork, command: SkipNodeCommand | RetryNodeCommand, wayOut: string) {
  const run = findLiveRun(work, command, wayOut);
  if (isFault(run)) return run;
  const target = findTarget(work, run, command.node);
  if (isFault(target)) return target;
  const tasks = targetTasks(work, run, target);
  return isFault(tasks) ? tasks : { run, target, tasks };
}

/** The tasks of a target: the one it names, ended or not, or all open ones of its node. */
export function targetTasks(work: UnitOfWork, run: RunRow, target: NodeTarget): TaskRow[] | Fault {
  if (target.path === null) return openTasksOf(work, run, (node) => node === target.node);
  const task = work.task(taskIdAt(run.id, target.path));
  return task === null ? [] : [task];
}

export const refuseEnded = (task: TaskRow, wayOut: string): Fault =>
  fault("E.TASK.ENDED", `task ${task.id} is ${task.phase}; ${wayOut}`, { task: task.id, phase: task.phase });

export const isFault = <T>(value: T | Fault): value is Fault => value instanceof Fault;
