// Results that grow while a node runs: a patch merges into what is there, key by key; null removes.

import { isObject, toJsonPointer } from "./binding-path.ts";

export interface ResultPatchOperation {
  readonly op: "replace" | "remove";
  /** JSON pointer into the results. */
  readonly path: string;
  readonly value?: unknown;
}

export interface MergeLimits {
  /** Size of the merged value as JSON text, in bytes. */
  readonly bytesMax: number;
  readonly depthMax: number;
}

const defaultMergeLimits: MergeLimits = { bytesMax: 256 * 1024, depthMax: 64 };

export interface MergedResults {
  readonly value: Record<string, unknown>;
  readonly changes: readonly ResultPatchOperation[];
}

/**
 * The results with the patch in, and what changed; the arguments stay as they were. Null: the merged value is beyond the limits,
 * and the old value stays. A patch that is not an object changes nothing, nor does a key `__proto__`.
 */
export function mergeResults(before: unknown, patch: unknown, limits: MergeLimits = defaultMergeLimits): MergedResults | null {
  const base = isObject(before) ? before : {};
  if (!isObject(patch)) return { value: base, changes: [] };
  const changes: ResultPatchOperation[] = [];
  const value = mergeObjects(base, patch, [], limits.depthMax, changes);
  if (value === null) return null;
  if (changes.length > 0 && new TextEncoder().encode(JSON.stringify(value)).length > limits.bytesMax) return null;
  return { value, changes };
}

/** The changes of a patch without the value before it: each leaf, whether or not it makes a difference. */
export function listPatchChanges(patch: unknown, limits: MergeLimits = defaultMergeLimits): readonly ResultPatchOperation[] {
  const changes: ResultPatchOperation[] = [];
  return isObject(patch) && mergeObjects(null, patch, [], limits.depthMax, changes) !== null ? changes : [];
}

/** With null for the value before, which is not known: then every key that is removed counts as a change. */
function mergeObjects(
  before: Record<string, unknown> | null,
  patch: Record<string, unknown>,
  at: readonly string[],
  depthLeft: number,
  changes: ResultPatchOperation[],
): Record<string, unknown> | null {
  if (depthLeft <= 0) return null;
  const value: Record<string, unknown> = { ...before };
  for (const [key, next] of Object.entries(patch)) {
    if (key === protoKey || next === undefined) continue;
    const path = [...at, key];
    const current = before !== null && Object.hasOwn(before, key) ? before[key] : undefined;
    if (next === null) {
      if (before === null || current !== undefined) changes.push({ op: "remove", path: toJsonPointer(path) });
      delete value[key];
    } else if (isObject(next)) {
      const count = changes.length;
      const inner = mergeObjects(isObject(current) ? current : before && {}, next, path, depthLeft - 1, changes);
      if (inner === null) return null;
      // A key that held no object gets one, even an empty one; the changes inside imply it where there are any.
      if (!isObject(current) && changes.length === count) changes.push({ op: "replace", path: toJsonPointer(path), value: {} });
      value[key] = inner;
    } else {
      const copy = copyWithinDepth(next, depthLeft - 1);
      if (copy === tooDeep) return null;
      changes.push({ op: "replace", path: toJsonPointer(path), value: copy });
      value[key] = copy;
    }
  }
  return value;
}

/** The one key whose assignment would change an object's prototype. */
const protoKey = "__proto__";

const tooDeep = Symbol("too deep");

/** Lists replace as a whole; they are copied without the keys that would reach a prototype. */
function copyWithinDepth(value: unknown, depthLeft: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depthLeft <= 0) return tooDeep;
  if (Array.isArray(value)) {
    const copies = value.map((item) => copyWithinDepth(item, depthLeft - 1));
    return copies.includes(tooDeep) ? tooDeep : copies;
  }
  const copy: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    if (key === protoKey) continue;
    const inner = copyWithinDepth(item, depthLeft - 1);
    if (inner === tooDeep) return tooDeep;
    copy[key] = inner;
  }
  return copy;
}
