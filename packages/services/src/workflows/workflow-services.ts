// What the functions of this folder work with: the three stores of workflows, built once.

import { createWorkflowPackageStore, type WorkflowPackageStore } from "./workflow-package-store.ts";
import { createWorkflowStore, type WorkflowStore, type WorkflowStoreOptions } from "./workflow-store.ts";
import { createWorkflowVersionStore, type WorkflowVersionStore } from "./workflow-versions.ts";

export interface WorkflowServices extends WorkflowStoreOptions {
  readonly store: WorkflowStore;
  readonly versions: WorkflowVersionStore;
  readonly packages: WorkflowPackageStore;
}

export const createWorkflowServices = (options: WorkflowStoreOptions): WorkflowServices => ({
  ...options,
  store: createWorkflowStore(options),
  versions: createWorkflowVersionStore(options),
  packages: createWorkflowPackageStore(options),
});
