// The routes about workflows published as packages.

import { readWorkflowCloneRequest, readWorkflowPublishRequest } from "@astraflow/protocol";
import {
  cloneWorkflowPackage,
  deleteWorkflowPackage,
  presentPackageVersion,
  presentWorkflowPackage,
  publishWorkflow,
  type WorkflowServices,
} from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import { type RouteHandler, readOptionalRequest, readPageLimit, readRequest } from "../requests/rest-call.ts";
import { workflowIdempotencyKeyOf, workflowIdOf, writtenReply } from "./workflow-request-readers.ts";

type WorkflowPackageRoutes =
  | "publishWorkflow"
  | "listWorkflowPackages"
  | "getWorkflowPackage"
  | "deleteWorkflowPackage"
  | "listWorkflowPackageVersions"
  | "cloneWorkflowPackage";

export function workflowPackageHandlers(workflows: WorkflowServices): Record<WorkflowPackageRoutes, RouteHandler> {
  const { packages, digest } = workflows;
  return {
    async publishWorkflow(call) {
      const workflowId = workflowIdOf(call);
      const request = readRequest(call, readWorkflowPublishRequest);
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "publishWorkflow", workflowId, request });
      const { repeated, ...body } = await publishWorkflow(workflows, call, workflowId, request, idempotencyKey);
      return { body, headers: replayedHeader(repeated) };
    },

    async cloneWorkflowPackage(call) {
      const packageId = call.params["packageId"] ?? "";
      const request = readOptionalRequest(call, readWorkflowCloneRequest);
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "cloneWorkflowPackage", packageId, request });
      return writtenReply(await cloneWorkflowPackage(workflows, call, packageId, request, idempotencyKey));
    },

    async listWorkflowPackages({ identity, query }) {
      const { items, ...page } = await packages.list(identity, query, readPageLimit(query));
      return { body: { items: items.map(presentWorkflowPackage), ...page } };
    },

    async getWorkflowPackage(call) {
      const { pack, asOf } = await packages.find(call.identity, call.params["packageId"] ?? "");
      return { body: { ...presentWorkflowPackage(pack), versions: pack.versions.map(presentPackageVersion), asOf } };
    },

    async listWorkflowPackageVersions(call) {
      const { pack, asOf } = await packages.find(call.identity, call.params["packageId"] ?? "");
      return { body: { items: pack.versions.map(presentPackageVersion), asOf } };
    },

    async deleteWorkflowPackage(call) {
      await deleteWorkflowPackage(workflows, call, call.params["packageId"] ?? "");
      return { body: "" };
    },
  };
}
