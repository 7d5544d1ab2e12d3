// Bytes of resources in a folder: a file for each, in a folder of its tenant. Written aside, flushed and put in its place, so that a crash
// leaves the old bytes, the new ones, or a file with the ending of an unfinished one, which is removed when the folder is opened again.

import { createReadStream, type Stats } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { assertBlobKey, type BlobKey, type BlobStore, measureBytes, missingBytesFault, type StoredBlob } from "./blob-store.ts";

/** As large as ten thousand parts of the largest size; the disk ends earlier. */
const folderBytesMax = 64 * 1024 * 1024 * 10_000;
const unfinishedSuffix = ".unfinished";

export function createFolderBlobStore({
  folder,
  ids,
  bytesMax: storeBytesMax = folderBytesMax,
}: {
  readonly folder: string;
  readonly ids: { next(): string };
  readonly bytesMax?: number;
}): BlobStore {
  const tenantFolderOf = ({ tenant }: BlobKey): string => join(folder, tenant);
  const pathOf = (key: BlobKey): string => {
    assertBlobKey(key);
    return join(tenantFolderOf(key), key.name);
  };
  return {
    bytesMax: storeBytesMax,
    async write(key, source, bytesMax) {
      const path = pathOf(key);
      await mkdir(tenantFolderOf(key), { recursive: true, mode: 0o700 });
      const temporaryPath = `${path}.${ids.next()}${unfinishedSuffix}`;
      try {
        const stored = await writeAndSync(temporaryPath, source, Math.min(storeBytesMax, bytesMax));
        await rename(temporaryPath, path);
        await syncFolder(tenantFolderOf(key));
        return stored;
      } catch (cause) {
        await rm(temporaryPath, { force: true });
        throw cause;
      }
    },
    async *read(key, range) {
      const path = pathOf(key);
      if ((await statOf(path)) === null) throw missingBytesFault();
      // An empty range cannot be said to a stream: `end` is included.
      if (range !== undefined && range.end < range.start) return;
      yield* createReadStream(path, range ?? {}) as AsyncIterable<Buffer>;
    },
    async stat(key) {
      const found = await statOf(pathOf(key));
      return found === null ? null : { sizeBytes: found.size };
    },
    async delete(key) {
      await rm(pathOf(key), { force: true });
    },
  };
}

/** Removes what a crash has left unfinished: whatever nobody has written to since `before` (ms). How many there were. */
export async function removeUnfinishedBlobs(folder: string, before: number): Promise<number> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const files = await readdir(folder, { recursive: true });
  let removed = 0;
  for (const file of files.filter((one) => one.endsWith(unfinishedSuffix))) {
    const path = join(folder, file);
    const found = await statOf(path);
    if (found === null || found.mtimeMs >= before) continue;
    await rm(path, { force: true });
    removed += 1;
  }
  return removed;
}

async function writeAndSync(path: string, source: AsyncIterable<Uint8Array>, bytesMax: number): Promise<StoredBlob> {
  let stored: StoredBlob = { sizeBytes: 0, sha256: "" };
  const handle = await open(path, "wx", 0o600);
  try {
    const counted = measureBytes(source, bytesMax, (result) => {
      stored = result;
    });
    for await (const chunk of counted) await handle.writeFile(chunk);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return stored;
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function statOf(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw cause;
  }
}
