// What the API shows of a workflow that is kept.

import type { DraftChange, JsonObject, Workflow, WorkflowVersion } from "@astraflow/protocol";
import { type AskWords, type Change, type Head, namespaceDefault, revisionBy } from "./workflow-heads.ts";
import type { Version } from "./workflow-versions.ts";

export const instantOf = (at: number): string => new Date(at).toISOString();

/** The revision as a strong ETag. */
export const etagOf = (head: Head): string => `"r${head.revision}"`;

/** A workflow that was written, by name. */
export const refOf = (workflowId: string, revision: number, repeated: boolean) => ({
  body: { workflowId, revision },
  headers: { etag: `"r${revision}"`, ...(repeated && { "idempotent-replayed": "true" }) },
});

/** The same for a request that an equal one had forestalled; without the revision where that is no longer remembered. */
export function repeatOf(workflowId: string, head: Head | null, ask: AskWords | null) {
  const revision = revisionBy(head, ask);
  return revision === null
    ? { body: { workflowId }, headers: { "idempotent-replayed": "true" } }
    : refOf(workflowId, revision, true);
}

const aboutHead = (head: Head) => ({
  revision: head.revision,
  ...(head.version > 0 && { latestVersion: head.version }),
  createdAt: instantOf(head.createdAt),
  updatedAt: instantOf(head.updatedAt),
});

/** The draft with what stands beside it filled in. */
export function viewWorkflow(head: Head) {
  return { ...dressed(head), ...(head.preview !== null && { previewImage: head.preview }), ...aboutHead(head) };
}

function dressed(head: Head): Workflow {
  const { workflow, owner: ownerId, ownerName, createdBy, updatedBy } = head;
  const { namespace = namespaceDefault, originId = head.id } = workflow.metadata;
  return { ...workflow, metadata: { ...workflow.metadata, namespace, originId, ownerId, ownerName, createdBy, updatedBy } };
}

export const viewDraft = (head: Head) => ({
  workflowId: head.id,
  ...aboutHead(head),
  updatedBy: head.updatedBy,
  isPublished: head.version > 0 && head.publishedRevision === head.revision,
  workflow: head.workflow,
});

export const viewChange = ({ revision, by, at, edits }: Change): DraftChange => ({
  revision,
  by,
  at: instantOf(at),
  edits: edits as JsonObject[] | null,
});

export const viewVersion = (version: Version): WorkflowVersion => ({
  workflowId: version.workflowId,
  version: version.version,
  revision: version.revision,
  publishedAt: instantOf(version.at),
  publishedBy: version.by,
  versionHash: version.digest,
  ...(version.note !== undefined && { note: version.note }),
});
