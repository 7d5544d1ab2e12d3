// Resources that a task refers to, in its node's policy and anywhere in its parameters as `{"resourceRef": {...}}`. Pure.

import type { PlanNode } from "@astraflow/graph";
import { parseInstant } from "@astraflow/protocol";
import type { Millis } from "../../storage/rows.ts";

/** A resource as its user names it; the owner's name is a hint, the artifact's document knows better. */
export interface RequestedResource {
  readonly resource: string;
  readonly workerName: string | null;
  readonly type: string;
  readonly scope?: string;
  readonly expiresAt?: Millis;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** More than this in one task's parameters cannot be meant. */
export const refsMax = 256;

const refMarker = '"resourceRef"';

/** Each resource once, in the order they were found. */
export function resourceRefsOf(node: PlanNode, params: string | null): readonly RequestedResource[] {
  const authored = node.policy.resourceRefs;
  // Nearly all tasks refer to nothing: their parameters are not even read.
  if (authored === undefined && !params?.includes(refMarker)) return [];
  const found = new Map<string, RequestedResource>();
  for (const one of authored ?? []) addRef(found, one);
  if (params?.includes(refMarker)) collectRefs(found, JSON.parse(params) as unknown);
  return [...found.values()];
}

function collectRefs(found: Map<string, RequestedResource>, params: unknown): void {
  const open = [params];
  for (let value = open.pop(); value !== undefined && found.size < refsMax; value = open.pop()) {
    if (typeof value !== "object" || value === null) continue;
    // One by one: a list may be longer than a call takes arguments.
    if (Array.isArray(value)) for (const inner of (value as unknown[]).toReversed()) open.push(inner);
    else
      for (const [key, inner] of Object.entries(value).toReversed()) {
        if (key === "resourceRef") addRef(found, inner);
        else open.push(inner);
      }
  }
}

/** Both spellings are read: the wire has `resource_id`, workflows have `resourceId`. */
function addRef(found: Map<string, RequestedResource>, value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  const raw = value as Readonly<Record<string, unknown>>;
  const resource = nonEmptyText(raw["resourceId"] ?? raw["resource_id"]);
  if (resource === null || found.has(resource)) return;
  const scope = nonEmptyText(raw["scope"]);
  const expiresAt = readExpiry(raw["expiresAt"] ?? raw["expires_at"]);
  const { metadata } = raw;
  found.set(resource, {
    resource,
    workerName: nonEmptyText(raw["workerName"] ?? raw["worker_name"] ?? raw["workerId"] ?? raw["worker_id"]),
    type: nonEmptyText(raw["type"]) ?? "",
    ...(scope === null ? {} : { scope }),
    ...(expiresAt === null ? {} : { expiresAt }),
    ...(typeof metadata === "object" && metadata !== null ? { metadata: metadata as Readonly<Record<string, unknown>> } : {}),
  });
}

const nonEmptyText = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

function readExpiry(value: unknown): Millis | null {
  if (typeof value === "string") return parseInstant(value);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
