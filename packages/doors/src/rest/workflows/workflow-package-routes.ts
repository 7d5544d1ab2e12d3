// The routes about workflows published as packages, and what all routes that write workflows share.

import { canonicalJson } from "@astraflow/graph";
import { readWorkflowCloneRequest, readWorkflowPublishRequest } from "@astraflow/protocol";
import {
  presentPackageVersion,
  presentWorkflowPackage,
  searchTermFor,
  type WorkflowIdempotencyKey,
  type WorkflowServices,
  type WrittenWorkflow,
} from "@astraflow/services";
import { type RestCall, type RestReply, type RouteHandlers, replayedHeader } from "../requests/rest-call.ts";

export function workflowPackageHandlers({ packages, digest }: WorkflowServices) {
  return {
    async publishWorkflow(call) {
      const workflowId = call.param("workflowId");
      const request = call.readBody(readWorkflowPublishRequest);
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "publishWorkflow", workflowId, request });
      const { repeated, ...body } = await packages.publish(call, workflowId, request, idempotencyKey);
      return { body, headers: replayedHeader(repeated) };
    },

    async cloneWorkflowPackage(call) {
      const packageId = call.param("packageId");
      const request = call.readOptionalBody(readWorkflowCloneRequest);
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "cloneWorkflowPackage", packageId, request });
      return writtenReply(await packages.clone(call, packageId, request, idempotencyKey));
    },

    async listWorkflowPackages(call) {
      const { items, ...page } = await packages.list(call.identity, call.query, call.readPageLimit());
      return { body: { items: items.map(presentWorkflowPackage), ...page } };
    },

    async getWorkflowPackage(call) {
      const { document: pack, asOf } = await packages.find(call.identity, call.param("packageId"));
      return { body: { ...presentWorkflowPackage(pack), versions: pack.versions.map(presentPackageVersion), asOf } };
    },

    async listWorkflowPackageVersions(call) {
      const { document: pack, asOf } = await packages.find(call.identity, call.param("packageId"));
      return { body: { items: pack.versions.map(presentPackageVersion), asOf } };
    },

    async deleteWorkflowPackage(call) {
      await packages.delete(call, call.param("packageId"));
      return { body: "" };
    },
  } satisfies RouteHandlers;
}

/** The key of a request with a digest of all that makes it this request; null without a key. */
export function workflowIdempotencyKeyOf(
  call: RestCall,
  digest: (text: string) => string,
  request: object,
): WorkflowIdempotencyKey | null {
  const key = call.readIdempotencyKey();
  if (key === null) return null;
  const sum = digest(canonicalJson([call.identity.user, request]));
  return { key, digest: sum, searchTerm: searchTermFor("ask", `${call.tenant} ${key} ${sum}`) };
}

export const writtenReply = ({ workflowId, revision, repeated }: WrittenWorkflow): RestReply =>
  revision === null
    ? { body: { workflowId }, headers: replayedHeader(repeated) }
    : { body: { workflowId, revision }, headers: { etag: `"r${revision}"`, ...replayedHeader(repeated) } };
