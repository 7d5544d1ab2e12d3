// Bodies of REST routes that the field's API has and ours will get: packages, catalogue, workflows, resources, users, audit.
// They are part of the contract now so that their shapes do not drift; a route joins routes.ts when it exists.

import Type, { type Static } from "typebox";
import { ManifestSchema } from "./manifest.ts";
import { nodeStatuses, roles } from "./node-face.ts";
import { page } from "./rest.ts";
import { bag, id, instant, int, list, name, oneOf, optional, text } from "./words.ts";
import { WorkflowSchema } from "./workflow.ts";

const WorkerCommandSchema = Type.Union([
  Type.Object({ type: Type.Literal("drain") }),
  Type.Object({ type: Type.Literal("rebind"), queue: id() }),
  Type.Object({ type: Type.Literal("pkg.install"), name: id(), version: optional(id()) }),
  Type.Object({ type: Type.Literal("pkg.uninstall"), name: id() }),
]);
export type WorkerCommand = Static<typeof WorkerCommandSchema>;

const PackageSummarySchema = Type.Object({
  name: id(),
  versions: Type.Array(id(), { description: "Newest first." }),
  description: optional(text()),
  latestVersion: optional(id()),
  defaultVersion: optional(id()),
});
export type PackageSummary = Static<typeof PackageSummarySchema>;

const PackageDetailSchema = Type.Object({
  name: id(),
  version: id(),
  manifest: ManifestSchema,
  availableVersions: optional(list(id())),
});
export type PackageDetail = Static<typeof PackageDetailSchema>;

const CatalogNodeSchema = Type.Object({
  type: id(),
  label: name(),
  packageName: id(),
  versions: list(
    Type.Object({
      version: id(),
      status: optional(oneOf(nodeStatuses)),
      template: optional(ManifestSchema.properties.nodes.items),
    }),
  ),
  description: optional(text()),
  role: optional(oneOf(roles)),
  category: optional(name()),
  tags: optional(list(name())),
  status: optional(oneOf(nodeStatuses)),
  defaultVersion: optional(id()),
  latestVersion: optional(id()),
});
export type CatalogNode = Static<typeof CatalogNodeSchema>;

const WorkflowListSchema = page(WorkflowSchema);
const WorkflowRefSchema = Type.Object({ workflowId: id() });
export type WorkflowRef = Static<typeof WorkflowRefSchema>;
const WorkflowPreviewSchema = Type.Object({ previewImage: optional(Type.String()) });

const visibility = () => oneOf(["private", "internal", "public"]);
const WorkflowPublishRequestSchema = Type.Object({
  version: id(),
  packageId: optional(id()),
  slug: optional(id()),
  displayName: optional(name()),
  summary: optional(text()),
  visibility: optional(visibility()),
  tags: optional(list(name())),
  changelog: optional(text()),
  previewImage: optional(Type.String()),
});
export type WorkflowPublishRequest = Static<typeof WorkflowPublishRequestSchema>;

const WorkflowPackageVersionSchema = Type.Object({
  id: id(),
  version: id(),
  publishedAt: instant(),
  changelog: optional(text()),
  publisherId: optional(id()),
  previewImage: optional(Type.String()),
});
const packageSummary = {
  id: id(),
  slug: id(),
  displayName: name(),
  visibility: visibility(),
  summary: optional(text()),
  tags: optional(list(name())),
  ownerId: optional(id()),
  ownerName: optional(name()),
  updatedAt: optional(instant()),
  latestVersion: optional(id()),
  previewImage: optional(Type.String()),
};
const WorkflowPackageSummarySchema = Type.Object(packageSummary);
const WorkflowPackageDetailSchema = Type.Object({ ...packageSummary, versions: list(WorkflowPackageVersionSchema) });

const ResourceSchema = Type.Object({
  resourceId: id(),
  provider: name(),
  type: name(),
  filename: name(),
  sizeBytes: int(0),
  createdAt: instant(),
  ownerId: optional(id()),
  visibility: optional(oneOf(["private", "public", "owner"])),
  mimeType: optional(name()),
  sha256: optional(name()),
  expiresAt: optional(instant()),
  metadata: optional(bag()),
  downloadUrl: optional(Type.String()),
});
export type Resource = Static<typeof ResourceSchema>;

const upload = {
  filename: name(),
  sizeBytes: int(1),
  mimeType: optional(name()),
  sha256: optional(name()),
  metadata: optional(bag()),
};
const ResourceUploadInitRequestSchema = Type.Object({
  ...upload,
  provider: optional(name()),
  chunkSize: optional(int(1)),
});
const ResourceUploadSessionSchema = Type.Object({
  ...upload,
  uploadId: id(),
  chunkSize: int(1),
  uploadedBytes: int(0),
  nextPart: int(0),
  totalParts: int(0),
  status: oneOf(["pending", "completed", "aborted"]),
  createdAt: instant(),
  updatedAt: instant(),
  completedParts: optional(list(int(0))),
  provider: optional(name()),
  resourceId: optional(id()),
});
const ResourceUploadPartSchema = Type.Object({
  uploadId: id(),
  partNumber: int(0),
  uploadedBytes: int(0),
  nextPart: int(0),
  status: oneOf(["pending", "completed"]),
  receivedBytes: optional(int(0)),
});

const grant = {
  resourceId: id(),
  packageName: id(),
  resourceKey: id(),
  scope: oneOf(["workflow", "global"]),
  packageVersion: optional(id()),
  workflowId: optional(id()),
  metadata: optional(bag()),
};
const actions = () => list(oneOf(["read", "write", "use"]), 3);
const ResourceGrantCreateRequestSchema = Type.Object({ ...grant, actions: optional(actions()) });
const ResourceGrantSchema = Type.Object({
  ...grant,
  grantId: id(),
  actions: actions(),
  createdAt: instant(),
  createdBy: optional(id()),
});

const UserSummarySchema = Type.Object({
  userId: id(),
  username: name(),
  displayName: name(),
  roles: list(name()),
  isActive: Type.Boolean(),
});
const AuthLoginRequestSchema = Type.Object({ username: name(), password: Type.String({ maxLength: 1_024 }) });
const AuthLoginResponseSchema = Type.Object({
  accessToken: Type.String(),
  tokenType: Type.Literal("Bearer"),
  expiresIn: int(0, undefined, "Seconds."),
  user: UserSummarySchema,
});
const AuditEventSchema = Type.Object({
  eventId: id(),
  createdAt: instant(),
  action: name(),
  targetType: name(),
  actorId: optional(id()),
  targetId: optional(id()),
  metadata: optional(bag()),
});
export type AuditEvent = Static<typeof AuditEventSchema>;

/** By the names they have in the OpenAPI document. */
export const laterSchemas = {
  WorkerCommand: WorkerCommandSchema,
  PackageSummary: PackageSummarySchema,
  PackageDetail: PackageDetailSchema,
  CatalogNode: CatalogNodeSchema,
  WorkflowList: WorkflowListSchema,
  WorkflowRef: WorkflowRefSchema,
  WorkflowPreview: WorkflowPreviewSchema,
  WorkflowPublishRequest: WorkflowPublishRequestSchema,
  WorkflowPackageVersion: WorkflowPackageVersionSchema,
  WorkflowPackageSummary: WorkflowPackageSummarySchema,
  WorkflowPackageDetail: WorkflowPackageDetailSchema,
  Resource: ResourceSchema,
  ResourceUploadInitRequest: ResourceUploadInitRequestSchema,
  ResourceUploadSession: ResourceUploadSessionSchema,
  ResourceUploadPart: ResourceUploadPartSchema,
  ResourceGrantCreateRequest: ResourceGrantCreateRequestSchema,
  ResourceGrant: ResourceGrantSchema,
  UserSummary: UserSummarySchema,
  AuthLoginRequest: AuthLoginRequestSchema,
  AuthLoginResponse: AuthLoginResponseSchema,
  AuditEvent: AuditEventSchema,
} as const;
