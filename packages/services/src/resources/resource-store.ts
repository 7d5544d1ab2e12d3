// The documents about resources: a resource under its id, an unfinished upload under its own, a grant under an id that begins with a
// digest of its package. The bytes are in blob-store.ts.

import { createHash } from "node:crypto";
import type { DocPut, DocRow, StoreReader } from "@astraflow/engine";
import type { JsonObject } from "@astraflow/protocol";
import { type DocumentWrite, documentNameOf, readDocument, writeDocuments } from "../documents/documents.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import type { Actor } from "../identity/caller.ts";

export type ResourceVisibility = "private" | "public" | "owner";

export interface ResourceRecord {
  readonly id: string;
  readonly provider: "local" | "db";
  readonly filename: string;
  readonly sizeBytes: number;
  readonly createdAt: number;
  readonly owner: string;
  readonly visibility: ResourceVisibility;
  readonly mimeType: string | null;
  readonly sha256: string;
  readonly metadata: JsonObject | null;
}

export interface UploadRecord {
  readonly id: string;
  readonly owner: string;
  readonly provider: "local" | "db";
  readonly visibility: ResourceVisibility;
  readonly filename: string;
  readonly sizeBytes: number;
  readonly chunkSize: number;
  readonly mimeType: string | null;
  readonly sha256: string | null;
  readonly metadata: JsonObject | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** `removing`: only the bytes under this id are left, and they are being deleted. */
  readonly status: "pending" | "completed" | "removing";
  readonly resource: string | null;
  /** Parts received so far, as ranges [first, last], in order. */
  readonly parts: readonly (readonly [number, number])[];
}

export interface ResourceGrantRecord {
  readonly id: string;
  readonly resourceId: string;
  readonly packageName: string;
  readonly packageVersion: string | null;
  readonly resourceKey: string;
  readonly scope: "workflow" | "global";
  readonly workflowId: string | null;
  readonly actions: readonly ("read" | "write" | "use")[];
  readonly metadata: JsonObject | null;
  readonly createdAt: number;
  readonly createdBy: string;
}

interface ResourceRecords {
  readonly resource: ResourceRecord;
  readonly upload: UploadRecord;
  readonly grant: ResourceGrantRecord;
}
export type ResourceCollection = keyof ResourceRecords;

export type StoredRecord<T> = { readonly record: T; readonly rev: number };
export interface ResourceListQuery {
  readonly tenant: string;
  readonly prefix?: string;
  readonly search?: string;
  readonly order?: "asc" | "desc";
  readonly after?: string;
  readonly limit: number;
}

export interface ResourceStore {
  find<C extends ResourceCollection>(
    tenant: string,
    collection: C,
    id: string,
  ): Promise<{ readonly stored: StoredRecord<ResourceRecords[C]> | null; readonly head: number }>;
  list<C extends ResourceCollection>(
    collection: C,
    query: ResourceListQuery,
  ): Promise<{
    readonly items: readonly StoredRecord<ResourceRecords[C]>[];
    readonly next: string | null;
    readonly head: number;
  }>;
  write(actor: Actor, write: DocumentWrite): Promise<{ readonly revs: readonly number[]; readonly repeated: boolean }>;
}

export function createResourceStore({
  engineClient,
  reader,
}: {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
}): ResourceStore {
  return {
    async find(tenant, collection, id) {
      const { doc, head } = await readDocument(reader, tenant, collection, id);
      return { stored: doc === null ? null : parseRecord(doc), head };
    },
    async list(collection, query) {
      const { items, next, head } = await reader.page({ page: "docs", collection, ...query });
      return { items: items.map((doc) => parseRecord(doc)), next, head };
    },
    write: (actor, write) => writeDocuments(engineClient, actor, write),
  };
}

const parseRecord = <T>(doc: DocRow): StoredRecord<T> => ({
  record: { id: documentNameOf(doc), ...(JSON.parse(doc.body) as object) } as T,
  rev: doc.rev,
});

/** Sorts as its number does. */
const sortKeyOf = (at: number): string => String(at).padStart(16, "0");

export const resourcePut = ({ id, ...body }: ResourceRecord, rev: number): DocPut => ({
  collection: "resource",
  name: id,
  rev,
  body: JSON.stringify(body),
  sort: sortKeyOf(body.createdAt),
  terms: `${body.filename.toLowerCase()} ${body.sha256}`,
});

/** The upload that was idle longest sorts first: the sweep looks there. */
export const uploadPut = ({ id, ...body }: UploadRecord, rev: number): DocPut => ({
  collection: "upload",
  name: id,
  rev,
  body: JSON.stringify(body),
  sort: sortKeyOf(body.updatedAt),
});

export const grantPut = ({ id, ...body }: ResourceGrantRecord): DocPut => ({
  collection: "grant",
  name: id,
  rev: 0,
  body: JSON.stringify(body),
  sort: sortKeyOf(body.createdAt),
});

/** Ids of all grants to a package begin with this, so that they are found by prefix. */
export const grantIdPrefix = (packageName: string): string =>
  `${createHash("sha256").update(packageName, "utf8").digest("hex").slice(0, 16)}-`;
