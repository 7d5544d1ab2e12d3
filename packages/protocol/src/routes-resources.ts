// The routes about resources, their uploads and grants.

import Type from "typebox";
import {
  ResourceDetailSchema,
  ResourceGrantCreateRequestSchema,
  ResourceGrantDetailSchema,
  ResourceGrantListSchema,
  ResourceListSchema,
  ResourceUploadDetailSchema,
  ResourceUploadInitRequestSchema,
  ResourceUploadPartSchema,
} from "./rest-resources.ts";
import { idempotencyKey, paging, type Route, reading, writing } from "./routes-base.ts";
import { id, int, name, oneOf, optional } from "./words.ts";

const resourceId = { resourceId: id() };
const uploadId = { uploadId: id() };
const grantId = { grantId: id() };
const changing = [...writing, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.CONFLICT"] as const;
const finding = [...reading, "E.NOT_FOUND"] as const;
const removing = [...reading, "E.NOT_FOUND", "E.CONFLICT", "E.STORE.BUSY", "E.SHUTTING_DOWN"] as const;
const form = "multipart/form-data";

export const resourcesRoutes = {
  listResources: {
    method: "GET",
    path: "/api/v1/resources",
    summary: "Resources that the caller may see, newest first. A page may be short although more follows.",
    query: {
      ...paging,
      search: { schema: name(), description: "Words of the file's name, or its SHA-256." },
      ownerId: { schema: id(), description: "me, or, for admins, anybody." },
    },
    response: ResourceListSchema,
    status: 200,
    faults: reading,
    grant: "read",
  },
  createResource: {
    method: "POST",
    path: "/api/v1/resources",
    summary:
      "A file in one piece of at most 64 MiB: a form with the part file, and before it, where wanted, the fields provider, visibility, sha256, mimeType, filename.",
    headers: idempotencyKey,
    takes: form,
    response: ResourceDetailSchema,
    status: 201,
    faults: [...changing, "E.RESOURCE.DIGEST"],
    grant: "edit",
  },
  getResource: {
    method: "GET",
    path: "/api/v1/resources/{resourceId}",
    summary: "All about a resource but its bytes.",
    params: resourceId,
    response: ResourceDetailSchema,
    status: 200,
    faults: finding,
    grant: "read",
  },
  deleteResource: {
    method: "DELETE",
    path: "/api/v1/resources/{resourceId}",
    summary: "Remove a resource and its bytes; for its owner and admins.",
    params: resourceId,
    status: 204,
    faults: removing,
    grant: "edit",
  },
  downloadResource: {
    method: "GET",
    path: "/api/v1/resources/{resourceId}/download",
    summary: "The bytes, or with Range one stretch of them (206), as an attachment.",
    params: resourceId,
    headers: { Range: optional(Type.String({ maxLength: 64, description: "bytes=FROM-TO, bytes=FROM- or bytes=-LAST." })) },
    media: "application/octet-stream",
    status: 200,
    faults: [...finding, "E.RESOURCE.RANGE"],
    grant: "read",
  },
  createUpload: {
    method: "POST",
    path: "/api/v1/resources/uploads",
    summary:
      "Begin an upload in parts. Where a resource of the same provider, size and SHA-256 is there for the caller to read, the session is completed at once with its id.",
    headers: idempotencyKey,
    request: ResourceUploadInitRequestSchema,
    response: ResourceUploadDetailSchema,
    status: 201,
    faults: changing,
    grant: "edit",
  },
  getUpload: {
    method: "GET",
    path: "/api/v1/resources/uploads/{uploadId}",
    summary: "How far an upload is.",
    params: uploadId,
    response: ResourceUploadDetailSchema,
    status: 200,
    faults: finding,
    grant: "read",
  },
  abortUpload: {
    method: "DELETE",
    path: "/api/v1/resources/uploads/{uploadId}",
    summary: "Give an upload up; what has come in is removed.",
    params: uploadId,
    status: 204,
    faults: removing,
    grant: "edit",
  },
  putUploadPart: {
    method: "PUT",
    path: "/api/v1/resources/uploads/{uploadId}/parts/{partNumber}",
    summary:
      "One part, from 0, in any order: exactly chunkSize bytes, the last one what remains. As a form with the part file, or bare as application/octet-stream. A part that is there already stays as it is.",
    params: { ...uploadId, partNumber: int(0) },
    takes: form,
    response: ResourceUploadPartSchema,
    status: 200,
    faults: changing,
    grant: "edit",
  },
  completeUpload: {
    method: "POST",
    path: "/api/v1/resources/uploads/{uploadId}/complete",
    summary: "Make a resource of the parts. Asked again it answers with the same resource.",
    params: uploadId,
    headers: idempotencyKey,
    response: ResourceDetailSchema,
    status: 200,
    faults: [...changing, "E.RESOURCE.DIGEST"],
    grant: "edit",
  },
  listResourceGrants: {
    method: "GET",
    path: "/api/v1/resource-grants",
    summary: "Grants that the caller has made; admins see all. A page may be short although more follows.",
    query: {
      ...paging,
      workflowId: { schema: id() },
      packageName: { schema: id() },
      packageVersion: { schema: id() },
      resourceKey: { schema: id() },
      scope: { schema: oneOf(["workflow", "global"]) },
      resourceId: { schema: id() },
    },
    response: ResourceGrantListSchema,
    status: 200,
    faults: reading,
    grant: "read",
  },
  createResourceGrant: {
    method: "POST",
    path: "/api/v1/resource-grants",
    summary: "Let a package use a resource under a key, in one workflow or in all; for the resource's owner and admins.",
    headers: idempotencyKey,
    request: ResourceGrantCreateRequestSchema,
    response: ResourceGrantDetailSchema,
    status: 201,
    faults: changing,
    grant: "edit",
  },
  getResourceGrant: {
    method: "GET",
    path: "/api/v1/resource-grants/{grantId}",
    summary: "One grant; for its maker and admins.",
    params: grantId,
    response: ResourceGrantDetailSchema,
    status: 200,
    faults: finding,
    grant: "read",
  },
  deleteResourceGrant: {
    method: "DELETE",
    path: "/api/v1/resource-grants/{grantId}",
    summary: "Take a grant back; for its maker and admins. Runs that have started keep what they were given.",
    params: grantId,
    status: 204,
    faults: removing,
    grant: "edit",
  },
} as const satisfies Record<string, Route>;
