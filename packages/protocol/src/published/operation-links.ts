// Which operation reads what another one has made, for the OpenAPI document: tools follow these links, and readers see where an id leads.

import type { RouteName } from "../rest/routes/route-table.ts";

/** For each path parameter of the target where its value is in the answer. */
type OperationLinks = { readonly [Target in RouteName]?: Readonly<Record<string, string>> };

const answered = (field: string) => `$response.body#/${field}`;
const runLinks = { getRun: { runId: answered("runId") } };
const workflowLinks = { getWorkflow: { workflowId: answered("workflowId") } };
const commandLinks = { getCommand: { commandId: answered("commandId") } };
const rolloutLinks = { getRollout: { packageName: answered("packageName"), rolloutId: answered("rolloutId") } };
const resourceLinks = {
  getResource: { resourceId: answered("resourceId") },
  downloadResource: { resourceId: answered("resourceId") },
};

export const operationLinks: { readonly [N in RouteName]?: OperationLinks } = {
  startRun: { ...runLinks, listRunNodes: { runId: answered("runId") }, listRunEvents: { runId: answered("runId") } },
  cancelRun: runLinks,
  retryRun: runLinks,
  replayRun: runLinks,
  requeueDeadLetter: runLinks,
  changeRuns: { getBulk: { bulkId: answered("bulkId") } },
  drainWorker: commandLinks,
  undrainWorker: commandLinks,
  kickWorker: commandLinks,
  commandWorker: commandLinks,
  enrolWorker: { getWorker: { workerId: answered("instanceId") } },
  saveWorkflow: { ...workflowLinks, getDraft: { workflowId: answered("workflowId") } },
  importWorkflow: workflowLinks,
  cloneWorkflowPackage: workflowLinks,
  publishVersion: { getVersion: { workflowId: answered("workflowId"), version: answered("version") } },
  publishWorkflow: { getWorkflowPackage: { packageId: answered("packageId") } },
  publishPackage: {
    getPackageVersion: { packageName: answered("name"), packageVersion: answered("version") },
    downloadPackage: { packageName: answered("name"), packageVersion: answered("version") },
  },
  installPackage: { getInstall: { packageName: answered("packageName"), installId: answered("installId") } },
  startRollout: rolloutLinks,
  stopRollout: rolloutLinks,
  rollbackPackage: rolloutLinks,
  addPackageKey: { getPackageKey: { keyId: answered("keyId") } },
  createUser: { getUser: { userId: answered("userId") } },
  createResource: resourceLinks,
  completeUpload: resourceLinks,
  createUpload: { getUpload: { uploadId: answered("uploadId") } },
  createResourceGrant: { getResourceGrant: { grantId: answered("grantId") } },
  createView: { getView: { viewId: answered("viewId") } },
};
