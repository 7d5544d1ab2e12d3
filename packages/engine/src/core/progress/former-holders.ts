// Processes that were given a task and have not reported its end: one that knows no fences may still run it when it is given the task again.

import type { LeasedTask, TaskRow } from "../../storage/rows.ts";
import { knowsFences } from "../fleet/worker-abilities.ts";
import { type FormerHolder, readTaskState, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** The last ones are remembered. */
const formerHoldersMax = 4;

const isSameProcess = (a: FormerHolder, b: FormerHolder): boolean => a.worker === b.worker && a.boot === b.boot;

/** The task is taken from its worker without an outcome. */
export function withFormerHolder(work: UnitOfWork, task: LeasedTask): LeasedTask {
  const about = work.fleet.workers.get(task.worker)?.about;
  if (about !== undefined && knowsFences(about)) return task;
  const holder = { worker: task.worker, boot: task.boot };
  const others = (readTaskState(task).formerHolders ?? []).filter((one) => !isSameProcess(one, holder));
  return withTaskState(task, { formerHolders: [...others, holder].slice(-formerHoldersMax) });
}

/** The process has reported the end of an earlier attempt. */
export function withoutFormerHolder<R extends TaskRow>(task: R, holder: FormerHolder): R {
  const { formerHolders } = readTaskState(task);
  if (formerHolders === undefined) return task;
  const left = formerHolders.filter((one) => !isSameProcess(one, holder));
  return withTaskState(task, { formerHolders: left.length === 0 ? undefined : left });
}

export const isFormerHolder = (task: TaskRow, holder: FormerHolder): boolean =>
  task.state !== null && readTaskState(task).formerHolders?.some((one) => isSameProcess(one, holder)) === true;
