// What the functions of this folder work with: the starter of runs, their history and the bulk changes, each built once.

import type { StoreReader } from "@astraflow/engine";
import type { EngineClient } from "../environment/engine-client.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import type { WorkflowServices } from "../workflows/workflow-services.ts";
import { type BulkChanges, createBulkChanges } from "./bulk-changes.ts";
import { createBulkRunChange, needsChange } from "./bulk-run-change.ts";
import { createRunHistory, type RunHistory } from "./run-history.ts";
import { RunStarter } from "./run-starter.ts";

export interface RunServices {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: ServiceEnvironment;
  readonly digest: (text: string) => string;
  readonly ackDeadlineMs: number;
  readonly starter: RunStarter;
  /** Shared by all routes: one continues from what another has folded. */
  readonly history: RunHistory;
  readonly bulk: BulkChanges;
}

export function createRunServices(workflows: WorkflowServices, ackDeadlineMs: number): RunServices {
  const { engineClient, reader, environment, digest } = workflows;
  const base = { engineClient, reader, environment, digest };
  const starter = new RunStarter(workflows);
  const bulk = createBulkChanges({ ...base, applyChange: createBulkRunChange(base, starter), needsChange });
  return { ...base, ackDeadlineMs, starter, history: createRunHistory(reader), bulk };
}
