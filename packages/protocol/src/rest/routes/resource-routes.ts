// The routes about resources, their uploads and grants.

import Type from "typebox";
import { idString, integer, nameString, oneOf, optional } from "../../schema/field-types.ts";
import {
  ResourceDetailSchema,
  ResourceGrantCreateRequestSchema,
  ResourceGrantDetailSchema,
  ResourceGrantListSchema,
  ResourceListSchema,
  ResourceUploadDetailSchema,
  ResourceUploadInitRequestSchema,
  ResourceUploadPartSchema,
} from "../bodies/resource-bodies.ts";
import { changeFaults, idempotencyKeyHeader, pagingQuery, type Route, readFaults, route } from "./route.ts";

const resourceIdParam = { resourceId: idString() };
const uploadIdParam = { uploadId: idString() };
const grantIdParam = { grantId: idString() };
const lookupFaults = [...readFaults, "E.NOT_FOUND"] as const;
const removeFaults = [...readFaults, "E.NOT_FOUND", "E.CONFLICT", "E.STORE.BUSY", "E.SHUTTING_DOWN"] as const;
const multipartForm = "multipart/form-data";

export const resourceRoutes = {
  listResources: route("GET", "/api/v1/resources", {
    summary: "Resources that the caller may see, newest first. A page may be short although more follows.",
    query: {
      ...pagingQuery,
      search: { schema: nameString(), description: "Words of the file's name, or its SHA-256." },
      ownerId: { schema: idString(), description: "me, or, for admins, anybody." },
    },
    response: ResourceListSchema,
    faults: readFaults,
    grant: "read",
  }),
  createResource: route("POST", "/api/v1/resources", {
    summary:
      "A file in one piece of at most 64 MiB: a form with the part file, and before it, where wanted, the fields provider, visibility, sha256, mimeType, filename.",
    headers: idempotencyKeyHeader,
    takes: multipartForm,
    response: ResourceDetailSchema,
    status: 201,
    faults: [...changeFaults, "E.RESOURCE.DIGEST"],
    grant: "edit",
  }),
  getResource: route("GET", "/api/v1/resources/{resourceId}", {
    summary: "All about a resource but its bytes.",
    params: resourceIdParam,
    response: ResourceDetailSchema,
    faults: lookupFaults,
    grant: "read",
  }),
  deleteResource: route("DELETE", "/api/v1/resources/{resourceId}", {
    summary: "Remove a resource and its bytes; for its owner and admins.",
    params: resourceIdParam,
    status: 204,
    faults: removeFaults,
    grant: "edit",
  }),
  downloadResource: route("GET", "/api/v1/resources/{resourceId}/download", {
    summary: "The bytes, or with Range one stretch of them (206), as an attachment.",
    params: resourceIdParam,
    headers: { Range: optional(Type.String({ maxLength: 64, description: "bytes=FROM-TO, bytes=FROM- or bytes=-LAST." })) },
    media: "application/octet-stream",
    faults: [...lookupFaults, "E.RESOURCE.RANGE"],
    grant: "read",
  }),
  createUpload: route("POST", "/api/v1/resources/uploads", {
    summary:
      "Begin an upload in parts. Where a resource of the same provider, size and SHA-256 is there for the caller to read, the session is completed at once with its id.",
    headers: idempotencyKeyHeader,
    request: ResourceUploadInitRequestSchema,
    response: ResourceUploadDetailSchema,
    status: 201,
    faults: changeFaults,
    grant: "edit",
  }),
  getUpload: route("GET", "/api/v1/resources/uploads/{uploadId}", {
    summary: "How far an upload is.",
    params: uploadIdParam,
    response: ResourceUploadDetailSchema,
    faults: lookupFaults,
    grant: "read",
  }),
  abortUpload: route("DELETE", "/api/v1/resources/uploads/{uploadId}", {
    summary: "Abort an upload and delete the parts received so far.",
    params: uploadIdParam,
    status: 204,
    faults: removeFaults,
    grant: "edit",
  }),
  putUploadPart: route("PUT", "/api/v1/resources/uploads/{uploadId}/parts/{partNumber}", {
    summary:
      "One part, from 0, in any order: exactly chunkSize bytes, the last one what remains. As a form with the part file, or bare as application/octet-stream. A part that is there already stays as it is.",
    params: { ...uploadIdParam, partNumber: integer(0) },
    takes: multipartForm,
    response: ResourceUploadPartSchema,
    faults: changeFaults,
    grant: "edit",
  }),
  completeUpload: route("POST", "/api/v1/resources/uploads/{uploadId}/complete", {
    summary: "Make a resource of the parts. Asked again it answers with the same resource.",
    params: uploadIdParam,
    headers: idempotencyKeyHeader,
    response: ResourceDetailSchema,
    faults: [...changeFaults, "E.RESOURCE.DIGEST"],
    grant: "edit",
  }),
  listResourceGrants: route("GET", "/api/v1/resource-grants", {
    summary: "Grants that the caller has made; admins see all. A page may be short although more follows.",
    query: {
      ...pagingQuery,
      workflowId: { schema: idString() },
      packageName: { schema: idString() },
      packageVersion: { schema: idString() },
      resourceKey: { schema: idString() },
      scope: { schema: oneOf(["workflow", "global"]) },
      resourceId: { schema: idString() },
    },
    response: ResourceGrantListSchema,
    faults: readFaults,
    grant: "read",
  }),
  createResourceGrant: route("POST", "/api/v1/resource-grants", {
    summary: "Let a package use a resource under a key, in one workflow or in all; for the resource's owner and admins.",
    headers: idempotencyKeyHeader,
    request: ResourceGrantCreateRequestSchema,
    response: ResourceGrantDetailSchema,
    status: 201,
    faults: changeFaults,
    grant: "edit",
  }),
  getResourceGrant: route("GET", "/api/v1/resource-grants/{grantId}", {
    summary: "One grant; for its maker and admins.",
    params: grantIdParam,
    response: ResourceGrantDetailSchema,
    faults: lookupFaults,
    grant: "read",
  }),
  deleteResourceGrant: route("DELETE", "/api/v1/resource-grants/{grantId}", {
    summary: "Revoke a grant; for its creator and admins. Runs that have started keep their resources.",
    params: grantIdParam,
    status: 204,
    faults: removeFaults,
    grant: "edit",
  }),
} as const satisfies Record<string, Route>;
