// The content of one entry as a stream. What comes out is counted, not what the archive says will come out.

import { pipeline, Readable } from "node:stream";
import { crc32, createInflateRaw } from "node:zlib";
import { Fault, fault } from "@astraflow/protocol";
import type { ByteSource } from "./byte-source.ts";
import type { LocatedEntry } from "./read-zip.ts";
import { methods } from "./zip-records.ts";

const chunkBytes = 64 * 1024;

/** Throws E.PKG.INVALID as soon as the entry is longer than it says, and at the end where it is shorter or damaged. */
export async function* readEntryContent(source: ByteSource, entry: LocatedEntry, signal?: AbortSignal): AsyncGenerator<Buffer> {
  const { name, bytes } = entry;
  const refuse = (message: string, cause?: unknown) =>
    fault("E.PKG.INVALID", `entry "${name}" ${message}`, { entry: name }, cause);
  let produced = 0;
  let checksum = 0;
  try {
    for await (const chunk of entry.method === methods.stored ? readRaw(source, entry, signal) : inflate(source, entry, signal)) {
      signal?.throwIfAborted();
      produced += chunk.length;
      if (produced > bytes) throw refuse(`unpacks to more than the ${bytes} bytes it says it has`);
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
  } catch (thrown) {
    if (thrown instanceof Fault || !isZlibError(thrown)) throw thrown;
    throw refuse("cannot be unpacked: its compressed data are damaged", thrown);
  }
  if (produced !== bytes) throw refuse(`unpacks to ${produced} bytes and says it has ${bytes}`);
  if (checksum !== entry.crc32) throw refuse("does not match its checksum");
}

/** The whole content, for small entries that the caller has bounded. */
export async function readWholeEntry(source: ByteSource, entry: LocatedEntry, signal?: AbortSignal): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of readEntryContent(source, entry, signal)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* readRaw(
  source: ByteSource,
  { dataOffset, compressedBytes }: LocatedEntry,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  for (let at = 0; at < compressedBytes; at += chunkBytes) {
    signal?.throwIfAborted();
    yield await source.read(dataOffset + at, Math.min(chunkBytes, compressedBytes - at));
  }
}

async function* inflate(source: ByteSource, entry: LocatedEntry, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  const inflater = createInflateRaw({ chunkSize: chunkBytes });
  // The error reaches the reader below, who may have left already.
  pipeline(Readable.from(readRaw(source, entry, signal)), inflater, () => {});
  try {
    yield* inflater as AsyncIterable<Buffer>;
  } finally {
    inflater.destroy();
  }
  if (inflater.bytesWritten !== entry.compressedBytes)
    throw fault("E.PKG.INVALID", `entry "${entry.name}" has bytes behind the end of its compressed data`, { entry: entry.name });
}

function isZlibError(thrown: unknown): boolean {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" && thrown.code.startsWith("Z_");
}
