// What the API shows of a workflow that is kept.

import type { DraftChange, JsonObject, Workflow, WorkflowVersion } from "@astraflow/protocol";
import {
  type DraftRevision,
  defaultNamespace,
  revisionMadeBy,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
} from "./workflow-store.ts";
import type { WorkflowVersionDocument } from "./workflow-version-routes.ts";

export const isoTime = (at: number): string => new Date(at).toISOString();

/** The revision as a strong ETag. */
export const workflowEtag = (document: WorkflowDocument): string => `"r${document.revision}"`;

/** A workflow that was written, by name. */
export const workflowRefReply = (workflowId: string, revision: number, repeated: boolean) => ({
  body: { workflowId, revision },
  headers: { etag: `"r${revision}"`, ...(repeated && { "idempotent-replayed": "true" }) },
});

/** The same for a request that an equal one had forestalled; without the revision where that is no longer remembered. */
export function repeatedReply(workflowId: string, document: WorkflowDocument | null, ask: WorkflowIdempotencyKey | null) {
  const revision = revisionMadeBy(document, ask);
  return revision === null
    ? { body: { workflowId }, headers: { "idempotent-replayed": "true" } }
    : workflowRefReply(workflowId, revision, true);
}

const documentFields = (document: WorkflowDocument) => ({
  revision: document.revision,
  ...(document.version > 0 && { latestVersion: document.version }),
  createdAt: isoTime(document.createdAt),
  updatedAt: isoTime(document.updatedAt),
});

/** The draft with what stands beside it filled in. */
export function presentWorkflow(document: WorkflowDocument) {
  return {
    ...withOwnership(document),
    ...(document.preview !== null && { previewImage: document.preview }),
    ...documentFields(document),
  };
}

function withOwnership(document: WorkflowDocument): Workflow {
  const { workflow, owner: ownerId, ownerName, createdBy, updatedBy } = document;
  const { namespace = defaultNamespace, originId = document.id } = workflow.metadata;
  return { ...workflow, metadata: { ...workflow.metadata, namespace, originId, ownerId, ownerName, createdBy, updatedBy } };
}

export const presentDraft = (document: WorkflowDocument) => ({
  workflowId: document.id,
  ...documentFields(document),
  updatedBy: document.updatedBy,
  isPublished: document.version > 0 && document.publishedRevision === document.revision,
  workflow: document.workflow,
});

export const presentDraftChange = ({ revision, by, at, edits }: DraftRevision): DraftChange => ({
  revision,
  by,
  at: isoTime(at),
  edits: edits as JsonObject[] | null,
});

export const presentVersion = (version: WorkflowVersionDocument): WorkflowVersion => ({
  workflowId: version.workflowId,
  version: version.version,
  revision: version.revision,
  publishedAt: isoTime(version.at),
  publishedBy: version.by,
  versionHash: version.digest,
  ...(version.note !== undefined && { note: version.note }),
});
