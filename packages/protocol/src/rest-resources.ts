// Bodies of the REST API about resources: files that are kept here, how large ones come in by parts, and which package may use which.

import Type, { type Static } from "typebox";
import type { Fault } from "./fault.ts";
import { page } from "./rest.ts";
import { shape } from "./shape.ts";
import { bag, id, instant, int, list, name, oneOf, optional } from "./words.ts";

const MiB = 1024 * 1024;

export const resourceLimits = {
  /** One request carries no more than this of a file; larger files come in parts. */
  chunkBytesMax: 64 * MiB,
  chunkBytesDefault: 8 * MiB,
  partsMax: 10_000,
  /** What a multipart body may have around its file. */
  multipartExtraBytesMax: 256 * 1024,
  metadataBytesMax: 16 * 1024,
} as const;

const asOf = int(0, undefined, "Position of the tenant's log that this is true at.");
const visibility = () =>
  oneOf(["private", "public", "owner"], "public: whoever may read in the tenant; else the owner and admins.");
const provider = () => oneOf(["local", "db"], "local: a folder of the scheduler; db: the store, for small files.");
const sha256 = () => Type.String({ pattern: "^[A-Fa-f0-9]{64}$" });
const filename = () => Type.String({ minLength: 1, maxLength: 255, pattern: "^[^\\u0000-\\u001f\\u007f]*$" });
const mimeType = () => Type.String({ maxLength: 255, pattern: "^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *;[ -~]*)?$" });

const resource = {
  resourceId: id(),
  provider: name(),
  type: name(),
  filename: name(),
  sizeBytes: int(0),
  createdAt: instant(),
  ownerId: optional(id()),
  visibility: optional(visibility()),
  mimeType: optional(name()),
  sha256: optional(name()),
  expiresAt: optional(instant()),
  metadata: optional(bag()),
  downloadUrl: optional(Type.String()),
};
const ResourceSchema = Type.Object(resource);
export type Resource = Static<typeof ResourceSchema>;
export const ResourceDetailSchema = Type.Object({ ...resource, asOf });
export const ResourceListSchema = Type.Object({ ...page(ResourceSchema).properties, asOf });

export const ResourceUploadInitRequestSchema = Type.Object({
  filename: filename(),
  sizeBytes: int(1),
  mimeType: optional(mimeType()),
  sha256: optional(sha256()),
  metadata: optional(bag()),
  provider: optional(provider()),
  visibility: optional(visibility()),
  chunkSize: optional(int(1, resourceLimits.chunkBytesMax)),
});
export type ResourceUploadInit = Static<typeof ResourceUploadInitRequestSchema>;
/** What the fields of a form besides the file may say. */
const ResourceFormSchema = Type.Object({
  provider: optional(provider()),
  visibility: optional(visibility()),
  sha256: optional(sha256()),
  mimeType: optional(mimeType()),
  filename: optional(filename()),
});

const session = {
  uploadId: id(),
  filename: name(),
  sizeBytes: int(1),
  chunkSize: int(1),
  uploadedBytes: int(0),
  nextPart: int(0, undefined, "The lowest part that is missing; totalParts when none is."),
  totalParts: int(0),
  status: oneOf(["pending", "completed", "aborted"]),
  createdAt: instant(),
  updatedAt: instant(),
  completedParts: optional(list(int(0))),
  provider: optional(name()),
  mimeType: optional(name()),
  sha256: optional(name()),
  resourceId: optional(id()),
  metadata: optional(bag()),
};
export const ResourceUploadSessionSchema = Type.Object(session);
export type ResourceUploadSession = Static<typeof ResourceUploadSessionSchema>;
export const ResourceUploadDetailSchema = Type.Object({ ...session, asOf });
export const ResourceUploadPartSchema = Type.Object({
  uploadId: id(),
  partNumber: int(0),
  uploadedBytes: int(0),
  nextPart: int(0),
  status: oneOf(["pending", "completed"], "completed: every part is there."),
  receivedBytes: optional(int(0)),
});

const grant = {
  resourceId: id(),
  packageName: id(),
  resourceKey: id(),
  scope: oneOf(["workflow", "global"]),
  packageVersion: optional(id()),
  workflowId: optional(id("Needed with scope workflow, not taken with global.")),
  metadata: optional(bag()),
};
const actions = () => Type.Array(oneOf(["read", "write", "use"]), { minItems: 1, maxItems: 3 });
export const ResourceGrantCreateRequestSchema = Type.Object({ ...grant, actions: optional(actions()) });
export type ResourceGrantCreateRequest = Static<typeof ResourceGrantCreateRequestSchema>;
const grantWhole = { ...grant, grantId: id(), actions: actions(), createdAt: instant(), createdBy: optional(id()) };
const ResourceGrantSchema = Type.Object(grantWhole);
export type ResourceGrant = Static<typeof ResourceGrantSchema>;
export const ResourceGrantDetailSchema = Type.Object({ ...grantWhole, asOf });
export const ResourceGrantListSchema = Type.Object({ ...page(ResourceGrantSchema).properties, asOf });

/** By the names they have in the OpenAPI document. */
export const resourceSchemas = {
  Resource: ResourceSchema,
  ResourceDetail: ResourceDetailSchema,
  ResourceList: ResourceListSchema,
  ResourceUploadInitRequest: ResourceUploadInitRequestSchema,
  ResourceUploadSession: ResourceUploadSessionSchema,
  ResourceUploadDetail: ResourceUploadDetailSchema,
  ResourceUploadPart: ResourceUploadPartSchema,
  ResourceGrantCreateRequest: ResourceGrantCreateRequestSchema,
  ResourceGrant: ResourceGrantSchema,
  ResourceGrantDetail: ResourceGrantDetailSchema,
  ResourceGrantList: ResourceGrantListSchema,
} as const;

const reading = { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" } as const;
const uploadShape = shape(ResourceUploadInitRequestSchema, reading);
const formShape = shape(ResourceFormSchema, { ...reading, what: "form", unknown: "refuse" });
const grantShape = shape(ResourceGrantCreateRequestSchema, reading);

/** The body of POST /api/v1/resources/uploads. */
export const readResourceUploadInit = (value: unknown): ResourceUploadInit | Fault => uploadShape.read(value);
/** The fields of the form of POST /api/v1/resources. */
export const readResourceForm = (value: unknown): Static<typeof ResourceFormSchema> | Fault => formShape.read(value);
/** The body of POST /api/v1/resource-grants. */
export const readResourceGrantCreate = (value: unknown): ResourceGrantCreateRequest | Fault => grantShape.read(value);
