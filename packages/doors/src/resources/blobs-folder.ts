// Bytes of resources in a folder: a file for each, in a folder of its tenant. Written aside, flushed and put in its place, so that a crash
// leaves the old bytes, the new ones, or a file with the ending of an unfinished one, which is removed when the folder is opened again.

import { createReadStream, type Stats } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { type BlobPlace, type Blobs, checkPlace, measured, missingBytes, type Stored } from "./blobs.ts";

export interface FolderBlobsOptions {
  readonly folder: string;
  readonly ids: { next(): string };
  readonly bytesMax?: number;
}

/** As large as ten thousand parts of the largest size; the disk ends earlier. */
const folderBytesMax = 64 * 1024 * 1024 * 10_000;
const unfinished = ".unfinished";

export function createFolderBlobs({ folder, ids, bytesMax: most = folderBytesMax }: FolderBlobsOptions): Blobs {
  const homeOf = ({ tenant }: BlobPlace): string => join(folder, tenant);
  const pathOf = (place: BlobPlace): string => {
    checkPlace(place);
    return join(homeOf(place), place.name);
  };
  return {
    bytesMax: most,
    async write(place, source, bytesMax) {
      const path = pathOf(place);
      await mkdir(homeOf(place), { recursive: true, mode: 0o700 });
      const aside = `${path}.${ids.next()}${unfinished}`;
      try {
        const stored = await fill(aside, source, Math.min(most, bytesMax));
        await rename(aside, path);
        await flush(homeOf(place));
        return stored;
      } catch (cause) {
        await rm(aside, { force: true });
        throw cause;
      }
    },
    async *read(place, range) {
      const path = pathOf(place);
      if ((await sizeOf(path)) === null) throw missingBytes();
      // An empty range cannot be said to a stream: `end` is included.
      if (range !== undefined && range.end < range.start) return;
      yield* createReadStream(path, range ?? {}) as AsyncIterable<Buffer>;
    },
    async stat(place) {
      const sizeBytes = await sizeOf(pathOf(place));
      return sizeBytes === null ? null : { sizeBytes };
    },
    async delete(place) {
      await rm(pathOf(place), { force: true });
    },
  };
}

/** Removes what a crash has left unfinished: whatever nobody has written to since `before` (ms). How many there were. */
export async function tidyBlobs(folder: string, before: number): Promise<number> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const files = await readdir(folder, { recursive: true });
  let removed = 0;
  for (const file of files.filter((one) => one.endsWith(unfinished))) {
    const path = join(folder, file);
    const writtenAt = await changedAt(path);
    if (writtenAt === null || writtenAt >= before) continue;
    await rm(path, { force: true });
    removed += 1;
  }
  return removed;
}

async function fill(path: string, source: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Stored> {
  let stored: Stored = { sizeBytes: 0, sha256: "" };
  const handle = await open(path, "wx", 0o600);
  try {
    const counted = measured(source, bytesMax, (told) => {
      stored = told;
    });
    for await (const chunk of counted) await handle.writeFile(chunk);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return stored;
}

async function flush(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const sizeOf = async (path: string): Promise<number | null> => (await statOf(path))?.size ?? null;
const changedAt = async (path: string): Promise<number | null> => (await statOf(path))?.mtimeMs ?? null;

async function statOf(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw cause;
  }
}
