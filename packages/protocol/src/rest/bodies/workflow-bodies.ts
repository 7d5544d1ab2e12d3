// REST bodies about stored workflows: drafts and their edits, published versions, files, and workflows published as packages.

import type { Static, TSchema } from "typebox";
import { WorkflowSchema } from "../../definitions/workflow.ts";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageAsOf } from "./body-parts.ts";
import { WorkflowEditSchema } from "./workflow-edit-bodies.ts";

/** Characters of a picture, as a data address or a link. */
export const previewCharsMax = 1_048_576;
/** Edits in one request; an editor saves every few of them. */
export const editsMax = 5_000;

/** What is stored about a workflow besides its definition. */
const storedFields = {
  revision: t.integer(1, "Of the draft; raised by every change of it, and its ETag."),
  latestVersion: t.optional(t.integer(1, "Number of the newest published version.")),
  createdAt: t.instant(),
  updatedAt: t.instant(),
};
export const StoredWorkflowSchema = t.intersect([
  WorkflowSchema,
  t.object({ ...storedFields, asOf: t.optional(asOfPosition()) }),
]);
/** A workflow sent to be saved. */
export const WorkflowSaveRequestSchema = t.intersect([
  WorkflowSchema,
  t.object({ allowUnknown: t.optional(t.allowUnknownFlag()) }),
]);
/** A workflow sent to be checked. Nothing is asked of it: what it lacks is what the answer tells. */
export const WorkflowCheckRequestSchema = t.openObject(
  "A workflow as it would be saved; the answer lists what is wrong with it, missing and misspelt fields included.",
  { properties: { allowUnknown: t.nullable(t.allowUnknownFlag()) }, additionalProperties: true },
);
export const WorkflowListSchema = pageAsOf(StoredWorkflowSchema);
export const WorkflowProblemSchema = t.object({
  path: t.string({ description: "JSON pointer into the workflow." }),
  code: t.id(),
  message: t.text(),
  node: t.optional(t.id()),
  severity: t.oneOf(["error", "warning"]),
});
export type WorkflowProblem = Static<typeof WorkflowProblemSchema>;

export const WorkflowRefSchema = t.object({
  workflowId: t.id(),
  revision: t.optional(t.integer(1)),
  problems: t.optional(t.list(WorkflowProblemSchema)),
});
export type WorkflowRef = Static<typeof WorkflowRefSchema>;

export const WorkflowCheckSchema = t.object({
  isValid: t.boolean({ description: "Nothing worse than a warning." }),
  problems: t.list(WorkflowProblemSchema),
  asOf: asOfPosition(),
});

export const WorkflowPreviewSchema = t.object({
  previewImage: t.optional(t.string({ maxLength: previewCharsMax })),
  asOf: t.optional(asOfPosition()),
});
/** Absent or null: no picture. The `asOf` of a picture that was read may be sent back with it. */
export const WorkflowPreviewRequestSchema = t.object({
  previewImage: t.optional(t.nullable(t.string({ maxLength: previewCharsMax }))),
});
export const readWorkflowPreview = createBodyReader(WorkflowPreviewRequestSchema, { ignoredKeys: ["asOf"] });

/** What one saving did to a draft. */
export const DraftChangeSchema = t.object({
  revision: t.integer(1),
  by: t.id(),
  at: t.instant(),
  edits: t.nullable(t.list(WorkflowEditSchema), "null: too many to be stored."),
});
export type DraftChange = Static<typeof DraftChangeSchema>;

export const WorkflowDraftSchema = t.object({
  workflowId: t.id(),
  ...storedFields,
  updatedBy: t.id(),
  isPublished: t.boolean({ description: "The draft is the newest version, unchanged." }),
  workflow: WorkflowSchema,
  problems: t.list(WorkflowProblemSchema),
  asOf: asOfPosition(),
});
export const DraftEditRequestSchema = t.object({
  base: t.integer(1, "The revision that the edits were made on."),
  edits: t.array(WorkflowEditSchema, { minItems: 1, maxItems: editsMax }),
});
export type DraftEditRequest = Static<typeof DraftEditRequestSchema>;

export const DraftEditedSchema = t.object({
  workflowId: t.id(),
  revision: t.integer(1),
  /** Those of others since `base`, which the edits were put on top of. */
  between: t.list(DraftChangeSchema),
  problems: t.list(WorkflowProblemSchema),
});

export const PublishVersionRequestSchema = t.object({
  revision: t.optional(t.integer(1, "Publish this revision of the draft and no other.")),
  note: t.optional(t.text()),
  allowUnknown: t.optional(t.allowUnknownFlag()),
});
export type PublishVersionRequest = Static<typeof PublishVersionRequestSchema>;

const versionFields = {
  workflowId: t.id(),
  version: t.integer(1),
  revision: t.integer(1, "Of the draft it was made from."),
  publishedAt: t.instant(),
  publishedBy: t.id(),
  versionHash: t.id("Of the workflow as it was published; its runs name it too."),
  note: t.optional(t.text()),
};
export const WorkflowVersionSchema = t.object(versionFields);
export type WorkflowVersion = Static<typeof WorkflowVersionSchema>;
export const WorkflowVersionListSchema = pageAsOf(WorkflowVersionSchema);
export const WorkflowVersionDetailSchema = t.object({ ...versionFields, workflow: WorkflowSchema, asOf: asOfPosition() });
export const PublishedVersionSchema = t.object({ ...versionFields, problems: t.list(WorkflowProblemSchema) });

export const WorkflowDiffSchema = t.object({
  workflowId: t.id(),
  from: t.string({ description: "A version's number, or draft." }),
  to: t.string({ description: "A version's number, or draft." }),
  edits: t.list(WorkflowEditSchema),
  summary: t.list(t.openObject("For people: one thing that was added, removed or changed.")),
  asOf: asOfPosition(),
});

export const RollbackRequestSchema = t.object({ version: t.integer(1) });

/** The format tag of an exported file, so that no other file is taken for one. */
export const workflowFileFormat = "astraflow.workflow/1";
export const versionsInFileMax = 500;
/** A file: read with its workflows as they are; each is then checked by itself. */
const workflowFileSchemaOf = <S extends TSchema>(workflow: S) => t.object(workflowFileFields(workflow));
const workflowFileFields = <S extends TSchema>(workflow: S) => ({
  format: t.oneOf([workflowFileFormat]),
  workflow,
  previewImage: t.optional(t.string({ maxLength: previewCharsMax })),
  versions: t.array(
    t.object({ version: t.integer(1), publishedAt: t.instant(), publishedBy: t.id(), note: t.optional(t.text()), workflow }),
    { maxItems: versionsInFileMax, description: "Oldest first." },
  ),
  omitted: t.optional(t.integer(0, "Older versions that did not fit.")),
  asOf: t.optional(asOfPosition()),
});
const workflowImportSchemaOf = <S extends TSchema>(workflow: S) =>
  t.object({ ...workflowFileFields(workflow), allowUnknown: t.optional(t.allowUnknownFlag()) });
export const WorkflowFileSchema = workflowFileSchemaOf(WorkflowSchema);
export type WorkflowFile = Static<typeof WorkflowFileSchema>;
export const WorkflowImportRequestSchema = workflowImportSchemaOf(WorkflowSchema);
export const readWorkflowFile = createBodyReader(workflowImportSchemaOf(t.openObject()));

export const visibilities = ["private", "internal", "public"] as const;
export type Visibility = (typeof visibilities)[number];
const previewImageField = () => t.optional(t.string({ maxLength: previewCharsMax }));
export const WorkflowPublishRequestSchema = t.object({
  version: t.string({ pattern: "^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$", description: "Any name of a version, such as 1.2.0." }),
  packageId: t.optional(t.id()),
  slug: t.optional(t.string({ pattern: "^[a-z0-9]+(-[a-z0-9]+)*$", maxLength: 128 })),
  displayName: t.optional(t.name()),
  summary: t.optional(t.text()),
  visibility: t.optional(t.oneOf(visibilities)),
  tags: t.optional(t.list(t.name(), 100)),
  changelog: t.optional(t.text()),
  previewImage: previewImageField(),
  allowUnknown: t.optional(t.allowUnknownFlag()),
});
export type WorkflowPublishRequest = Static<typeof WorkflowPublishRequestSchema>;
export const WorkflowPublishedSchema = t.object({ packageId: t.id(), versionId: t.id(), version: t.id() });

export const WorkflowPackageVersionSchema = t.object({
  id: t.id(),
  version: t.id(),
  publishedAt: t.instant(),
  changelog: t.optional(t.text()),
  publisherId: t.optional(t.id()),
  previewImage: previewImageField(),
});
export type WorkflowPackageVersion = Static<typeof WorkflowPackageVersionSchema>;
const packageSummaryFields = {
  id: t.id(),
  slug: t.id(),
  displayName: t.name(),
  visibility: t.oneOf(visibilities),
  summary: t.optional(t.text()),
  tags: t.optional(t.list(t.name())),
  ownerId: t.optional(t.id()),
  ownerName: t.optional(t.name()),
  updatedAt: t.optional(t.instant()),
  latestVersion: t.optional(WorkflowPackageVersionSchema),
  previewImage: previewImageField(),
};
export const WorkflowPackageSummarySchema = t.object(packageSummaryFields);
export type WorkflowPackageSummary = Static<typeof WorkflowPackageSummarySchema>;
export const WorkflowPackageListSchema = pageAsOf(WorkflowPackageSummarySchema);
export const WorkflowPackageDetailSchema = t.object({
  ...packageSummaryFields,
  versions: t.list(WorkflowPackageVersionSchema),
  asOf: asOfPosition(),
});
export const WorkflowPackageVersionListSchema = t.object({ items: t.list(WorkflowPackageVersionSchema), asOf: asOfPosition() });
export const WorkflowCloneRequestSchema = t.object({
  versionId: t.optional(t.id()),
  version: t.optional(t.id()),
  workflowName: t.optional(t.name()),
  allowUnknown: t.optional(t.allowUnknownFlag()),
});
export type WorkflowCloneRequest = Static<typeof WorkflowCloneRequestSchema>;
