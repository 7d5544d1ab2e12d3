// Resources that a task refers to: found in its node's policy and anywhere in its parameters as `{"resourceRef": {...}}`. Pure; who owns
// them is found out in pins.ts.

import type { PlanNode } from "@astraflow/graph";
import { parseInstant } from "@astraflow/protocol";
import type { Millis } from "../../rows.ts";

/** A resource as its user names it; the owner's name is a hint, the artifact's document knows better. */
export interface WantedRef {
  readonly resource: string;
  readonly workerName: string | null;
  readonly type: string;
  readonly scope?: string;
  readonly expiresAt?: Millis;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** More than this in one task's parameters cannot be meant. */
export const refsMax = 256;

const mark = '"resourceRef"';

/** Each resource once, in the order they were found. */
export function refsOf(node: PlanNode, params: string | null): readonly WantedRef[] {
  const authored = node.policy.resourceRefs;
  // Nearly all tasks refer to nothing: their parameters are not even read.
  if (authored === undefined && !params?.includes(mark)) return [];
  const found = new Map<string, WantedRef>();
  for (const one of authored ?? []) add(found, one);
  if (params?.includes(mark)) collect(found, JSON.parse(params) as unknown);
  return [...found.values()];
}

function collect(found: Map<string, WantedRef>, params: unknown): void {
  const open = [params];
  for (let value = open.pop(); value !== undefined && found.size < refsMax; value = open.pop()) {
    if (typeof value !== "object" || value === null) continue;
    // One by one: a list may be longer than a call takes arguments.
    if (Array.isArray(value)) for (const inner of (value as unknown[]).toReversed()) open.push(inner);
    else
      for (const [key, inner] of Object.entries(value).toReversed()) {
        if (key === "resourceRef") add(found, inner);
        else open.push(inner);
      }
  }
}

/** Both spellings of the wire are read: frames say `resource_id`, workflows `resourceId`. */
function add(found: Map<string, WantedRef>, value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  const said = value as Readonly<Record<string, unknown>>;
  const resource = text(said["resourceId"] ?? said["resource_id"]);
  if (resource === null || found.has(resource)) return;
  const scope = text(said["scope"]);
  const expiresAt = instant(said["expiresAt"] ?? said["expires_at"]);
  const { metadata } = said;
  found.set(resource, {
    resource,
    workerName: text(said["workerName"] ?? said["worker_name"] ?? said["workerId"] ?? said["worker_id"]),
    type: text(said["type"]) ?? "",
    ...(scope === null ? {} : { scope }),
    ...(expiresAt === null ? {} : { expiresAt }),
    ...(typeof metadata === "object" && metadata !== null ? { metadata: metadata as Readonly<Record<string, unknown>> } : {}),
  });
}

const text = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

function instant(value: unknown): Millis | null {
  if (typeof value === "string") return parseInstant(value);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
