// What a node is given of the resources that its package asks for: which grant counts, and what of the resource goes into its parameters.
// Nothing of it is ever stored.

import { isSecretType, type JsonObject, type Manifest } from "@astraflow/protocol";
import { RecordStore } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import type { BlobStores } from "./blob-store.ts";
import { grantIdPrefix, type ResourceGrantRecord, type ResourceRecord } from "./resource-store.ts";

type StoredRequirement = Manifest["requirements"]["resources"][number];
/** An entry of `requirements.resources` in a package's manifest. */
export type ResourceRequirement = Pick<StoredRequirement, "key" | "type"> & Partial<StoredRequirement>;

export interface BindingError {
  readonly key: string;
  readonly error: "missing_grant" | "resource_not_found" | "resource_value_unavailable";
  readonly resourceId?: string;
}

/** What goes into the parameters; neither key is there where it would be empty. */
export interface ResourceBindings {
  readonly __resourceBindings?: JsonObject;
  readonly __resourceBindingErrors?: readonly BindingError[];
}

export interface ResourceBindingsQuery {
  readonly tenant: string;
  /** Null: a definition that is not a stored workflow, so only grants for all workflows count. Whoever asks must have seen that it is the caller's. */
  readonly workflowId: string | null;
  readonly packageName: string;
  readonly version: string;
  readonly requirements: readonly ResourceRequirement[];
}

const bindingLimits = { valueBytesMax: 65_536, grantsMax: 1_000 } as const;

/** The grant that counts: of this workflow before those for all, the newest of several; null where none allows what is asked for. */
export function chooseGrant(
  grants: readonly ResourceGrantRecord[],
  { key, actions = ["read"] }: ResourceRequirement,
  { workflowId, packageName, version }: Pick<ResourceBindingsQuery, "workflowId" | "packageName" | "version">,
): ResourceGrantRecord | null {
  const fitting = grants.filter(
    (grant) =>
      grant.packageName === packageName &&
      grant.resourceKey === key &&
      (grant.packageVersion === null || grant.packageVersion === version) &&
      (grant.scope === "global" || (workflowId !== null && grant.workflowId === workflowId)) &&
      actions.every((action) => (grant.actions as readonly string[]).includes(action)),
  );
  const rank = (grant: ResourceGrantRecord): number => (grant.scope === "workflow" ? 1 : 0);
  const [best = null] = fitting.sort((a, b) => rank(b) - rank(a) || b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
  return best;
}

/** Whether the node gets the value itself, not only word of where it is. */
export const exposesValue = ({ type, metadata }: ResourceRequirement): boolean =>
  isSecretType(type) || metadata?.["inline"] === true || metadata?.["exposeValue"] === true;

/** `value`: undefined where it is not asked for, null where it could not be had. */
function createBinding({ id, filename, mimeType, sizeBytes, metadata }: ResourceRecord, value: string | null | undefined) {
  const binding: JsonObject = { resourceId: id, type: "file", filename, mimeType, sizeBytes, metadata };
  return typeof value === "string" ? { ...binding, value } : binding;
}

export interface ResourceBinder {
  resolveBindings(query: ResourceBindingsQuery): Promise<ResourceBindings>;
}

export function createResourceBinder(
  context: Pick<ServiceContext, "engineClient" | "reader">,
  blobs: BlobStores,
): ResourceBinder {
  const resourceStore = new RecordStore<ResourceRecord>(context, "resource");
  const grantStore = new RecordStore<ResourceGrantRecord>(context, "grant");

  const readGrants = async (tenant: string, packageName: string): Promise<readonly ResourceGrantRecord[]> => {
    const grants: ResourceGrantRecord[] = [];
    // Newest first: where there are more than anybody has, the old ones are those that do not count.
    const query = { tenant, prefix: grantIdPrefix(packageName), order: "desc", limit: 200 } as const;
    for (let from: { after?: string } = {}; ; ) {
      const { items, next } = await grantStore.list({ ...query, ...from });
      grants.push(...items.map(({ record }) => record));
      if (next === null || grants.length >= bindingLimits.grantsMax) return grants;
      from = { after: next };
    }
  };
  /** Null: it is too large, no text, or its bytes are not here. */
  const readValue = async (tenant: string, { id: name, provider, sizeBytes }: ResourceRecord): Promise<string | null> => {
    const from = blobs[provider];
    const blobKey = { tenant, name };
    if (from === undefined || sizeBytes > bindingLimits.valueBytesMax || (await from.stat(blobKey)) === null) return null;
    const chunks: Uint8Array[] = [];
    for await (const chunk of from.read(blobKey)) chunks.push(chunk);
    return decodeText(Buffer.concat(chunks));
  };

  return {
    async resolveBindings({ tenant, requirements, ...query }) {
      const bound = new Map<string, JsonObject>();
      const errors: BindingError[] = [];
      const grants = requirements.length === 0 ? [] : await readGrants(tenant, query.packageName);
      for (const requirement of requirements) {
        const { key, required = true } = requirement;
        const grant = chooseGrant(grants, requirement, query);
        if (grant === null) {
          if (required) errors.push({ key, error: "missing_grant" });
          continue;
        }
        const { resourceId } = grant;
        const { record } = await resourceStore.find(tenant, resourceId);
        if (record === null) {
          errors.push({ key, error: "resource_not_found", resourceId });
          continue;
        }
        const value = exposesValue(requirement) ? await readValue(tenant, record) : undefined;
        if (value === null) errors.push({ key, error: "resource_value_unavailable", resourceId });
        bound.set(key, createBinding(record, value));
      }
      return {
        ...(bound.size > 0 && { __resourceBindings: Object.fromEntries(bound) }),
        ...(errors.length > 0 && { __resourceBindingErrors: errors }),
      };
    },
  };
}

/** What is said where nothing could be looked up in time: of every resource that is asked for, as any of them may be granted. */
export const unavailableBindings = (requirements: readonly ResourceRequirement[]): ResourceBindings =>
  requirements.length === 0
    ? {}
    : { __resourceBindingErrors: requirements.map(({ key }) => ({ key, error: "resource_value_unavailable" })) };

/** UTF-8 without what surrounds it; null where it is none. */
function decodeText(bytes: Buffer): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).trim();
  } catch {
    // Not text: the caller says so.
    return null;
  }
}
