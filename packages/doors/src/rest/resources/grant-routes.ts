// The routes of grants: which package may use which resource under which key. What a node is given by them is in ../resource-bindings.ts.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, type ResourceGrant, type ResourceGrantCreateRequest, readResourceGrantCreate } from "@astraflow/protocol";
import { type GrantRecord, grantPrefix, type Kept, putGrant } from "../../resources/resource-store.ts";
import { type Call, type Handler, readBody, readIdempotencyKey, readLimit } from "../call.ts";
import { readDocsCursor, spellCursor } from "../people/user-cursor.ts";
import { instant } from "../view.ts";
import { canSee, doerOf, isOwn, missing, type ResourceKeeper, type ResourcesOptions, seen } from "./resource-keeper.ts";

export type GrantRoutes = "listResourceGrants" | "createResourceGrant" | "getResourceGrant" | "deleteResourceGrant";

export function grantHandlers(
  { environment, digest }: ResourcesOptions,
  { store }: ResourceKeeper,
): Record<GrantRoutes, Handler> {
  const { clock, ids } = environment;

  const find = async (call: Call): Promise<{ kept: Kept<GrantRecord>; head: number }> => {
    const id = call.params["grantId"] ?? "";
    const { kept, head } = await store.find(call.identity.tenant, "grant", id);
    if (kept === null || !isOwn(call.identity, kept.record.createdBy)) throw missing("grant", id);
    return { kept, head };
  };
  const refuseForeign = async (call: Call, resourceId: string): Promise<void> => {
    const { kept } = await store.find(call.identity.tenant, "resource", resourceId);
    if (kept === null || !canSee(call.identity, kept.record)) throw missing("resource", resourceId);
    if (!isOwn(call.identity, kept.record.owner))
      throw fault("E.AUTH.FORBIDDEN", `resource ${resourceId} is not yours; its owner or an admin can grant it`);
  };

  return {
    async listResourceGrants(call) {
      const { tenant } = call.identity;
      const { packageName } = call.query;
      const limit = readLimit(call.query);
      const { items, next, head } = await seen(
        (after) =>
          store.list("grant", {
            tenant,
            order: "desc",
            limit,
            ...(packageName !== undefined && { prefix: grantPrefix(packageName) }),
            ...(after !== undefined && { after }),
          }),
        (grant) => isOwn(call.identity, grant.createdBy) && isAsked(grant, call.query),
        readDocsCursor(call.query["cursor"]),
      );
      return { body: { items: items.map(viewGrant), nextCursor: spellCursor(next), asOf: head } };
    },

    async createResourceGrant(call) {
      const key = readIdempotencyKey(call);
      const wanted = readResourceGrantCreate(readBody(call));
      if (wanted instanceof Fault) throw wanted;
      refuseScope(wanted);
      await refuseForeign(call, wanted.resourceId);
      const { tenant, user } = call.identity;
      const { actions = ["read"], packageVersion = null, workflowId = null, metadata = null, ...rest } = wanted;
      // Under a key the id follows from it, so that the answer to a repeat can name it.
      const own = key === null ? ids.next() : digest(canonicalJson({ of: "grant", user, key }));
      const grant: GrantRecord = {
        id: `${grantPrefix(wanted.packageName)}${own}`,
        ...rest,
        packageVersion,
        workflowId,
        metadata,
        actions: [...new Set(actions)],
        createdAt: clock.now(),
        createdBy: user,
      };
      const { repeated } = await store.write(doerOf(call), {
        puts: [putGrant(grant)],
        audit: { action: "grant.create", targetType: "grant", target: grant.id, data: { resource: grant.resourceId } },
        ask: key === null ? null : { key, digest: digest(canonicalJson({ of: "createResourceGrant", wanted })) },
      });
      const { kept, head } = await store.find(tenant, "grant", grant.id);
      const there = repeated ? kept?.record : grant;
      if (there === undefined) throw missing("grant", grant.id);
      const headers = { location: `/api/v1/resource-grants/${grant.id}`, ...(repeated && { "idempotent-replayed": "true" }) };
      return { body: { ...viewGrant(there), asOf: head }, headers };
    },

    async getResourceGrant(call) {
      const { kept, head } = await find(call);
      return { body: { ...viewGrant(kept.record), asOf: head } };
    },

    async deleteResourceGrant(call) {
      const { record, rev } = (await find(call)).kept;
      await store.write(doerOf(call), {
        drops: [{ collection: "grant", name: record.id, rev }],
        audit: { action: "grant.delete", targetType: "grant", target: record.id, data: { resource: record.resourceId } },
      });
      return { body: "", status: 204 };
    },
  };
}

function refuseScope({ scope, workflowId }: ResourceGrantCreateRequest): void {
  if (scope === "workflow" && workflowId === undefined)
    throw fault("E.REQUEST.INVALID", "body.workflowId is needed with scope workflow", { path: "body.workflowId" });
  if (scope === "global" && workflowId !== undefined)
    throw fault("E.REQUEST.INVALID", "body.workflowId has no meaning with scope global; leave it out", {
      path: "body.workflowId",
    });
}

function isAsked(grant: GrantRecord, query: Call["query"]): boolean {
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

function viewGrant({ id, packageVersion, workflowId, metadata, actions, createdAt, ...rest }: GrantRecord): ResourceGrant {
  return {
    grantId: id,
    ...rest,
    actions: [...actions],
    createdAt: instant(createdAt),
    ...(packageVersion !== null && { packageVersion }),
    ...(workflowId !== null && { workflowId }),
    ...(metadata !== null && { metadata }),
  };
}
