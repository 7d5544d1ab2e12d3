// Idempotency keys of requests that change no document under their key. The engine remembers the keys.

import type { IdempotencyKey } from "@astraflow/engine";
import type { EngineClient } from "../environment/engine-client.ts";
import { actorOf, type Caller } from "../identity/caller.ts";
import { writeDocuments } from "./documents.ts";

/**
 * Stores the key of a request that is harmless to repeat; true if it was used before. Call it once the request is known to be valid and
 * before carrying it out: if we crash in between, the repeated request carries it out.
 */
export async function registerIdempotencyKey(
  engineClient: EngineClient,
  caller: Caller,
  idempotencyKey: IdempotencyKey | null,
): Promise<boolean> {
  if (idempotencyKey === null) return false;
  return (await writeDocuments(engineClient, actorOf(caller), { ask: idempotencyKey })).repeated;
}
