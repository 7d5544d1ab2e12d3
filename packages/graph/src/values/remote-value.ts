// Values that were too large to travel and stayed at a worker: the reference in their place, and what an edge carries that reads inside one.

import { isObject, valueAt } from "./binding-path.ts";

/** `{"resourceRef": {"resourceId": …}}` and nothing beside it. */
export function isRemoteValueRef(value: unknown): value is { readonly resourceRef: Readonly<Record<string, unknown>> } {
  if (!isObject(value) || Object.keys(value).length !== 1) return false;
  const ref = value["resourceRef"];
  return isObject(ref) && typeof ref["resourceId"] === "string";
}

/** The value at a path, or undefined. Where the way leads into a value that stayed, the reference, and beside it which part was meant: it must not pass for a missing one. */
export function valueOrRemoteRefAt(value: unknown, steps: readonly string[]): unknown {
  const found = valueAt(value, steps);
  if (found !== undefined) return found;
  for (let taken = 1; taken < steps.length; taken++) {
    const at = valueAt(value, steps.slice(0, taken));
    if (at === undefined) return undefined;
    if (isRemoteValueRef(at)) return { ...at, inside: steps.slice(taken).join(".") };
  }
  return undefined;
}

/** A part of a value that stayed, where it was written. */
export interface RemoteValuePart {
  readonly field: string;
  readonly inside: string;
  readonly resourceId: string;
}

/** The first part of a value that stayed in these parameters; null where there is none. */
export function findRemoteValuePart(params: string): RemoteValuePart | null {
  // Nearly all refer to nothing: they are not even read.
  if (!params.includes('"resourceRef"') || !params.includes('"inside"')) return null;
  const open: [path: string, value: unknown][] = [["parameters", JSON.parse(params)]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [field, value] = next;
    if (typeof value !== "object" || value === null) continue;
    const { inside, ...rest } = value as Record<string, unknown>;
    if (typeof inside === "string" && isRemoteValueRef(rest))
      return { field, inside, resourceId: String(rest.resourceRef["resourceId"]) };
    for (const [key, inner] of Object.entries(value)) open.push([`${field}.${key}`, inner]);
  }
  return null;
}
