// Dead letters: what is kept of a task that failed for good, until somebody has looked at it. One document each, under its run.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/fault-data.ts";
import type { TaskRow } from "../../storage/rows.ts";
import { searchWords } from "../../storage/search-terms.ts";
import { enclosingSlots, lastStep, nodeAt, type Slot } from "../rows/slot.ts";
import { nextRevision } from "../unit-of-work/documents.ts";
import type { RunProgress } from "./run-progress.ts";

/** Body of a letter as it is written; what becomes of it is the reader's to say. */
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

/** So much of a message is kept and searched: it is a stranger's text. */
const messageCharsMax = 2_000;

/** Whether a failure here is the end of it: nothing around it tries again, and nobody called who may yet make good of it. */
export function isFinalFailure(plan: Plan, slot: Slot): boolean {
  return enclosingSlots(slot).every((one) => {
    const { call, iteration } = lastStep(one);
    if (iteration !== null) return true;
    return call === null && (nodeAt(plan, one)?.container?.retry ?? null) === null;
  });
}

/** The row is on the unit of work as it failed; its failure is told after this, as the last word of the task. Not for what was called through a chain: its caller may yet make good of it. */
export function recordDeadLetter(progress: RunProgress, node: PlanNode, row: TaskRow, error: FaultData): void {
  const { work, run } = progress;
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
