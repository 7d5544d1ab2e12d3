// Reading and writing documents: one by name, a write with its audit entry and idempotency key, a retry after a conflict, the audit of what is
// refused before it reaches the engine, and the records of one collection.

import type { AuditEntry, DocPut, DocRow, IdempotencyKey, PageQuery, StoreReader } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, faultCodes } from "@astraflow/protocol";
import { type EngineClient, expectAnswer } from "../environment/engine-client.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { type Actor, actorOf, type Caller } from "../identity/identity.ts";

export interface DocumentWrite {
  readonly puts?: readonly DocPut[];
  readonly drops?: readonly { readonly collection: string; readonly name: string; readonly rev: number }[];
  readonly audit?: AuditEntry;
  readonly ask?: IdempotencyKey | null;
}

export async function readDocument(reader: StoreReader, tenant: string, collection: string, name: string) {
  const { items, head } = await reader.page({ page: "doc", tenant, collection, names: [name] });
  return { doc: items[0] ?? null, head };
}

/** Writes all of it or nothing. `repeated`: an earlier request with this idempotency key did it already. */
export const writeDocuments = async (engineClient: EngineClient, actor: Actor, { puts = [], ...rest }: DocumentWrite) =>
  expectAnswer(await engineClient.request({ type: "docs.write", ...actor, puts, ...rest }), "docs");

/** The name in a document's id, `<tenant>/<collection>/<name>`. */
export const documentNameOf = ({ id, tenant, collection }: Pick<DocRow, "id" | "tenant" | "collection">): string =>
  id.slice(tenant.length + collection.length + 2);

export const isConflict = (why: unknown): why is Fault => why instanceof Fault && why.code === "E.CONFLICT";
export const isNotFound = (why: unknown): why is Fault => why instanceof Fault && why.code === "E.NOT_FOUND";

/** The same message for every id that the caller may not see: it must not show whether it is someone else's. */
export const notFound = (what: string, id: string): Fault => fault("E.NOT_FOUND", `there is no ${what} ${id.slice(0, 100)}`);

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

/** The id of something new. With a key it is derived from it, so that a repeated request finds what the first one made. */
export const idForRequest = ({ environment, digest }: ServiceContext, of: string, user: string, key: string | null): string =>
  key === null ? environment.ids.next() : digest(canonicalJson({ of, user, key }));

/** The key with the digest of its request, which must be the same each time the key is used. */
export const idempotencyKeyFor = (
  digest: ServiceContext["digest"],
  key: string | null,
  request: unknown,
): IdempotencyKey | null => (key === null ? null : { key, digest: digest(canonicalJson(request)) });

/** For a request that is harmless to repeat: call it before carrying a valid request out. True if the key was used before. */
export const registerIdempotencyKey = async (
  engineClient: EngineClient,
  caller: Caller,
  ask: IdempotencyKey | null,
): Promise<boolean> => ask !== null && (await writeDocuments(engineClient, actorOf(caller), { ask })).repeated;

/**
 * For a request that is about to be refused: its key may belong to another request, which is said first, or to this very one, which was
 * carried out before (true). Nothing is stored.
 */
export async function wasCarriedOut(engineClient: EngineClient, caller: Caller, ask: IdempotencyKey | null): Promise<boolean> {
  if (ask === null) return false;
  try {
    // A revision that no document has: a key that nobody has used is refused with the write, and not kept.
    const put = { collection: "idempotency", name: "none", rev: Number.MAX_SAFE_INTEGER, body: "{}" };
    return (await writeDocuments(engineClient, actorOf(caller), { puts: [put], ask })).repeated;
  } catch (why) {
    if (!isConflict(why)) throw why;
    return false;
  }
}

export interface StoredRecord<T> {
  readonly record: T;
  readonly rev: number;
}

/** A record with the position of the log that it is true at. */
export type FoundRecord<T> = StoredRecord<T> & { readonly head: number };
export type RecordQuery = Omit<Extract<PageQuery, { page: "docs" }>, "page" | "collection">;

/** The documents of one collection: the name is the record's id, the body holds its other fields. */
export class RecordStore<T extends { readonly id: string }> {
  protected readonly context: Pick<ServiceContext, "engineClient" | "reader">;
  readonly #collection: string;

  constructor(context: Pick<ServiceContext, "engineClient" | "reader">, collection: string) {
    this.context = context;
    this.#collection = collection;
  }

  /** Record null and revision 0: there is none. */
  async find(tenant: string, id: string): Promise<FoundRecord<T | null>> {
    const { doc, head } = await readDocument(this.context.reader, tenant, this.#collection, id);
    return doc === null ? { record: null, rev: 0, head } : { ...parseRecord<T>(doc), head };
  }

  /** Throws E.NOT_FOUND where there is none, or none that the caller may see. */
  async findVisible(tenant: string, id: string, isVisible: (record: T) => boolean): Promise<FoundRecord<T>> {
    const { record, rev, head } = await this.find(tenant, id);
    if (record === null || !isVisible(record)) throw notFound(this.#collection, id);
    return { record, rev, head };
  }

  async list(query: RecordQuery) {
    const { items, next, head } = await this.context.reader.page({ page: "docs", collection: this.#collection, ...query });
    return { items: items.map(parseRecord<T>), next, head };
  }

  write(actor: Actor, write: DocumentWrite) {
    return writeDocuments(this.context.engineClient, actor, write);
  }
}

const parseRecord = <T extends { readonly id: string }>(doc: DocRow): StoredRecord<T> => ({
  record: { id: documentNameOf(doc), ...(JSON.parse(doc.body) as Omit<T, "id">) } as T,
  rev: doc.rev,
});

/** The document of a record; `index` is what it is sorted and searched by, and how long it is kept. */
export const recordPut = (
  collection: string,
  { id, ...body }: { readonly id: string },
  rev: number,
  index: Pick<DocPut, "sort" | "terms" | "keepMs">,
): DocPut => ({ collection, name: id, rev, body: JSON.stringify(body), ...index });

/** Does the work; where it is refused the audit gets the order with the refusal's code. Failures of the store or engine (5xx) are not recorded. */
export async function auditRefusal<T>(
  engineClient: EngineClient,
  caller: Caller,
  audit: AuditEntry,
  work: () => T | Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (why) {
    if (!(why instanceof Fault) || faultCodes[why.code].http >= 500) throw why;
    // If the refusal cannot be stored, the caller gets that error and can retry.
    await writeDocuments(engineClient, actorOf(caller), { audit: { ...audit, outcome: why.code } });
    throw why;
  }
}

/** An order about a run, in the words of the audit. */
export const runAudit = (action: string, run: string, data: Readonly<Record<string, unknown>>): AuditEntry => ({
  action,
  targetType: "run",
  target: run,
  data: Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined)),
});
