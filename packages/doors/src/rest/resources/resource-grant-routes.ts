// The routes of grants.

import { type ResourceGrant, readResourceGrantCreate } from "@astraflow/protocol";
import { decodeDocumentCursor, encodeCursor, isoTime, type ResourceGrantRecord, type ResourceGrants } from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import { type RestCall, type RouteHandler, readIdempotencyKey, readPageLimit, readRequest } from "../requests/rest-call.ts";

export type ResourceGrantRoutes = "listResourceGrants" | "createResourceGrant" | "getResourceGrant" | "deleteResourceGrant";

export function resourceGrantHandlers(grants: ResourceGrants): Record<ResourceGrantRoutes, RouteHandler> {
  return {
    async listResourceGrants(call) {
      const page = { limit: readPageLimit(call.query), after: decodeDocumentCursor(call.query["cursor"]) };
      const { items, next, head } = await grants.list(call, call.query, page);
      return { body: { items: items.map(({ record }) => presentGrant(record)), nextCursor: encodeCursor(next), asOf: head } };
    },

    async createResourceGrant(call) {
      const key = readIdempotencyKey(call);
      const { grant, repeated, head } = await grants.create(call, readRequest(call, readResourceGrantCreate), key);
      const headers = { location: `/api/v1/resource-grants/${grant.id}`, ...replayedHeader(repeated) };
      return { body: { ...presentGrant(grant), asOf: head }, headers };
    },

    async getResourceGrant(call) {
      const { record, head } = await grants.find(call, grantIdOf(call));
      return { body: { ...presentGrant(record), asOf: head } };
    },

    async deleteResourceGrant(call) {
      await grants.delete(call, grantIdOf(call));
      return { body: "", status: 204 };
    },
  };
}

const grantIdOf = ({ params }: RestCall): string => params["grantId"] ?? "";

function presentGrant({
  id,
  packageVersion,
  workflowId,
  metadata,
  actions,
  createdAt,
  ...rest
}: ResourceGrantRecord): ResourceGrant {
  return {
    grantId: id,
    ...rest,
    actions: [...actions],
    createdAt: isoTime(createdAt),
    ...(packageVersion !== null && { packageVersion }),
    ...(workflowId !== null && { workflowId }),
    ...(metadata !== null && { metadata }),
  };
}
