// Bodies of the REST API about workflows that are kept: drafts and their edits, published versions, files, and workflows published as
// packages. What a workflow itself looks like is in workflow.ts; what an edit means is the graph's business.

import Type, { type Static, type TSchema } from "typebox";
import type { Fault } from "./fault.ts";
import { shape } from "./shape.ts";
import { allowUnknown, bag, id, instant, int, list, name, oneOf, optional, text } from "./words.ts";
import { WorkflowSchema } from "./workflow.ts";

/** Characters of a picture, as a data address or a link. */
export const previewCharsMax = 1_048_576;
/** Edits in one request; an editor saves every few of them. */
export const editsMax = 5_000;

export const asOf = () => int(0, undefined, "Position of the tenant's log that this is true at.");
/** A page of things of the tenant, true at a position of its log. */
export const pageAt = <S extends TSchema>(items: S) =>
  Type.Object({
    items: Type.Array(items),
    nextCursor: Type.Union([Type.String(), Type.Null()], { description: "null at the end." }),
    asOf: asOf(),
  });

/** What is known of a workflow besides its definition. */
const kept = {
  revision: int(1, undefined, "Of the draft; raised by every change of it, and its ETag."),
  latestVersion: optional(int(1, undefined, "Number of the newest published version.")),
  createdAt: instant(),
  updatedAt: instant(),
};
export const KeptWorkflowSchema = Type.Intersect([WorkflowSchema, Type.Object({ ...kept, asOf: optional(asOf()) })]);
/** A workflow as it is sent to be kept or checked. */
export const WorkflowSaveRequestSchema = Type.Intersect([
  WorkflowSchema,
  Type.Object({ allowUnknown: optional(allowUnknown()) }),
]);
export const WorkflowListSchema = pageAt(KeptWorkflowSchema);
export const WorkflowRefSchema = Type.Object({ workflowId: id(), revision: optional(int(1)) });
export type WorkflowRef = Static<typeof WorkflowRefSchema>;

export const WorkflowProblemSchema = Type.Object({
  path: Type.String({ description: "JSON pointer into the workflow." }),
  code: id(),
  message: text(),
  node: optional(id()),
  severity: oneOf(["error", "warning"]),
});
export type WorkflowProblem = Static<typeof WorkflowProblemSchema>;
export const WorkflowCheckSchema = Type.Object({
  isValid: Type.Boolean({ description: "Nothing worse than a warning." }),
  problems: list(WorkflowProblemSchema),
  asOf: asOf(),
});

export const WorkflowPreviewSchema = Type.Object({
  previewImage: optional(Type.String({ maxLength: previewCharsMax })),
  asOf: optional(asOf()),
});
const previewShape = shape(
  Type.Object({ previewImage: optional(Type.Union([Type.String({ maxLength: previewCharsMax }), Type.Null()])) }),
  { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" },
);
/** Absent or null: no picture. */
export const readWorkflowPreview = (value: unknown): { previewImage?: string | null } | Fault => previewShape.read(value);

const WorkflowEditSchema = bag("One change: `op` says which, the other fields what it needs.");
/** What one saving did to a draft. */
const DraftChangeSchema = Type.Object({
  revision: int(1),
  by: id(),
  at: instant(),
  edits: Type.Union([list(WorkflowEditSchema), Type.Null()], { description: "null: too many to be kept." }),
});
export type DraftChange = Static<typeof DraftChangeSchema>;

export const WorkflowDraftSchema = Type.Object({
  workflowId: id(),
  ...kept,
  updatedBy: id(),
  isPublished: Type.Boolean({ description: "The draft is the newest version, unchanged." }),
  workflow: WorkflowSchema,
  problems: list(WorkflowProblemSchema),
  asOf: asOf(),
});
export const DraftEditRequestSchema = Type.Object({
  base: int(1, undefined, "The revision that the edits were made on."),
  edits: Type.Array(WorkflowEditSchema, { minItems: 1, maxItems: editsMax }),
});
export type DraftEditRequest = Static<typeof DraftEditRequestSchema>;
const editShape = shape(DraftEditRequestSchema, { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" });
export const readDraftEditRequest = (value: unknown): DraftEditRequest | Fault => editShape.read(value);

export const DraftEditedSchema = Type.Object({
  workflowId: id(),
  revision: int(1),
  /** Those of others since `base`, which the edits were put on top of. */
  between: list(DraftChangeSchema),
  problems: list(WorkflowProblemSchema),
});

export const PublishVersionRequestSchema = Type.Object({
  revision: optional(int(1, undefined, "Publish this revision of the draft and no other.")),
  note: optional(text()),
  allowUnknown: optional(allowUnknown()),
});
export type PublishVersionRequest = Static<typeof PublishVersionRequestSchema>;
const publishVersionShape = shape(PublishVersionRequestSchema, { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" });
export const readPublishVersionRequest = (value: unknown): PublishVersionRequest | Fault => publishVersionShape.read(value);

const version = {
  workflowId: id(),
  version: int(1),
  revision: int(1, undefined, "Of the draft it was made from."),
  publishedAt: instant(),
  publishedBy: id(),
  versionHash: id("Of the workflow as it was published; its runs name it too."),
  note: optional(text()),
};
export const WorkflowVersionSchema = Type.Object(version);
export type WorkflowVersion = Static<typeof WorkflowVersionSchema>;
export const WorkflowVersionListSchema = pageAt(WorkflowVersionSchema);
export const WorkflowVersionDetailSchema = Type.Object({ ...version, workflow: WorkflowSchema, asOf: asOf() });
export const PublishedVersionSchema = Type.Object({
  ...version,
  problems: list(WorkflowProblemSchema),
});

export const WorkflowDiffSchema = Type.Object({
  workflowId: id(),
  from: Type.String({ description: "A version's number, or draft." }),
  to: Type.String({ description: "A version's number, or draft." }),
  edits: list(WorkflowEditSchema),
  summary: list(bag("For people: one thing that was added, removed or changed.")),
  asOf: asOf(),
});

export const RollbackRequestSchema = Type.Object({ version: int(1) });
const rollbackShape = shape(RollbackRequestSchema, { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" });
export const readRollbackRequest = (value: unknown): Static<typeof RollbackRequestSchema> | Fault => rollbackShape.read(value);

/** The first word of a file, so that nothing else is taken for one. */
export const workflowFileFormat = "astraflow.workflow/1";
export const versionsInFileMax = 500;
/** A file: read with its workflows as they are; each is then checked by itself. */
const fileOf = <S extends TSchema>(workflow: S) => Type.Object(fileFields(workflow));
const fileFields = <S extends TSchema>(workflow: S) => ({
  format: oneOf([workflowFileFormat]),
  workflow,
  previewImage: optional(Type.String({ maxLength: previewCharsMax })),
  versions: Type.Array(
    Type.Object({
      version: int(1),
      publishedAt: instant(),
      publishedBy: id(),
      note: optional(text()),
      workflow,
    }),
    { maxItems: versionsInFileMax, description: "Oldest first." },
  ),
  omitted: optional(int(0, undefined, "Older versions that did not fit.")),
  asOf: optional(asOf()),
});
const importOf = <S extends TSchema>(workflow: S) =>
  Type.Object({ ...fileFields(workflow), allowUnknown: optional(allowUnknown()) });
export const WorkflowFileSchema = fileOf(WorkflowSchema);
export type WorkflowFile = Static<typeof WorkflowFileSchema>;
export const WorkflowImportRequestSchema = importOf(WorkflowSchema);
const fileShape = shape(importOf(bag()), { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" });
export const readWorkflowFile = (value: unknown) => fileShape.read(value);

export const visibilities = ["private", "internal", "public"] as const;
export type Visibility = (typeof visibilities)[number];
const preview = () => optional(Type.String({ maxLength: previewCharsMax }));
export const WorkflowPublishRequestSchema = Type.Object({
  version: Type.String({
    pattern: "^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$",
    description: "Any name of a version, such as 1.2.0.",
  }),
  packageId: optional(id()),
  slug: optional(Type.String({ pattern: "^[a-z0-9]+(-[a-z0-9]+)*$", maxLength: 128 })),
  displayName: optional(name()),
  summary: optional(text()),
  visibility: optional(oneOf(visibilities)),
  tags: optional(list(name(), 100)),
  changelog: optional(text()),
  previewImage: preview(),
  allowUnknown: optional(allowUnknown()),
});
export type WorkflowPublishRequest = Static<typeof WorkflowPublishRequestSchema>;
const publishShape = shape(WorkflowPublishRequestSchema, { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" });
export const readWorkflowPublishRequest = (value: unknown): WorkflowPublishRequest | Fault => publishShape.read(value);
export const WorkflowPublishedSchema = Type.Object({ packageId: id(), versionId: id(), version: id() });

const WorkflowPackageVersionSchema = Type.Object({
  id: id(),
  version: id(),
  publishedAt: instant(),
  changelog: optional(text()),
  publisherId: optional(id()),
  previewImage: preview(),
});
export type WorkflowPackageVersion = Static<typeof WorkflowPackageVersionSchema>;
const packageSummary = {
  id: id(),
  slug: id(),
  displayName: name(),
  visibility: oneOf(visibilities),
  summary: optional(text()),
  tags: optional(list(name())),
  ownerId: optional(id()),
  ownerName: optional(name()),
  updatedAt: optional(instant()),
  latestVersion: optional(id()),
  previewImage: preview(),
};
export const WorkflowPackageSummarySchema = Type.Object(packageSummary);
export type WorkflowPackageSummary = Static<typeof WorkflowPackageSummarySchema>;
export const WorkflowPackageListSchema = pageAt(WorkflowPackageSummarySchema);
export const WorkflowPackageDetailSchema = Type.Object({
  ...packageSummary,
  versions: list(WorkflowPackageVersionSchema),
  asOf: asOf(),
});
export const WorkflowPackageVersionListSchema = Type.Object({ items: list(WorkflowPackageVersionSchema), asOf: asOf() });
export const WorkflowCloneRequestSchema = Type.Object({
  versionId: optional(id()),
  version: optional(id()),
  workflowName: optional(name()),
  allowUnknown: optional(allowUnknown()),
});
export type WorkflowCloneRequest = Static<typeof WorkflowCloneRequestSchema>;
const cloneShape = shape(WorkflowCloneRequestSchema, { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" });
export const readWorkflowCloneRequest = (value: unknown): WorkflowCloneRequest | Fault => cloneShape.read(value);

/** By the names they have in the OpenAPI document. */
export const workflowSchemas = {
  KeptWorkflow: KeptWorkflowSchema,
  WorkflowSaveRequest: WorkflowSaveRequestSchema,
  WorkflowList: WorkflowListSchema,
  WorkflowRef: WorkflowRefSchema,
  WorkflowProblem: WorkflowProblemSchema,
  WorkflowCheck: WorkflowCheckSchema,
  WorkflowPreview: WorkflowPreviewSchema,
  WorkflowEdit: WorkflowEditSchema,
  DraftChange: DraftChangeSchema,
  WorkflowDraft: WorkflowDraftSchema,
  DraftEditRequest: DraftEditRequestSchema,
  DraftEdited: DraftEditedSchema,
  PublishVersionRequest: PublishVersionRequestSchema,
  PublishedVersion: PublishedVersionSchema,
  WorkflowVersion: WorkflowVersionSchema,
  WorkflowVersionList: WorkflowVersionListSchema,
  WorkflowVersionDetail: WorkflowVersionDetailSchema,
  WorkflowDiff: WorkflowDiffSchema,
  RollbackRequest: RollbackRequestSchema,
  WorkflowFile: WorkflowFileSchema,
  WorkflowImportRequest: WorkflowImportRequestSchema,
  WorkflowPublishRequest: WorkflowPublishRequestSchema,
  WorkflowPublished: WorkflowPublishedSchema,
  WorkflowPackageVersion: WorkflowPackageVersionSchema,
  WorkflowPackageSummary: WorkflowPackageSummarySchema,
  WorkflowPackageDetail: WorkflowPackageDetailSchema,
  WorkflowPackageList: WorkflowPackageListSchema,
  WorkflowPackageVersionList: WorkflowPackageVersionListSchema,
  WorkflowCloneRequest: WorkflowCloneRequestSchema,
} as const;
