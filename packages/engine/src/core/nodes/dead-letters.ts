// Dead letters: records of tasks that failed for good, until somebody has handled them. One document each, under its run.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { EndedTask } from "../../storage/rows.ts";
import { searchWords } from "../../storage/search-terms.ts";
import { enclosingPaths, lastStep, nodeAt, type TaskPath, taskPathOf } from "../rows/task-path.ts";
import { nextRevision } from "../unit-of-work/documents.ts";
import type { RunProgress } from "./run-progress.ts";

/** Body of a dead letter when it is written; later changes are the reader's. */
export interface DeadLetterRecord {
  readonly run: string;
  readonly node: string;
  readonly label: string;
  readonly code: string;
  readonly message: string;
  readonly attempts: number;
  readonly failures: number;
  readonly at: number;
  readonly worker: string | null;
  readonly status: "open";
}

/** So much of a message is stored and searched: it is untrusted text. */
const messageCharsMax = 2_000;

/** Whether somebody in a chain waits for this node, and so decides what its failure means. */
export const isChainCall = (node: PlanNode, path: TaskPath): boolean => node.host !== null || lastStep(path).call !== null;

/** Whether a failure here is final: no container around it retries, and no caller in a chain may still handle it. */
export function isFinalFailure(plan: Plan, path: TaskPath): boolean {
  return enclosingPaths(path).every((one) => {
    const { call, iteration } = lastStep(one);
    if (iteration !== null) return true;
    return call === null && (nodeAt(plan, one)?.container?.retry ?? null) === null;
  });
}

/**
 * Records a failure that is final. The failed row is written already; `task.failed` is recorded after this, as the last fact of the task.
 * Not for calls of a chain: the caller may still handle their failure.
 */
export function recordDeadLetter(progress: RunProgress, node: PlanNode, row: EndedTask, error: FaultData): void {
  const { work, run } = progress;
  const path = taskPathOf(row);
  if (isChainCall(node, path) || !isFinalFailure(progress.plan, path)) return;
  const message = error.message.slice(0, messageCharsMax).toWellFormed();
  const deadLetter: DeadLetterRecord = {
    run: run.id,
    node: node.id,
    label: node.label,
    code: error.code,
    message,
    attempts: row.attempt,
    // The attempt that ended it is not in the row's count: that one counts what led to another try.
    failures: row.attempt === 0 ? 0 : row.failures + 1,
    at: work.now,
    worker: row.worker,
    status: "open",
  };
  work.insert(
    nextRevision(work, [run.tenant, "letter", row.id], null, {
      due: null,
      sort: String(work.now).padStart(15, "0"),
      terms: [...new Set([run.label, node.label, node.type, error.code, message].flatMap(searchWords))].join(" "),
      body: JSON.stringify(deadLetter),
    }),
  );
  progress.record("task.dead", { task: row.id, code: error.code });
}
