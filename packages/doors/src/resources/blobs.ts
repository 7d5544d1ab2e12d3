// Where the bytes of resources are kept: the port, and the one that keeps small files in the store. Names are ids that were made here.
// A folder of this machine is in blobs-folder.ts; what the bytes belong to is in the routes about resources.

import { createHash } from "node:crypto";
import type { Reader } from "@astraflow/engine";
import { type Fault, fault } from "@astraflow/protocol";
import type { EngineClient } from "../link.ts";

/** Whose bytes, under which name. Names are ids that were made here, and parts of them a number. */
export interface BlobPlace {
  readonly tenant: string;
  readonly name: string;
}

export interface Blobs {
  /**
   * Durable when it resolves; replaces what was there. Whatever ends the source early leaves nothing that can be read.
   * Throws E.REQUEST.TOO_LARGE beyond `bytesMax`.
   */
  write(place: BlobPlace, source: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Stored>;
  /** All, or from `start` to `end`. Throws E.NOT_FOUND where the bytes are not there. */
  read(place: BlobPlace, range?: ByteRange): AsyncIterable<Uint8Array>;
  stat(place: BlobPlace): Promise<{ readonly sizeBytes: number } | null>;
  /** What is not there is gone already. */
  delete(place: BlobPlace): Promise<void>;
  /** The largest file that it takes. */
  readonly bytesMax: number;
}

export interface Stored {
  readonly sizeBytes: number;
  /** In hex. */
  readonly sha256: string;
}

export interface ByteRange {
  readonly start: number;
  /** Included. */
  readonly end: number;
}

/** The first one is where a file goes that names no provider. */
export type BlobsByProvider = Readonly<Partial<Record<"local" | "db", Blobs>>>;

const tenantForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const nameForm = /^[A-Za-z0-9_-]{1,128}(\.[0-9]{1,6})?$/;

/** What was not made here is a bug, and must never become a path. */
export function checkPlace({ tenant, name }: BlobPlace): void {
  if (!tenantForm.test(tenant) || !nameForm.test(name)) throw new Error("this is no place of a blob");
}

export const missingBytes = (): Fault =>
  fault("E.NOT_FOUND", "the bytes of this resource are not where this scheduler keeps them");

/** Counts and hashes what passes; throws as soon as it is too much. */
export async function* measured(
  source: AsyncIterable<Uint8Array>,
  bytesMax: number,
  tell: (stored: Stored) => void,
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
  tell({ sizeBytes, sha256: hash.digest("hex") });
}

export const docBlobLimits = { bytesMax: 4 * 1024 * 1024, pieceBytes: 256 * 1024 } as const;
const piecesMax = docBlobLimits.bytesMax / docBlobLimits.pieceBytes;

/** Small files as documents, in pieces behind a head that is written last: every scheduler of the store has them. */
export function createDocBlobs({
  engineClient,
  reader,
}: {
  readonly engineClient: EngineClient;
  readonly reader: Reader;
}): Blobs {
  const { pieceBytes } = docBlobLimits;
  const pieceName = (name: string, piece: number): string => `${name}/${String(piece).padStart(4, "0")}`;
  const bodyOf = async <T>({ tenant }: BlobPlace, name: string): Promise<T | null> => {
    const { items } = await reader.page({ page: "doc", tenant, collection: "blob", names: [name] });
    const [doc = null] = items;
    return doc === null ? null : (JSON.parse(doc.body) as T);
  };
  const put = ({ tenant }: BlobPlace, name: string, body: object) =>
    engineClient.request({
      type: "docs.write",
      tenant,
      by: "scheduler",
      puts: [{ collection: "blob", name, body: JSON.stringify(body) }],
    });

  const blobs: Blobs = {
    bytesMax: docBlobLimits.bytesMax,
    async write(place, source, bytesMax) {
      checkPlace(place);
      let stored: Stored = { sizeBytes: 0, sha256: "" };
      let pieces = 0;
      const counted = measured(source, Math.min(bytesMax, docBlobLimits.bytesMax), (told) => {
        stored = told;
      });
      for await (const piece of inPieces(counted, pieceBytes)) {
        await put(place, pieceName(place.name, pieces), { data: piece.toString("base64") });
        pieces += 1;
      }
      await put(place, place.name, { ...stored, pieces });
      return stored;
    },
    async *read(place, range) {
      const head = await bodyOf<Stored>(place, place.name);
      if (head === null) throw missingBytes();
      const { start, end } = range ?? { start: 0, end: head.sizeBytes - 1 };
      for (let piece = Math.floor(start / pieceBytes); piece * pieceBytes <= end; piece += 1) {
        const body = await bodyOf<{ data: string }>(place, pieceName(place.name, piece));
        if (body === null) throw missingBytes();
        const from = piece * pieceBytes;
        yield Buffer.from(body.data, "base64").subarray(Math.max(0, start - from), end + 1 - from);
      }
    },
    async stat(place) {
      const head = await bodyOf<Stored>(place, place.name);
      return head === null ? null : { sizeBytes: head.sizeBytes };
    },
    async delete({ tenant, name }) {
      // All there can be, by name: a write that was broken off has pieces and no head that counts them.
      const names = [name, ...Array.from({ length: piecesMax }, (_, piece) => pieceName(name, piece))];
      const { items } = await reader.page({ page: "doc", tenant, collection: "blob", names });
      const drops = items.flatMap((doc, at) =>
        doc === null ? [] : [{ collection: "blob", name: names[at] ?? "", rev: doc.rev }],
      );
      if (drops.length > 0) await engineClient.request({ type: "docs.write", tenant, by: "scheduler", puts: [], drops });
    },
  };
  return blobs;
}

/** The same bytes in pieces of one size, the last what remains. */
async function* inPieces(source: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Buffer> {
  let waiting = Buffer.alloc(0);
  for await (const chunk of source) {
    waiting = Buffer.concat([waiting, chunk]);
    for (; waiting.length >= size; waiting = waiting.subarray(size)) yield waiting.subarray(0, size);
  }
  if (waiting.length > 0) yield waiting;
}
