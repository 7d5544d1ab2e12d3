// Where the bytes of resources are kept: the port, and the store that keeps small files as documents.

import { createHash } from "node:crypto";
import { type Fault, fault } from "@astraflow/protocol";
import { readDocument } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";

/** Whose bytes, under which name. Names are ids that were made here, and parts of them a number. */
export interface BlobKey {
  readonly tenant: string;
  readonly name: string;
}

export interface BlobStore {
  /** Durable when it resolves; replaces what was there. A source that fails leaves nothing. E.REQUEST.TOO_LARGE beyond `bytesMax`. */
  write(key: BlobKey, source: AsyncIterable<Uint8Array>, bytesMax: number): Promise<StoredBlob>;
  /** All, or from `start` to `end`. Throws E.NOT_FOUND where the bytes are not there. */
  read(key: BlobKey, range?: BlobRange): AsyncIterable<Uint8Array>;
  stat(key: BlobKey): Promise<{ readonly sizeBytes: number } | null>;
  /** What is not there is gone already. */
  delete(key: BlobKey): Promise<void>;
  /** The largest file that it takes. */
  readonly bytesMax: number;
}

export interface StoredBlob {
  readonly sizeBytes: number;
  /** In hex. */
  readonly sha256: string;
}

export interface BlobRange {
  readonly start: number;
  /** Included. */
  readonly end: number;
}

/** The first one is where a file goes that names no provider. */
export type BlobStores = Readonly<Partial<Record<"local" | "db", BlobStore>>>;

const tenantPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const namePattern = /^[A-Za-z0-9_-]{1,128}(\.[0-9]{1,6})?$/;

/** What was not made here is a bug, and must never become a path. */
export function assertBlobKey({ tenant, name }: BlobKey): void {
  if (!tenantPattern.test(tenant) || !namePattern.test(name)) throw new Error("invalid blob key (tenant or name)");
}

export const missingBytesFault = (): Fault => fault("E.NOT_FOUND", "the content of this resource is missing from the blob store");

/** Counts and hashes what passes; throws as soon as it is too much. */
export async function* measureBytes(
  source: AsyncIterable<Uint8Array>,
  bytesMax: number,
  onMeasured: (stored: StoredBlob) => void,
): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  for await (const chunk of source) {
    sizeBytes += chunk.length;
    if (sizeBytes > bytesMax)
      throw fault("E.REQUEST.TOO_LARGE", `the file is larger than the ${bytesMax} bytes it may have here`);
    hash.update(chunk);
    yield chunk;
  }
  onMeasured({ sizeBytes, sha256: hash.digest("hex") });
}

export const documentBlobLimits = { bytesMax: 4 * 1024 * 1024, chunkBytes: 256 * 1024 } as const;
const chunksMax = documentBlobLimits.bytesMax / documentBlobLimits.chunkBytes;

/** Small files as documents, in pieces behind a head that is written last: every scheduler of the store has them. */
export function createDocumentBlobStore({ engineClient, reader }: Pick<ServiceContext, "engineClient" | "reader">): BlobStore {
  const { chunkBytes: pieceBytes } = documentBlobLimits;
  const chunkName = (name: string, piece: number): string => `${name}/${String(piece).padStart(4, "0")}`;
  const readDocumentBody = async <T>({ tenant }: BlobKey, name: string): Promise<T | null> => {
    const { doc } = await readDocument(reader, tenant, "blob", name);
    return doc === null ? null : (JSON.parse(doc.body) as T);
  };
  const writeDocument = ({ tenant }: BlobKey, name: string, body: object) =>
    engineClient.request({
      type: "docs.write",
      tenant,
      by: "scheduler",
      puts: [{ collection: "blob", name, body: JSON.stringify(body) }],
    });

  return {
    bytesMax: documentBlobLimits.bytesMax,
    async write(key, source, bytesMax) {
      assertBlobKey(key);
      let stored: StoredBlob = { sizeBytes: 0, sha256: "" };
      let pieces = 0;
      const counted = measureBytes(source, Math.min(bytesMax, documentBlobLimits.bytesMax), (result) => {
        stored = result;
      });
      for await (const piece of splitIntoChunks(counted, pieceBytes)) {
        await writeDocument(key, chunkName(key.name, pieces), { data: piece.toString("base64") });
        pieces += 1;
      }
      await writeDocument(key, key.name, { ...stored, pieces });
      return stored;
    },
    async *read(key, range) {
      const head = await readDocumentBody<StoredBlob>(key, key.name);
      if (head === null) throw missingBytesFault();
      const { start, end } = range ?? { start: 0, end: head.sizeBytes - 1 };
      for (let piece = Math.floor(start / pieceBytes); piece * pieceBytes <= end; piece += 1) {
        const body = await readDocumentBody<{ data: string }>(key, chunkName(key.name, piece));
        if (body === null) throw missingBytesFault();
        const from = piece * pieceBytes;
        yield Buffer.from(body.data, "base64").subarray(Math.max(0, start - from), end + 1 - from);
      }
    },
    async stat(key) {
      const head = await readDocumentBody<StoredBlob>(key, key.name);
      return head === null ? null : { sizeBytes: head.sizeBytes };
    },
    async delete({ tenant, name }) {
      // All there can be, by name: a write that was broken off has pieces and no head that counts them.
      const names = [name, ...Array.from({ length: chunksMax }, (_, piece) => chunkName(name, piece))];
      const { items } = await reader.page({ page: "doc", tenant, collection: "blob", names });
      const drops = items.flatMap((doc, at) =>
        doc === null ? [] : [{ collection: "blob", name: names[at] ?? "", rev: doc.rev }],
      );
      if (drops.length > 0) await engineClient.request({ type: "docs.write", tenant, by: "scheduler", puts: [], drops });
    },
  };
}

/** The same bytes in pieces of one size, the last what remains. */
async function* splitIntoChunks(source: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Buffer> {
  let buffered = Buffer.alloc(0);
  for await (const chunk of source) {
    buffered = Buffer.concat([buffered, chunk]);
    for (; buffered.length >= size; buffered = buffered.subarray(size)) yield buffered.subarray(0, size);
  }
  if (buffered.length > 0) yield buffered;
}
