// The routes of grants: which package may use which resource under which key. What a node is given by them is in ../resource-bindings.ts.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, type ResourceGrant, type ResourceGrantCreateRequest, readResourceGrantCreate } from "@astraflow/protocol";
import {
  actorOf,
  canSeeResource,
  decodeDocumentCursor,
  encodeCursor,
  grantIdPrefix,
  grantPut,
  isOwnerOrAdmin,
  isoTime,
  type ResourceGrantRecord,
  type ResourceRepository,
  type ResourceRepositoryOptions,
  readVisiblePage,
  resourceNotFound,
  type StoredRecord,
} from "@astraflow/services";
import { type RestCall, type RouteHandler, readIdempotencyKey, readJsonBody, readPageLimit } from "../requests/rest-call.ts";

export type ResourceGrantRoutes = "listResourceGrants" | "createResourceGrant" | "getResourceGrant" | "deleteResourceGrant";

export function resourceGrantHandlers(
  { environment, digest }: ResourceRepositoryOptions,
  { store }: ResourceRepository,
): Record<ResourceGrantRoutes, RouteHandler> {
  const { clock, ids } = environment;

  const find = async (call: RestCall): Promise<{ stored: StoredRecord<ResourceGrantRecord>; head: number }> => {
    const id = call.params["grantId"] ?? "";
    const { stored, head } = await store.find(call.identity.tenant, "grant", id);
    if (stored === null || !isOwnerOrAdmin(call.identity, stored.record.createdBy)) throw resourceNotFound("grant", id);
    return { stored, head };
  };
  const requireOwnResource = async (call: RestCall, resourceId: string): Promise<void> => {
    const { stored } = await store.find(call.identity.tenant, "resource", resourceId);
    if (stored === null || !canSeeResource(call.identity, stored.record)) throw resourceNotFound("resource", resourceId);
    if (!isOwnerOrAdmin(call.identity, stored.record.owner))
      throw fault("E.AUTH.FORBIDDEN", `resource ${resourceId} is not yours; its owner or an admin can grant it`);
  };

  return {
    async listResourceGrants(call) {
      const { tenant } = call.identity;
      const { packageName } = call.query;
      const limit = readPageLimit(call.query);
      const { items, next, head } = await readVisiblePage(
        (after) =>
          store.list("grant", {
            tenant,
            order: "desc",
            limit,
            ...(packageName !== undefined && { prefix: grantIdPrefix(packageName) }),
            ...(after !== undefined && { after }),
          }),
        (grant) => isOwnerOrAdmin(call.identity, grant.createdBy) && matchesGrantQuery(grant, call.query),
        decodeDocumentCursor(call.query["cursor"]),
      );
      return { body: { items: items.map(presentGrant), nextCursor: encodeCursor(next), asOf: head } };
    },

    async createResourceGrant(call) {
      const key = readIdempotencyKey(call);
      const wanted = readResourceGrantCreate(readJsonBody(call));
      if (wanted instanceof Fault) throw wanted;
      checkScope(wanted);
      await requireOwnResource(call, wanted.resourceId);
      const { tenant, user } = call.identity;
      const { actions = ["read"], packageVersion = null, workflowId = null, metadata = null, ...rest } = wanted;
      // Under a key the id follows from it, so that the answer to a repeat can name it.
      const own = key === null ? ids.next() : digest(canonicalJson({ of: "grant", user, key }));
      const grant: ResourceGrantRecord = {
        id: `${grantIdPrefix(wanted.packageName)}${own}`,
        ...rest,
        packageVersion,
        workflowId,
        metadata,
        actions: [...new Set(actions)],
        createdAt: clock.now(),
        createdBy: user,
      };
      const { repeated } = await store.write(actorOf(call), {
        puts: [grantPut(grant)],
        audit: { action: "grant.create", targetType: "grant", target: grant.id, data: { resource: grant.resourceId } },
        ask: key === null ? null : { key, digest: digest(canonicalJson({ of: "createResourceGrant", wanted })) },
      });
      const { stored, head } = await store.find(tenant, "grant", grant.id);
      const createdGrant = repeated ? stored?.record : grant;
      if (createdGrant === undefined) throw resourceNotFound("grant", grant.id);
      const headers = { location: `/api/v1/resource-grants/${grant.id}`, ...(repeated && { "idempotent-replayed": "true" }) };
      return { body: { ...presentGrant(createdGrant), asOf: head }, headers };
    },

    async getResourceGrant(call) {
      const { stored, head } = await find(call);
      return { body: { ...presentGrant(stored.record), asOf: head } };
    },

    async deleteResourceGrant(call) {
      const { record, rev } = (await find(call)).stored;
      await store.write(actorOf(call), {
        drops: [{ collection: "grant", name: record.id, rev }],
        audit: { action: "grant.delete", targetType: "grant", target: record.id, data: { resource: record.resourceId } },
      });
      return { body: "", status: 204 };
    },
  };
}

function checkScope({ scope, workflowId }: ResourceGrantCreateRequest): void {
  if (scope === "workflow" && workflowId === undefined)
    throw fault("E.REQUEST.INVALID", "body.workflowId is needed with scope workflow", { path: "body.workflowId" });
  if (scope === "global" && workflowId !== undefined)
    throw fault("E.REQUEST.INVALID", "body.workflowId has no meaning with scope global; leave it out", {
      path: "body.workflowId",
    });
}

function matchesGrantQuery(grant: ResourceGrantRecord, query: RestCall["query"]): boolean {
  const { workflowId, packageName, packageVersion, resourceKey, scope, resourceId } = query;
  return (
    (workflowId === undefined || grant.workflowId === workflowId) &&
    (packageName === undefined || grant.packageName === packageName) &&
    (packageVersion === undefined || grant.packageVersion === packageVersion) &&
    (resourceKey === undefined || grant.resourceKey === resourceKey) &&
    (scope === undefined || grant.scope === scope) &&
    (resourceId === undefined || grant.resourceId === resourceId)
  );
}

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
