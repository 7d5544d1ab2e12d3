// What a scheduler does with runs, each part built once.

import type { WorkflowServices } from "../workflows/workflow-services.ts";
import { type ApplyBulkChange, BulkChanges } from "./bulk-changes.ts";
import { createBulkRunChange, moveLargeRuns, needsChange } from "./bulk-runs.ts";
import { DeadLetters } from "./dead-letters.ts";
import { RunControl } from "./run-control.ts";
import { RunReader } from "./run-reader.ts";
import { RunStarter } from "./run-starter.ts";

export type RunServices = ReturnType<typeof createRunServices>;

export interface RunServicesOptions {
  readonly ackDeadlineMs: number;
  /** Changes a run that is too large for this thread; absent: there is none. */
  readonly changeRunElsewhere?: ApplyBulkChange | undefined;
  /** Bulk changes that nobody works on are taken over here; unless it is false, they are. */
  readonly hasBulkPolling?: boolean;
}

export function createRunServices(workflows: WorkflowServices, options: RunServicesOptions) {
  const { ackDeadlineMs, changeRunElsewhere, hasBulkPolling: hasPolling = true } = options;
  const { engineClient, reader, environment, digest } = workflows;
  const context = { engineClient, reader, environment, digest };
  const starter = new RunStarter(workflows);
  const control = new RunControl(context, starter);
  const deadLetters = new DeadLetters(context, starter, control);
  const changeRun = createBulkRunChange(context, { starter, control, deadLetters });
  const applyChange = changeRunElsewhere === undefined ? changeRun : moveLargeRuns(changeRun, changeRunElsewhere);
  const bulk = new BulkChanges({ ...context, applyChange, needsChange, hasPolling });
  return { ...context, starter, control, deadLetters, bulk, changeRun, runReader: new RunReader(context, ackDeadlineMs) };
}
