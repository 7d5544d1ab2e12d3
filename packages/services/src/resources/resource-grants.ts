// Grants: which package may use which resource under which key. What a node gets by them is decided in resource-bindings.ts.

import { canonicalJson } from "@astraflow/graph";
import { fault, type ResourceGrantCreateRequest } from "@astraflow/protocol";
import { readVisiblePage } from "../documents/visible-page.ts";
import { actorOf, type Caller, isOwnerOrAdmin } from "../identity/caller.ts";
import { findResource, type ResourceRepository, resourceNotFound } from "./resource-repository.ts";
import { grantIdPrefix, grantPut, type ResourceGrantRecord, type StoredRecord } from "./resource-store.ts";

export async function findGrant(
  { store }: ResourceRepository,
  { identity }: Caller,
  id: string,
): Promise<{ stored: StoredRecord<ResourceGrantRecord>; head: number }> {
  const { stored, head } = await store.find(identity.tenant, "grant", id);
  if (stored === null || !isOwnerOrAdmin(identity, stored.record.createdBy)) throw resourceNotFound("grant", id);
  return { stored, head };
}

/** Newest first; `query` holds the fields that a grant must have. */
export const listGrants = (
  { store }: ResourceRepository,
  { identity }: Caller,
  query: Readonly<Record<string, string>>,
  { limit, after: start }: { readonly limit: number; readonly after: string | undefined },
) =>
  readVisiblePage(
    (after) =>
      store.list("grant", {
        tenant: identity.tenant,
        order: "desc",
        limit,
        ...(query["packageName"] !== undefined && { prefix: grantIdPrefix(query["packageName"]) }),
        ...(after !== undefined && { after }),
      }),
    (grant) => isOwnerOrAdmin(identity, grant.createdBy) && matchesGrantQuery(grant, query),
    start,
  );

/** Only the owner of a resource or an admin can grant it. */
export async function createGrant(
  repository: ResourceRepository,
  caller: Caller,
  wanted: ResourceGrantCreateRequest,
  key: string | null,
): Promise<{ grant: ResourceGrantRecord; repeated: boolean; head: number }> {
  const { store, digest, environment } = repository;
  const { tenant, user } = caller.identity;
  checkScope(wanted);
  const { stored: resource } = await findResource(repository, caller, wanted.resourceId);
  if (!isOwnerOrAdmin(caller.identity, resource.record.owner))
    throw fault("E.AUTH.FORBIDDEN", `resource ${wanted.resourceId} is not yours; its owner or an admin can grant it`);
  const { actions = ["read"], packageVersion = null, workflowId = null, metadata = null, ...rest } = wanted;
  // With a key the id is derived from it, so that a repeated request finds the grant.
  const ownId = key === null ? environment.ids.next() : digest(canonicalJson({ of: "grant", user, key }));
  const grant: ResourceGrantRecord = {
    id: `${grantIdPrefix(wanted.packageName)}${ownId}`,
    ...rest,
    packageVersion,
    workflowId,
    metadata,
    actions: [...new Set(actions)],
    createdAt: environment.clock.now(),
    createdBy: user,
  };
  const { repeated } = await store.write(actorOf(caller), {
    puts: [grantPut(grant)],
    audit: { action: "grant.create", targetType: "grant", target: grant.id, data: { resource: grant.resourceId } },
    ask: key === null ? null : { key, digest: digest(canonicalJson({ of: "createResourceGrant", wanted })) },
  });
  const { stored, head } = await store.find(tenant, "grant", grant.id);
  const created = repeated ? stored?.record : grant;
  if (created === undefined) throw resourceNotFound("grant", grant.id);
  return { grant: created, repeated, head };
}

export async function deleteGrant(repository: ResourceRepository, caller: Caller, id: string): Promise<void> {
  const { record, rev } = (await findGrant(repository, caller, id)).stored;
  await repository.store.write(actorOf(caller), {
    drops: [{ collection: "grant", name: record.id, rev }],
    audit: { action: "grant.delete", targetType: "grant", target: record.id, data: { resource: record.resourceId } },
  });
}

function checkScope({ scope, workflowId }: ResourceGrantCreateRequest): void {
  if (scope === "workflow" && workflowId === undefined)
    throw fault("E.REQUEST.INVALID", "body.workflowId is needed with scope workflow", { path: "body.workflowId" });
  if (scope === "global" && workflowId !== undefined)
    throw fault("E.REQUEST.INVALID", "body.workflowId has no meaning with scope global; leave it out", {
      path: "body.workflowId",
    });
}

function matchesGrantQuery(grant: ResourceGrantRecord, query: Readonly<Record<string, string>>): boolean {
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
