// Reading and writing documents: one by name, a write with its audit entry and idempotency key, and a retry after a conflict.

import type { AuditEntry, DocPut, DocRow, IdempotencyKey, StoreReader } from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import type { EngineClient } from "../environment/engine-client.ts";
import type { Actor } from "../identity/caller.ts";

export interface DocumentWrite {
  readonly puts?: readonly DocPut[];
  readonly drops?: readonly { readonly collection: string; readonly name: string; readonly rev: number }[];
  readonly audit?: AuditEntry;
  readonly ask?: IdempotencyKey | null;
}

export async function readDocument(
  reader: StoreReader,
  tenant: string,
  collection: string,
  name: string,
): Promise<{ readonly doc: DocRow | null; readonly head: number }> {
  const { items, head } = await reader.page({ page: "doc", tenant, collection, names: [name] });
  return { doc: items[0] ?? null, head };
}

/** Writes all of it or nothing. `repeated`: an earlier request with this idempotency key did it already. */
export async function writeDocuments(
  engineClient: EngineClient,
  actor: Actor,
  { puts = [], ...rest }: DocumentWrite,
): Promise<{ readonly revs: readonly number[]; readonly repeated: boolean }> {
  const answer = await engineClient.request({ type: "docs.write", ...actor, puts, ...rest });
  if (answer.of !== "docs") throw fault("E.INTERNAL", `docs.write was answered with ${answer.of}`);
  return answer;
}

/** The name in a document's id, `<tenant>/<collection>/<name>`. */
export const documentNameOf = ({ id, tenant, collection }: Pick<DocRow, "id" | "tenant" | "collection">): string =>
  id.slice(tenant.length + collection.length + 2);

export const isConflict = (why: unknown): why is Fault => why instanceof Fault && why.code === "E.CONFLICT";

/** Runs a read-and-write step again when another writer came first, at most `attemptsMax` times in all. */
export async function retryOnConflict<T>(
  attemptsMax: number,
  step: () => Promise<T>,
  isRetryable: (why: unknown) => boolean = isConflict,
): Promise<T> {
  for (let attempts = 1; ; attempts += 1)
    try {
      return await step();
    } catch (why) {
      if (!isRetryable(why) || attempts >= attemptsMax) throw why;
    }
}
