// Unpacks an archive into a folder that did not exist before. The folder is new and gets regular files and folders only, so that no path
// can lead out of it; what else could is refused by the reader.

import { constants } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import path from "node:path";
import type { ByteSource } from "./byte-source.ts";
import { readEntryContent } from "./entry-content.ts";
import type { LocatedEntry } from "./read-zip.ts";

/** Where files are unpacked to. Tests pass one that fails. */
export interface UnpackTarget {
  /** Must fail where the folder exists. */
  createFolder(name: string): Promise<void>;
  /** Must fail where the file exists; resolves once its content is on disk. */
  writeFile(name: string, content: AsyncIterable<Uint8Array>, options: { readonly isExecutable: boolean }): Promise<void>;
  /** Resolves once the names in a folder are on disk; "" is the folder itself. */
  syncFolder(name: string): Promise<void>;
}

export interface UnpackProgress {
  readonly signal?: AbortSignal;
  /** After each entry. */
  unpacked?(bytes: number): void;
}

/** Creates `folder`, which must not exist, and writes into it. */
export function createFolderTarget(folder: string): UnpackTarget {
  const resolve = (name: string) => path.join(folder, ...name.split("/"));
  return {
    createFolder: (name) => mkdir(resolve(name)),
    async writeFile(name, content, { isExecutable }) {
      const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants;
      const handle = await open(resolve(name), O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, isExecutable ? 0o755 : 0o644);
      try {
        for await (const chunk of content) await handle.writeFile(chunk);
        await handle.sync();
      } finally {
        await handle.close();
      }
    },
    async syncFolder(name) {
      const handle = await open(resolve(name), "r");
      try {
        await handle.sync();
      } finally {
        await handle.close();
      }
    },
  };
}

/** Throws E.PKG.INVALID where an entry is not what the directory says; what was written by then is the caller's to remove. */
export async function unpackArchive(
  source: ByteSource,
  entries: readonly LocatedEntry[],
  target: UnpackTarget,
  { signal, unpacked }: UnpackProgress = {},
): Promise<void> {
  const folders = listFolders(entries);
  for (const folder of folders) await target.createFolder(folder);
  let bytes = 0;
  for (const entry of entries) {
    signal?.throwIfAborted();
    if (entry.kind === "folder") continue;
    await target.writeFile(entry.name, readEntryContent(source, entry, signal), { isExecutable: entry.isExecutable });
    bytes += entry.bytes;
    unpacked?.(bytes);
  }
  // From the deepest up: a folder's own name is on disk with its parent.
  for (const folder of folders.toReversed()) await target.syncFolder(folder);
}

/** Every folder that an entry is or lies in, parents first; "" is the target itself. */
function listFolders(entries: readonly LocatedEntry[]): string[] {
  const folders = new Set([""]);
  for (const { name, kind } of entries) {
    const parts = name.split("/");
    for (let count = 1; count < parts.length + (kind === "folder" ? 1 : 0); count++) folders.add(parts.slice(0, count).join("/"));
  }
  return [...folders].sort((left, right) => left.split("/").length - right.split("/").length || (left < right ? -1 : 1));
}
