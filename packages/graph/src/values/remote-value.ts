// Values that were too large to send and stayed at their worker: the references to them, and to parts of them.

import { isObject, valueAt } from "./binding-path.ts";

/** `{"resourceRef": {"resourceId": …}}` and nothing else. */
export function isRemoteValueRef(value: unknown): value is { readonly resourceRef: Readonly<Record<string, unknown>> } {
  if (!isObject(value) || Object.keys(value).length !== 1) return false;
  const ref = value["resourceRef"];
  return isObject(ref) && typeof ref["resourceId"] === "string";
}

/** The value at a path, or undefined. If the path leads into a value that stayed at its worker: the reference with the rest of the path, so that it is not taken for a missing value. */
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

/** A part of a value that stayed at its worker, and the field that refers to it. */
export interface RemoteValuePart {
  readonly field: string;
  readonly inside: string;
  readonly resourceId: string;
}

/** The first such part in these parameters; null if there is none. */
export function findRemoteValuePart(params: string): RemoteValuePart | null {
  // Most parameters have no references: do not even parse them.
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
