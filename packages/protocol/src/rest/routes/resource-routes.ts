// The routes about resources, their uploads and grants.

import * as t from "../../schema/field-types.ts";
import * as bodies from "../bodies/resource-bodies.ts";
import { changeFaults, fullPageQuery, idempotencyKeyHeaderOf, pagingQuery, type Route, readFaults, route } from "./route.ts";

const removeFaults = [...readFaults, "E.NOT_FOUND", "E.CONFLICT", "E.STORE.BUSY", "E.SHUTTING_DOWN"] as const;
const multipartForm = "multipart/form-data";

export const resourceRoutes = {
  listResources: route("GET", "/api/v1/resources", "read", {
    summary: "Resources that the caller may see, newest first. A page may be short although more follows.",
    query: {
      ...pagingQuery,
      search: { schema: t.name(), description: "Words of the file's name, or its SHA-256." },
      ownerId: { schema: t.id(), description: "me, or, for admins, anybody." },
    },
    response: bodies.ResourceListSchema,
  }),
  createResource: route("POST", "/api/v1/resources", "edit", {
    summary:
      "A file in one piece of at most 64 MiB: a form with the part file, and before it, where wanted, the fields provider, visibility, sha256, mimeType, filename.",
    takes: multipartForm,
    form: bodies.ResourceUploadFormSchema,
    response: bodies.ResourceDetailSchema,
    status: 201,
    faults: [...changeFaults, "E.RESOURCE.DIGEST"],
  }),
  getResource: route("GET", "/api/v1/resources/{resourceId}", "read", {
    summary: "All about a resource but its bytes.",
    response: bodies.ResourceDetailSchema,
  }),
  deleteResource: route("DELETE", "/api/v1/resources/{resourceId}", "edit", {
    summary: "Remove a resource and its bytes; for its owner and admins.",
    status: 204,
    faults: removeFaults,
  }),
  downloadResource: route("GET", "/api/v1/resources/{resourceId}/download", "read", {
    summary: "The bytes, or with Range one stretch of them (206), as an attachment.",
    headers: {
      Range: t.optional(t.string({ description: "bytes=FROM-TO, bytes=FROM- or bytes=-LAST; anything else is ignored." })),
    },
    // That of the file.
    media: "*/*",
    also: { 206: null },
    faults: [...readFaults, "E.NOT_FOUND", "E.RESOURCE.RANGE"],
  }),
  createUpload: route("POST", "/api/v1/resources/uploads", "edit", {
    summary:
      "Begin an upload in parts. Where a resource of the same provider, size and SHA-256 is there for the caller to read, the session is completed at once with its id.",
    request: bodies.ResourceUploadInitRequestSchema,
    response: bodies.ResourceUploadDetailSchema,
    status: 201,
  }),
  getUpload: route("GET", "/api/v1/resources/uploads/{uploadId}", "read", {
    summary: "How far an upload is.",
    response: bodies.ResourceUploadDetailSchema,
  }),
  abortUpload: route("DELETE", "/api/v1/resources/uploads/{uploadId}", "edit", {
    summary: "Abort an upload and delete the parts received so far.",
    status: 204,
    faults: removeFaults,
  }),
  putUploadPart: route("PUT", "/api/v1/resources/uploads/{uploadId}/parts/{partNumber}", "edit", {
    summary:
      "One part, from 0, in any order: exactly chunkSize bytes, the last one what remains. As a form with the part file, or bare as application/octet-stream. A part that is there already stays as it is.",
    takes: multipartForm,
    form: bodies.UploadPartFormSchema,
    response: bodies.ResourceUploadPartSchema,
  }),
  completeUpload: route("POST", "/api/v1/resources/uploads/{uploadId}/complete", "edit", {
    summary: "Make a resource of the parts. Asked again it answers with the same resource.",
    headers: idempotencyKeyHeaderOf(
      "Not needed and not kept: an upload is completed once, and asked again it answers with the same resource, whatever the key.",
    ),
    response: bodies.ResourceDetailSchema,
    faults: [...changeFaults, "E.RESOURCE.DIGEST"],
  }),
  listResourceGrants: route("GET", "/api/v1/resource-grants", "read", {
    summary: "Grants that the caller has made; admins see all. A page may be short although more follows.",
    query: {
      ...fullPageQuery,
      workflowId: { schema: t.id() },
      packageName: { schema: t.id() },
      packageVersion: { schema: t.id() },
      resourceKey: { schema: t.id() },
      scope: { schema: t.oneOf(["workflow", "global"]) },
      resourceId: { schema: t.id() },
    },
    response: bodies.ResourceGrantListSchema,
  }),
  createResourceGrant: route("POST", "/api/v1/resource-grants", "edit", {
    summary: "Let a package use a resource under a key, in one workflow or in all; for the resource's owner and admins.",
    request: bodies.ResourceGrantCreateRequestSchema,
    response: bodies.ResourceGrantDetailSchema,
    status: 201,
  }),
  getResourceGrant: route("GET", "/api/v1/resource-grants/{grantId}", "read", {
    summary: "One grant; for its maker and admins.",
    response: bodies.ResourceGrantDetailSchema,
  }),
  deleteResourceGrant: route("DELETE", "/api/v1/resource-grants/{grantId}", "edit", {
    summary: "Revoke a grant; for its creator and admins. Runs that have started keep their resources.",
    status: 204,
    faults: removeFaults,
  }),
} as const satisfies Record<string, Route>;
