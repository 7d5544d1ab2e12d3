// REST bodies about resources: stored files, uploads in parts, and which package may use which file.

import Type, { type Static } from "typebox";
import { idString, instantString, integer, listOf, nameString, oneOf, openObject, optional } from "../../schema/field-types.ts";
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
  oneOf(["private", "public", "owner"], "public: whoever may read in the tenant; else the owner and admins.");
const provider = () => oneOf(["local", "db"], "local: a folder of the scheduler; db: the store, for small files.");
const sha256 = () => Type.String({ pattern: "^[A-Fa-f0-9]{64}$" });
const filename = () => Type.String({ minLength: 1, maxLength: 255, pattern: "^[^\\u0000-\\u001f\\u007f]*$" });
const mimeType = () => Type.String({ maxLength: 255, pattern: "^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *;[ -~]*)?$" });

const resourceFields = {
  resourceId: idString(),
  provider: nameString(),
  type: nameString(),
  filename: nameString(),
  sizeBytes: integer(0),
  createdAt: instantString(),
  ownerId: optional(idString()),
  visibility: optional(visibility()),
  mimeType: optional(nameString()),
  sha256: optional(nameString()),
  expiresAt: optional(instantString()),
  metadata: optional(openObject()),
  downloadUrl: optional(Type.String()),
};
export const ResourceSchema = Type.Object(resourceFields);
export type Resource = Static<typeof ResourceSchema>;
export const ResourceDetailSchema = Type.Object({ ...resourceFields, asOf: asOfPosition() });
export const ResourceListSchema = pageAsOf(ResourceSchema);

export const ResourceUploadInitRequestSchema = Type.Object({
  filename: filename(),
  sizeBytes: integer(1),
  mimeType: optional(mimeType()),
  sha256: optional(sha256()),
  metadata: optional(openObject()),
  provider: optional(provider()),
  visibility: optional(visibility()),
  chunkSize: optional(integer(1, resourceLimits.chunkBytesMax)),
});
export type ResourceUploadInit = Static<typeof ResourceUploadInitRequestSchema>;
/** The fields of an upload form besides the file. */
const ResourceFormSchema = Type.Object({
  provider: optional(provider()),
  visibility: optional(visibility()),
  sha256: optional(sha256()),
  mimeType: optional(mimeType()),
  filename: optional(filename()),
});

const uploadSessionFields = {
  uploadId: idString(),
  filename: nameString(),
  sizeBytes: integer(1),
  chunkSize: integer(1),
  uploadedBytes: integer(0),
  nextPart: integer(0, undefined, "The lowest part that is missing; totalParts when none is."),
  totalParts: integer(0),
  status: oneOf(["pending", "completed", "aborted"]),
  createdAt: instantString(),
  updatedAt: instantString(),
  completedParts: optional(listOf(integer(0))),
  provider: optional(nameString()),
  mimeType: optional(nameString()),
  sha256: optional(nameString()),
  resourceId: optional(idString()),
  metadata: optional(openObject()),
};
export const ResourceUploadSessionSchema = Type.Object(uploadSessionFields);
export type ResourceUploadSession = Static<typeof ResourceUploadSessionSchema>;
export const ResourceUploadDetailSchema = Type.Object({ ...uploadSessionFields, asOf: asOfPosition() });
export const ResourceUploadPartSchema = Type.Object({
  uploadId: idString(),
  partNumber: integer(0),
  uploadedBytes: integer(0),
  nextPart: integer(0),
  status: oneOf(["pending", "completed"], "completed: every part is there."),
  receivedBytes: optional(integer(0)),
});

const grantRequestFields = {
  resourceId: idString(),
  packageName: idString(),
  resourceKey: idString(),
  scope: oneOf(["workflow", "global"]),
  packageVersion: optional(idString()),
  workflowId: optional(idString("Needed with scope workflow, not taken with global.")),
  metadata: optional(openObject()),
};
const actions = () => Type.Array(oneOf(["read", "write", "use"]), { minItems: 1, maxItems: 3 });
export const ResourceGrantCreateRequestSchema = Type.Object({ ...grantRequestFields, actions: optional(actions()) });
export type ResourceGrantCreateRequest = Static<typeof ResourceGrantCreateRequestSchema>;
const grantFields = {
  ...grantRequestFields,
  grantId: idString(),
  actions: actions(),
  createdAt: instantString(),
  createdBy: optional(idString()),
};
export const ResourceGrantSchema = Type.Object(grantFields);
export type ResourceGrant = Static<typeof ResourceGrantSchema>;
export const ResourceGrantDetailSchema = Type.Object({ ...grantFields, asOf: asOfPosition() });
export const ResourceGrantListSchema = pageAsOf(ResourceGrantSchema);

/** The body of POST /api/v1/resources/uploads. */
export const readResourceUploadInit = createBodyReader(ResourceUploadInitRequestSchema);
/** The fields of the form of POST /api/v1/resources. */
export const readResourceForm = createBodyReader(ResourceFormSchema, { subject: "form", unknownKeys: "refuse" });
/** The body of POST /api/v1/resource-grants. */
export const readResourceGrantCreate = createBodyReader(ResourceGrantCreateRequestSchema);
