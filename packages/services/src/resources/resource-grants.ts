// Grants: which package may use which resource under which key. What a node gets by them is decided in resource-bindings.ts.

import { fault, type ResourceGrantCreateRequest } from "@astraflow/protocol";
import { readVisiblePage } from "../documents/document-list.ts";
import { type FoundRecord, idempotencyKeyFor, idForRequest, notFound } from "../documents/documents.ts";
import { actorOf, type Caller, isOwnerOrAdmin } from "../identity/identity.ts";
import type { ResourceRepository } from "./resource-repository.ts";
import { grantIdPrefix, grantPut, type ResourceGrantRecord } from "./resource-store.ts";

export class ResourceGrants {
  readonly #repository: ResourceRepository;

  constructor(repository: ResourceRepository) {
    this.#repository = repository;
  }

  find({ identity }: Caller, id: string): Promise<FoundRecord<ResourceGrantRecord>> {
    return this.#repository.grants.findVisible(identity.tenant, id, (grant) => isOwnerOrAdmin(identity, grant.createdBy));
  }

  /** Newest first; `query` holds the fields that a grant must have. */
  list({ identity }: Caller, query: GrantQuery, { limit, after }: { limit: number; after: string | undefined }) {
    const { packageName } = query;
    const prefix = packageName === undefined ? {} : { prefix: grantIdPrefix(packageName) };
    return readVisiblePage(
      (from) => this.#repository.grants.list({ tenant: identity.tenant, order: "desc", limit, ...prefix, ...from }),
      (grant) => isOwnerOrAdmin(identity, grant.createdBy) && matchesGrantQuery(grant, query),
      after,
    );
  }

  /** Only the owner of a resource or an admin can grant it. */
  async create(caller: Caller, wanted: ResourceGrantCreateRequest, key: string | null) {
    const { grants, context } = this.#repository;
    const { tenant, user } = caller.identity;
    checkScope(wanted);
    await this.#repository.findOwn(caller, wanted.resourceId, "grant");
    const { actions = ["read"], packageVersion = null, workflowId = null, metadata = null, ...rest } = wanted;
    const grant: ResourceGrantRecord = {
      id: `${grantIdPrefix(wanted.packageName)}${idForRequest(context, "grant", user, key)}`,
      ...rest,
      packageVersion,
      workflowId,
      metadata,
      actions: [...new Set(actions)],
      createdAt: context.environment.clock.now(),
      createdBy: user,
    };
    const { repeated } = await grants.write(actorOf(caller), {
      puts: [grantPut(grant)],
      audit: { action: "grant.create", targetType: "grant", target: grant.id, data: { resource: grant.resourceId } },
      ask: idempotencyKeyFor(context.digest, key, { of: "createResourceGrant", wanted }),
    });
    const { record, head } = await grants.find(tenant, grant.id);
    const created = repeated ? record : grant;
    if (created === null) throw notFound("grant", grant.id);
    return { grant: created, repeated, head };
  }

  async delete(caller: Caller, id: string): Promise<void> {
    const { record, rev } = await this.find(caller, id);
    await this.#repository.grants.write(actorOf(caller), {
      drops: [{ collection: "grant", name: record.id, rev }],
      audit: { action: "grant.delete", targetType: "grant", target: record.id, data: { resource: record.resourceId } },
    });
  }
}

function checkScope({ scope, workflowId }: ResourceGrantCreateRequest): void {
  if (scope === "workflow" && workflowId === undefined)
    throw fault("E.REQUEST.INVALID", "body.workflowId is needed with scope workflow", { path: "body.workflowId" });
  if (scope === "global" && workflowId !== undefined)
    throw fault("E.REQUEST.INVALID", "body.workflowId has no meaning with scope global; leave it out", {
      path: "body.workflowId",
    });
}

const grantFields = ["workflowId", "packageName", "packageVersion", "resourceKey", "scope", "resourceId"] as const;
type GrantQuery = Readonly<Partial<Record<(typeof grantFields)[number], string>>>;

const matchesGrantQuery = (grant: ResourceGrantRecord, query: GrantQuery): boolean =>
  grantFields.every((field) => query[field] === undefined || grant[field] === query[field]);
