// Stored workflows, drafts, versions and packages as the API shows them.

import type { DraftChange, JsonObject, Workflow, WorkflowVersion } from "@astraflow/protocol";
import { isoTime } from "../presentation/fields.ts";
import type { WorkflowPackageDocument, WorkflowPackageVersionEntry } from "./workflow-packages.ts";
import { type DraftRevision, defaultNamespace, type WorkflowDocument } from "./workflow-store.ts";
import type { WorkflowVersionDocument } from "./workflow-versions.ts";

/** The revision as a strong ETag. */
export const workflowEtag = (document: WorkflowDocument): string => `"r${document.revision}"`;

const documentFields = (document: WorkflowDocument) => ({
  revision: document.revision,
  ...(document.version > 0 && { latestVersion: document.version }),
  createdAt: isoTime(document.createdAt),
  updatedAt: isoTime(document.updatedAt),
});

/** The draft with the fields of its document filled in. */
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

export const presentWorkflowPackage = (pack: WorkflowPackageDocument) => ({
  id: pack.id,
  slug: pack.slug,
  displayName: pack.displayName,
  visibility: pack.visibility,
  ...(pack.summary !== undefined && { summary: pack.summary }),
  ...(pack.tags !== undefined && { tags: pack.tags }),
  ownerId: pack.owner,
  ownerName: pack.ownerName,
  updatedAt: isoTime(pack.updatedAt),
  ...(pack.versions[0] !== undefined && { latestVersion: pack.versions[0].version }),
  ...(pack.preview !== null && { previewImage: pack.preview }),
});

export const presentPackageVersion = (one: WorkflowPackageVersionEntry) => ({
  id: one.id,
  version: one.version,
  publishedAt: isoTime(one.at),
  publisherId: one.by,
  ...(one.changelog !== undefined && { changelog: one.changelog }),
});
