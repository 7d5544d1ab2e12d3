// Stored workflows, drafts, versions and packages as the API shows them.

import { type DraftChange, type JsonObject, omitUndefined, type Workflow, type WorkflowVersion } from "@astraflow/protocol";
import { isoTime } from "../presentation/iso-time.ts";
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

export const presentVersion = (document: WorkflowVersionDocument): WorkflowVersion => {
  const { workflowId, version, revision, at, by: publishedBy, digest: versionHash, note } = document;
  return { workflowId, version, revision, publishedAt: isoTime(at), publishedBy, versionHash, ...omitUndefined({ note }) };
};

export const presentWorkflowPackage = (pack: WorkflowPackageDocument) => {
  const { id, slug, displayName, visibility, summary, tags, owner: ownerId, ownerName, preview } = pack;
  const about = { id, slug, displayName, visibility, ...omitUndefined({ summary, tags }), ownerId, ownerName };
  const previewImage = preview ?? undefined;
  const newest = pack.versions[0];
  // Every publication sets the picture of its package, so the package's is that of its newest version.
  const latestVersion = newest && { ...presentPackageVersion(newest), ...omitUndefined({ previewImage }) };
  return { ...about, updatedAt: isoTime(pack.updatedAt), ...omitUndefined({ latestVersion, previewImage }) };
};

export const presentPackageVersion = ({ id, version, at, by: publisherId, changelog }: WorkflowPackageVersionEntry) => ({
  id,
  version,
  publishedAt: isoTime(at),
  publisherId,
  ...omitUndefined({ changelog }),
});
