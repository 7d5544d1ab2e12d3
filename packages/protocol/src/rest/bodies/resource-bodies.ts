// REST bodies about resources: stored files, uploads in parts, and which package may use which file.

import type { Static } from "typebox";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageAsOf } from "./body-parts.ts";

const MiB = 1024 * 1024;

export const resourceLimits = {
  /** Largest part of a file in one request; larger files are uploaded in parts. */
  chunkBytesMax: 64 * MiB,
  chunkBytesDefault: 8 * MiB,
  partsMax: 10_000,
  /** What a multipart body may have around its file. */
  multipartExtraBytesMax: 256 * 1024,
  metadataBytesMax: 16 * 1024,
} as const;

const visibility = () =>
  t.oneOf(["private", "public", "owner"], "public: whoever may read in the tenant; else the owner and admins.");
const provider = () => t.oneOf(["local", "db"], "local: a folder of the scheduler; db: the store, for small files.");
const sha256 = () => t.string({ pattern: "^[A-Fa-f0-9]{64}$" });
const filename = () => t.string({ minLength: 1, maxLength: 255, pattern: "^[^\\u0000-\\u001f\\u007f]*$" });
const mimeType = () => t.string({ maxLength: 255, pattern: "^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *;[ -~]*)?$" });

const resourceFields = {
  resourceId: t.id(),
  provider: t.name(),
  type: t.name(),
  filename: t.name(),
  sizeBytes: t.integer(0),
  createdAt: t.instant(),
  ownerId: t.optional(t.id()),
  visibility: t.optional(visibility()),
  mimeType: t.optional(t.name()),
  sha256: t.optional(t.name()),
  expiresAt: t.optional(t.instant()),
  metadata: t.optional(t.openObject()),
  downloadUrl: t.optional(t.string()),
};
export const ResourceSchema = t.object(resourceFields);
export type Resource = Static<typeof ResourceSchema>;
export const ResourceDetailSchema = t.object({ ...resourceFields, asOf: asOfPosition() });
export const ResourceListSchema = pageAsOf(ResourceSchema);

export const ResourceUploadInitRequestSchema = t.object({
  filename: filename(),
  sizeBytes: t.integer(1),
  mimeType: t.optional(mimeType()),
  sha256: t.optional(sha256()),
  metadata: t.optional(t.openObject()),
  provider: t.optional(provider()),
  visibility: t.optional(visibility()),
  chunkSize: t.optional(t.between(1, resourceLimits.chunkBytesMax)),
});
export type ResourceUploadInit = Static<typeof ResourceUploadInitRequestSchema>;
/** The fields of an upload form besides the file. */
const resourceFormFields = {
  provider: t.optional(provider()),
  visibility: t.optional(visibility()),
  sha256: t.optional(sha256()),
  mimeType: t.optional(mimeType()),
  filename: t.optional(filename()),
};
const ResourceFormSchema = t.object(resourceFormFields);
const filePart = () => t.unsafe<string>({ type: "string", format: "binary" });
/** A form whose part `file` is the file, with its fields. */
export const ResourceUploadFormSchema = t.object({ ...resourceFormFields, file: filePart() }, { additionalProperties: false });
/** A form with nothing but a part of a file. */
export const UploadPartFormSchema = t.object({ file: filePart() }, { additionalProperties: false });

const uploadSessionFields = {
  uploadId: t.id(),
  filename: t.name(),
  sizeBytes: t.integer(1),
  chunkSize: t.integer(1),
  uploadedBytes: t.integer(0),
  nextPart: t.integer(0, "The lowest part that is missing; totalParts when none is."),
  totalParts: t.integer(0),
  status: t.oneOf(["pending", "completed", "aborted"]),
  createdAt: t.instant(),
  updatedAt: t.instant(),
  completedParts: t.optional(t.list(t.integer(0))),
  provider: t.optional(t.name()),
  mimeType: t.optional(t.name()),
  sha256: t.optional(t.name()),
  resourceId: t.optional(t.id()),
  metadata: t.optional(t.openObject()),
};
export const ResourceUploadSessionSchema = t.object(uploadSessionFields);
export type ResourceUploadSession = Static<typeof ResourceUploadSessionSchema>;
export const ResourceUploadDetailSchema = t.object({ ...uploadSessionFields, asOf: asOfPosition() });
export const ResourceUploadPartSchema = t.object({
  uploadId: t.id(),
  partNumber: t.integer(0),
  uploadedBytes: t.integer(0),
  nextPart: t.integer(0),
  status: t.oneOf(["pending", "completed"], "completed: every part is there."),
  receivedBytes: t.optional(t.integer(0)),
});

const grantRequestFields = {
  resourceId: t.id(),
  packageName: t.id(),
  resourceKey: t.id(),
  scope: t.oneOf(["workflow", "global"]),
  packageVersion: t.optional(t.id()),
  workflowId: t.optional(t.id("Needed with scope workflow, not taken with global.")),
  metadata: t.optional(t.openObject()),
};
const actions = () => t.array(t.oneOf(["read", "write", "use"]), { minItems: 1, maxItems: 3 });
export const ResourceGrantCreateRequestSchema = t.object(
  { ...grantRequestFields, actions: t.optional(actions()) },
  t.published({
    oneOf: [
      { properties: { scope: { const: "workflow" } }, required: ["workflowId"] },
      { properties: { scope: { const: "global" }, workflowId: false } },
    ],
  }),
);
export type ResourceGrantCreateRequest = Static<typeof ResourceGrantCreateRequestSchema>;
const grantFields = {
  ...grantRequestFields,
  grantId: t.id(),
  actions: actions(),
  createdAt: t.instant(),
  createdBy: t.optional(t.id()),
};
export const ResourceGrantSchema = t.object(grantFields);
export type ResourceGrant = Static<typeof ResourceGrantSchema>;
export const ResourceGrantDetailSchema = t.object({ ...grantFields, asOf: asOfPosition() });
export const ResourceGrantListSchema = pageAsOf(ResourceGrantSchema);

export const readResourceForm = createBodyReader(ResourceFormSchema, { subject: "form" });
