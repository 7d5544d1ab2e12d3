// Orders under an Idempotency-Key: what makes a request the same one, and how a repeat is marked. The memory is the engine's.

import type { IdempotencyKey } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { fault } from "@astraflow/protocol";
import type { EngineClient } from "../../engine-client/engine-client.ts";
import { type RestCall, readIdempotencyKey } from "./rest-call.ts";

/** The caller's key with what it was used for: who asked for what, of what, in which words. Null: there is none. */
export function idempotencyKeyOf(
  call: RestCall,
  type: string,
  request: object | null,
  digest: (text: string) => string,
): IdempotencyKey | null {
  const key = readIdempotencyKey(call);
  return key === null ? null : { key, digest: digest(canonicalJson([call.identity.user, type, call.params, request])) };
}

/**
 * Remembers a key for an order that does nothing the second time by itself; true where it has come before. Asked once the order is known to be
 * good, and before it is carried out: a crash in between costs nothing, the repeat carries it out.
 */
export async function registerIdempotencyKey(
  engineClient: EngineClient,
  call: RestCall,
  idempotencyKey: IdempotencyKey | null,
): Promise<boolean> {
  if (idempotencyKey === null) return false;
  const { tenant, user: by } = call.identity;
  const answer = await engineClient.request({
    type: "docs.write",
    tenant,
    by,
    corr: call.requestId,
    puts: [],
    ask: idempotencyKey,
  });
  if (answer.of !== "docs") throw fault("E.INTERNAL", `docs.write was answered with ${answer.of}`);
  return answer.repeated;
}

export const replayedHeader = (isRepeated: boolean): Record<string, string> =>
  isRepeated ? { "idempotent-replayed": "true" } : {};
