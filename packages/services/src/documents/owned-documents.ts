// Documents that belong to a user: listed newest first and found by words. Deleted ones stay, behind all others and without words.

import { type DocPut, type IdempotencyKey, searchWords } from "@astraflow/engine";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller, type CallerIdentity, isOwnerOrAdmin } from "../identity/identity.ts";
import { isUuid, searchTermFor, sortKeyOf } from "./derived-names.ts";
import { listDocuments } from "./document-list.ts";
import { type DocumentWrite, readDocument, writeDocuments } from "./documents.ts";

interface OwnedDocument {
  readonly id: string;
  readonly owner: string;
  readonly updatedAt: number;
  readonly deletedAt: number | null;
}

const termsMax = 96;

export class OwnedDocumentStore<T extends OwnedDocument, Context extends ServiceContext> {
  readonly context: Context;
  readonly #collection: string;

  constructor(context: Context, collection: string) {
    this.context = context;
    this.#collection = collection;
  }

  now(): number {
    return this.context.environment.clock.now();
  }

  /** Whoever owns it, deleted or not. */
  async readAny(tenant: string, id: string): Promise<{ document: T | null; rev: number; asOf: number }> {
    if (!isUuid(id)) return { document: null, rev: 0, asOf: 0 };
    const { doc, head: asOf } = await readDocument(this.context.reader, tenant, this.#collection, id);
    return { document: doc === null ? null : (JSON.parse(doc.body) as T), rev: doc?.rev ?? 0, asOf };
  }

  protected listVisible(
    tenant: string,
    { limit, cursor, search }: { readonly limit: number; readonly cursor: string | undefined; readonly search: string },
    isVisible: (document: T) => boolean,
  ) {
    return listDocuments(
      this.context.reader,
      { tenant, collection: this.#collection, order: "desc", search },
      {
        limit,
        cursor,
        view(doc) {
          const document = JSON.parse(doc.body) as T;
          return isVisible(document) ? document : null;
        },
        // Deleted ones sort behind all others.
        isEnd: (doc) => doc.sort === "",
      },
    );
  }

  /** The key may have more fields than the engine stores. */
  protected writeAs(caller: Caller, ask: IdempotencyKey | null, write: Omit<DocumentWrite, "ask">) {
    const plainKey = ask === null ? null : { key: ask.key, digest: ask.digest };
    return writeDocuments(this.context.engineClient, actorOf(caller), { ...write, ask: plainKey });
  }

  /** Found by its owner, by these further terms, and by the words of the texts. */
  protected putOf(document: T, rev: number, terms: readonly string[], texts: readonly string[]): DocPut {
    const words = new Set([ownerSearchTerm(document.owner), ...terms, ...texts.flatMap(searchWords)]);
    const isActive = document.deletedAt === null;
    return {
      collection: this.#collection,
      name: document.id,
      rev,
      body: JSON.stringify(document),
      sort: isActive ? sortKeyOf(document.updatedAt) : "",
      terms: isActive ? [...words].slice(0, termsMax).join(" ") : "",
    };
  }
}

export const ownerSearchTerm = (owner: string): string => searchTermFor("owner", owner);

export const owns = (identity: CallerIdentity, { owner }: OwnedDocument): boolean => isOwnerOrAdmin(identity, owner);

/** Display name of a user; a token only has its own name. */
export const displayNameOf = ({ person, user }: CallerIdentity): string => person?.displayName ?? user;
