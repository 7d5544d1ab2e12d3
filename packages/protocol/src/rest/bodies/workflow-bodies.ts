// REST bodies about stored workflows: drafts and their edits, published versions, files, and workflows published as packages.

import Type, { type Static, type TSchema } from "typebox";
import { WorkflowSchema } from "../../definitions/workflow.ts";
import {
  allowUnknownFlag,
  idString,
  instantString,
  integer,
  listOf,
  nameString,
  oneOf,
  openObject,
  optional,
  textString,
} from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageAsOf } from "./body-parts.ts";

/** Characters of a picture, as a data address or a link. */
export const previewCharsMax = 1_048_576;
/** Edits in one request; an editor saves every few of them. */
export const editsMax = 5_000;

/** What is stored about a workflow besides its definition. */
const storedFields = {
  revision: integer(1, undefined, "Of the draft; raised by every change of it, and its ETag."),
  latestVersion: optional(integer(1, undefined, "Number of the newest published version.")),
  createdAt: instantString(),
  updatedAt: instantString(),
};
export const StoredWorkflowSchema = Type.Intersect([
  WorkflowSchema,
  Type.Object({ ...storedFields, asOf: optional(asOfPosition()) }),
]);
/** A workflow sent to be saved or checked. */
export const WorkflowSaveRequestSchema = Type.Intersect([
  WorkflowSchema,
  Type.Object({ allowUnknown: optional(allowUnknownFlag()) }),
]);
export const WorkflowListSchema = pageAsOf(StoredWorkflowSchema);
export const WorkflowRefSchema = Type.Object({ workflowId: idString(), revision: optional(integer(1)) });
export type WorkflowRef = Static<typeof WorkflowRefSchema>;

export const WorkflowProblemSchema = Type.Object({
  path: Type.String({ description: "JSON pointer into the workflow." }),
  code: idString(),
  message: textString(),
  node: optional(idString()),
  severity: oneOf(["error", "warning"]),
});
export type WorkflowProblem = Static<typeof WorkflowProblemSchema>;
export const WorkflowCheckSchema = Type.Object({
  isValid: Type.Boolean({ description: "Nothing worse than a warning." }),
  problems: listOf(WorkflowProblemSchema),
  asOf: asOfPosition(),
});

export const WorkflowPreviewSchema = Type.Object({
  previewImage: optional(Type.String({ maxLength: previewCharsMax })),
  asOf: optional(asOfPosition()),
});
/** Absent or null: no picture. */
export const readWorkflowPreview = createBodyReader(
  Type.Object({ previewImage: optional(Type.Union([Type.String({ maxLength: previewCharsMax }), Type.Null()])) }),
);

export const WorkflowEditSchema = openObject("One change: `op` says which, the other fields what it needs.");
/** What one saving did to a draft. */
export const DraftChangeSchema = Type.Object({
  revision: integer(1),
  by: idString(),
  at: instantString(),
  edits: Type.Union([listOf(WorkflowEditSchema), Type.Null()], { description: "null: too many to be stored." }),
});
export type DraftChange = Static<typeof DraftChangeSchema>;

export const WorkflowDraftSchema = Type.Object({
  workflowId: idString(),
  ...storedFields,
  updatedBy: idString(),
  isPublished: Type.Boolean({ description: "The draft is the newest version, unchanged." }),
  workflow: WorkflowSchema,
  problems: listOf(WorkflowProblemSchema),
  asOf: asOfPosition(),
});
export const DraftEditRequestSchema = Type.Object({
  base: integer(1, undefined, "The revision that the edits were made on."),
  edits: Type.Array(WorkflowEditSchema, { minItems: 1, maxItems: editsMax }),
});
export type DraftEditRequest = Static<typeof DraftEditRequestSchema>;
export const readDraftEditRequest = createBodyReader(DraftEditRequestSchema);

export const DraftEditedSchema = Type.Object({
  workflowId: idString(),
  revision: integer(1),
  /** Those of others since `base`, which the edits were put on top of. */
  between: listOf(DraftChangeSchema),
  problems: listOf(WorkflowProblemSchema),
});

export const PublishVersionRequestSchema = Type.Object({
  revision: optional(integer(1, undefined, "Publish this revision of the draft and no other.")),
  note: optional(textString()),
  allowUnknown: optional(allowUnknownFlag()),
});
export type PublishVersionRequest = Static<typeof PublishVersionRequestSchema>;
export const readPublishVersionRequest = createBodyReader(PublishVersionRequestSchema);

const versionFields = {
  workflowId: idString(),
  version: integer(1),
  revision: integer(1, undefined, "Of the draft it was made from."),
  publishedAt: instantString(),
  publishedBy: idString(),
  versionHash: idString("Of the workflow as it was published; its runs name it too."),
  note: optional(textString()),
};
export const WorkflowVersionSchema = Type.Object(versionFields);
export type WorkflowVersion = Static<typeof WorkflowVersionSchema>;
export const WorkflowVersionListSchema = pageAsOf(WorkflowVersionSchema);
export const WorkflowVersionDetailSchema = Type.Object({ ...versionFields, workflow: WorkflowSchema, asOf: asOfPosition() });
export const PublishedVersionSchema = Type.Object({
  ...versionFields,
  problems: listOf(WorkflowProblemSchema),
});

export const WorkflowDiffSchema = Type.Object({
  workflowId: idString(),
  from: Type.String({ description: "A version's number, or draft." }),
  to: Type.String({ description: "A version's number, or draft." }),
  edits: listOf(WorkflowEditSchema),
  summary: listOf(openObject("For people: one thing that was added, removed or changed.")),
  asOf: asOfPosition(),
});

export const RollbackRequestSchema = Type.Object({ version: integer(1) });
export const readRollbackRequest = createBodyReader(RollbackRequestSchema);

/** The format tag of an exported file, so that no other file is taken for one. */
export const workflowFileFormat = "astraflow.workflow/1";
export const versionsInFileMax = 500;
/** A file: read with its workflows as they are; each is then checked by itself. */
const workflowFileSchemaOf = <S extends TSchema>(workflow: S) => Type.Object(workflowFileFields(workflow));
const workflowFileFields = <S extends TSchema>(workflow: S) => ({
  format: oneOf([workflowFileFormat]),
  workflow,
  previewImage: optional(Type.String({ maxLength: previewCharsMax })),
  versions: Type.Array(
    Type.Object({
      version: integer(1),
      publishedAt: instantString(),
      publishedBy: idString(),
      note: optional(textString()),
      workflow,
    }),
    { maxItems: versionsInFileMax, description: "Oldest first." },
  ),
  omitted: optional(integer(0, undefined, "Older versions that did not fit.")),
  asOf: optional(asOfPosition()),
});
const workflowImportSchemaOf = <S extends TSchema>(workflow: S) =>
  Type.Object({ ...workflowFileFields(workflow), allowUnknown: optional(allowUnknownFlag()) });
export const WorkflowFileSchema = workflowFileSchemaOf(WorkflowSchema);
export type WorkflowFile = Static<typeof WorkflowFileSchema>;
export const WorkflowImportRequestSchema = workflowImportSchemaOf(WorkflowSchema);
export const readWorkflowFile = createBodyReader(workflowImportSchemaOf(openObject()));

export const visibilities = ["private", "internal", "public"] as const;
export type Visibility = (typeof visibilities)[number];
const previewImageField = () => optional(Type.String({ maxLength: previewCharsMax }));
export const WorkflowPublishRequestSchema = Type.Object({
  version: Type.String({
    pattern: "^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$",
    description: "Any name of a version, such as 1.2.0.",
  }),
  packageId: optional(idString()),
  slug: optional(Type.String({ pattern: "^[a-z0-9]+(-[a-z0-9]+)*$", maxLength: 128 })),
  displayName: optional(nameString()),
  summary: optional(textString()),
  visibility: optional(oneOf(visibilities)),
  tags: optional(listOf(nameString(), 100)),
  changelog: optional(textString()),
  previewImage: previewImageField(),
  allowUnknown: optional(allowUnknownFlag()),
});
export type WorkflowPublishRequest = Static<typeof WorkflowPublishRequestSchema>;
export const readWorkflowPublishRequest = createBodyReader(WorkflowPublishRequestSchema);
export const WorkflowPublishedSchema = Type.Object({ packageId: idString(), versionId: idString(), version: idString() });

export const WorkflowPackageVersionSchema = Type.Object({
  id: idString(),
  version: idString(),
  publishedAt: instantString(),
  changelog: optional(textString()),
  publisherId: optional(idString()),
  previewImage: previewImageField(),
});
export type WorkflowPackageVersion = Static<typeof WorkflowPackageVersionSchema>;
const packageSummaryFields = {
  id: idString(),
  slug: idString(),
  displayName: nameString(),
  visibility: oneOf(visibilities),
  summary: optional(textString()),
  tags: optional(listOf(nameString())),
  ownerId: optional(idString()),
  ownerName: optional(nameString()),
  updatedAt: optional(instantString()),
  latestVersion: optional(idString()),
  previewImage: previewImageField(),
};
export const WorkflowPackageSummarySchema = Type.Object(packageSummaryFields);
export type WorkflowPackageSummary = Static<typeof WorkflowPackageSummarySchema>;
export const WorkflowPackageListSchema = pageAsOf(WorkflowPackageSummarySchema);
export const WorkflowPackageDetailSchema = Type.Object({
  ...packageSummaryFields,
  versions: listOf(WorkflowPackageVersionSchema),
  asOf: asOfPosition(),
});
export const WorkflowPackageVersionListSchema = Type.Object({
  items: listOf(WorkflowPackageVersionSchema),
  asOf: asOfPosition(),
});
export const WorkflowCloneRequestSchema = Type.Object({
  versionId: optional(idString()),
  version: optional(idString()),
  workflowName: optional(nameString()),
  allowUnknown: optional(allowUnknownFlag()),
});
export type WorkflowCloneRequest = Static<typeof WorkflowCloneRequestSchema>;
export const readWorkflowCloneRequest = createBodyReader(WorkflowCloneRequestSchema);
