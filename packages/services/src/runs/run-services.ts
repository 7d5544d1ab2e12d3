// What a scheduler does with runs, each part built once.

import type { WorkflowServices } from "../workflows/workflow-services.ts";
import { BulkChanges } from "./bulk-changes.ts";
import { createBulkRunChange, needsChange } from "./bulk-runs.ts";
import { DeadLetters } from "./dead-letters.ts";
import { RunControl } from "./run-control.ts";
import { RunReader } from "./run-reader.ts";
import { RunStarter } from "./run-starter.ts";

export type RunServices = ReturnType<typeof createRunServices>;

export function createRunServices(workflows: WorkflowServices, ackDeadlineMs: number) {
  const { engineClient, reader, environment, digest } = workflows;
  const context = { engineClient, reader, environment, digest };
  const starter = new RunStarter(workflows);
  const control = new RunControl(context, starter);
  const deadLetters = new DeadLetters(context, starter, control);
  const applyChange = createBulkRunChange(context, { starter, control, deadLetters });
  const bulk = new BulkChanges({ ...context, applyChange, needsChange });
  return { ...context, starter, control, deadLetters, bulk, runReader: new RunReader(context, ackDeadlineMs) };
}
