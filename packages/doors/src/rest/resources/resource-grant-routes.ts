// The routes of grants.

import { type ResourceGrant, readResourceGrantCreate } from "@astraflow/protocol";
import {
  createGrant,
  decodeDocumentCursor,
  deleteGrant,
  encodeCursor,
  findGrant,
  isoTime,
  listGrants,
  type ResourceGrantRecord,
  type ResourceRepository,
} from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import { type RestCall, type RouteHandler, readIdempotencyKey, readPageLimit, readRequest } from "../requests/rest-call.ts";

export type ResourceGrantRoutes = "listResourceGrants" | "createResourceGrant" | "getResourceGrant" | "deleteResourceGrant";

export function resourceGrantHandlers(repository: ResourceRepository): Record<ResourceGrantRoutes, RouteHandler> {
  return {
    async listResourceGrants(call) {
      const page = { limit: readPageLimit(call.query), after: decodeDocumentCursor(call.query["cursor"]) };
      const { items, next, head } = await listGrants(repository, call, call.query, page);
      return { body: { items: items.map(presentGrant), nextCursor: encodeCursor(next), asOf: head } };
    },

    async createResourceGrant(call) {
      const key = readIdempotencyKey(call);
      const { grant, repeated, head } = await createGrant(repository, call, readRequest(call, readResourceGrantCreate), key);
      const headers = { location: `/api/v1/resource-grants/${grant.id}`, ...replayedHeader(repeated) };
      return { body: { ...presentGrant(grant), asOf: head }, headers };
    },

    async getResourceGrant(call) {
      const { stored, head } = await findGrant(repository, call, grantIdOf(call));
      return { body: { ...presentGrant(stored.record), asOf: head } };
    },

    async deleteResourceGrant(call) {
      await deleteGrant(repository, call, grantIdOf(call));
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
