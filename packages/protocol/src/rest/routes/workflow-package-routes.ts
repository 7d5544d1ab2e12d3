// The routes about workflows published as packages, for others to clone.

import Type from "typebox";
import { idString, oneOf } from "../../schema/field-types.ts";
import {
  visibilities,
  WorkflowCloneRequestSchema,
  WorkflowPackageDetailSchema,
  WorkflowPackageListSchema,
  WorkflowPackageVersionListSchema,
  WorkflowPublishedSchema,
  WorkflowPublishRequestSchema,
  WorkflowRefSchema,
} from "../bodies/workflow-bodies.ts";
import { idempotencyKeyHeader, pagingQuery, type Route, readFaults, route, workflowIdParam, writeFaults } from "./route.ts";

const packageIdParam = { packageId: idString("Id of the workflow package.") };

export const workflowPackageRoutes = {
  publishWorkflow: route("POST", "/api/v1/workflows/{workflowId}/publish", {
    summary: "Publish the workflow as a version of a package: the one named, or the workflow's own.",
    params: workflowIdParam,
    headers: idempotencyKeyHeader,
    request: WorkflowPublishRequestSchema,
    response: WorkflowPublishedSchema,
    status: 201,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.CONFLICT", "E.VERSION.EXISTS", "E.WORKFLOW.INVALID"],
    grant: "edit",
  }),
  listWorkflowPackages: route("GET", "/api/v1/workflow-packages", {
    summary: "Packages that are public or internal, and the caller's own, changed last first.",
    query: {
      ...pagingQuery,
      owner: { schema: idString(), description: "A user's id, or me." },
      visibility: { schema: oneOf(visibilities) },
      search: { schema: Type.String({ maxLength: 256 }), description: "Words of name, slug, summary, tags and owner." },
    },
    response: WorkflowPackageListSchema,
    faults: readFaults,
    grant: "read",
  }),
  getWorkflowPackage: route("GET", "/api/v1/workflow-packages/{packageId}", {
    summary: "A package with its versions, newest first.",
    params: packageIdParam,
    response: WorkflowPackageDetailSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "read",
  }),
  deleteWorkflowPackage: route("DELETE", "/api/v1/workflow-packages/{packageId}", {
    summary: "Delete your own package. Clones of it stay; publishing to it restores it.",
    params: packageIdParam,
    status: 204,
    faults: [...writeFaults, "E.NOT_FOUND", "E.CONFLICT"],
    grant: "edit",
  }),
  listWorkflowPackageVersions: route("GET", "/api/v1/workflow-packages/{packageId}/versions", {
    summary: "The versions of a package, newest first.",
    params: packageIdParam,
    response: WorkflowPackageVersionListSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "read",
  }),
  cloneWorkflowPackage: route("POST", "/api/v1/workflow-packages/{packageId}/clone", {
    summary: "Clone a version of a package into a workflow of your own; the newest version by default.",
    params: packageIdParam,
    headers: idempotencyKeyHeader,
    request: WorkflowCloneRequestSchema,
    isBodyOptional: true,
    response: WorkflowRefSchema,
    status: 201,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.CONFLICT", "E.WORKFLOW.INVALID"],
    grant: "edit",
  }),
} as const satisfies Record<string, Route>;
