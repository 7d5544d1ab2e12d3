// What a scheduler does with workflows, each part built once.

import { WorkflowDrafts } from "./workflow-drafts.ts";
import { WorkflowFiles } from "./workflow-files.ts";
import { WorkflowPackages } from "./workflow-packages.ts";
import { type WorkflowContext, WorkflowStore } from "./workflow-store.ts";
import { WorkflowVersions } from "./workflow-versions.ts";

export type WorkflowServices = ReturnType<typeof createWorkflowServices>;

export function createWorkflowServices(context: WorkflowContext) {
  const store = new WorkflowStore(context);
  const versions = new WorkflowVersions(store);
  const packages = new WorkflowPackages(store);
  const drafts = new WorkflowDrafts(store, versions);
  return { ...context, store, versions, packages, drafts, files: new WorkflowFiles(store, versions) };
}
