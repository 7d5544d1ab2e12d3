// Warnings of a task and where they are stored; whether a value that does not match the schema of its node fails the task or is a warning.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { RunRow, TaskRow } from "../../storage/rows.ts";
import { readTaskState, type TaskWarning, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** A node may return any number of results in its calls, and its schema is written by others: neither must fill the row. */
const warningLimits = { countMax: 10, messageCharsMax: 500, fieldCharsMax: 200 } as const;

export const isSchemaEnforced = ({ schemaMode }: PlanNode): boolean => schemaMode === "enforce";

const truncateText = (text: string, charsMax: number): string => (text.length > charsMax ? `${text.slice(0, charsMax)}…` : text);

/** The row with the warning, which is in the log too; the same one twice is stored and recorded once. */
export function recordWarning<R extends TaskRow>(work: UnitOfWork, run: RunRow, node: PlanNode, task: R, problem: FaultData): R {
  const { countMax, messageCharsMax, fieldCharsMax } = warningLimits;
  const warning: TaskWarning = {
    code: problem.code,
    message: truncateText(problem.message, messageCharsMax),
    field: truncateText(String(problem.details?.["field"] ?? ""), fieldCharsMax),
  };
  const { warnings = [] } = readTaskState(task);
  const isKnown = warnings.some(({ code, message }) => code === warning.code && message === warning.message);
  if (isKnown || warnings.length >= countMax) return task;
  work.recordTaskFact(run, "task.warning", task, { node: node.id, ...warning });
  return withTaskState(task, { warnings: [...warnings, warning] });
}
