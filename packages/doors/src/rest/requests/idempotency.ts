// The Idempotency-Key of a request: what makes a request the same one, and how the answer to a repeat is marked.

import type { IdempotencyKey } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { type RestCall, readIdempotencyKey } from "./rest-call.ts";

/** The caller's key with a digest of the user, the action, its target and the body. Null if the request has no key. */
export function idempotencyKeyOf(
  call: RestCall,
  type: string,
  request: object | null,
  digest: (text: string) => string,
): IdempotencyKey | null {
  const key = readIdempotencyKey(call);
  return key === null ? null : { key, digest: digest(canonicalJson([call.identity.user, type, call.params, request])) };
}

export const replayedHeader = (isRepeated: boolean): Record<string, string> =>
  isRepeated ? { "idempotent-replayed": "true" } : {};
