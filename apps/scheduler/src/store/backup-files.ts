// The files of a backup: copied so that they survive a crash, listed with their checksums, and compared with that list.

import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { copyFile, mkdir, open, readdir, readFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { pipeline } from "node:stream/promises";
import { fault } from "@astraflow/protocol";

export const backupManifestName = "backup.json";
export const unfinishedSuffix = ".unfinished";

export interface BackupManifest {
  readonly format: 1;
  readonly createdAt: string;
  /** Version of the tables. */
  readonly schema: number;
  /** By path inside the folder. */
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly sha256: string }>>;
}

export async function readManifest(folder: string, databaseNames: readonly string[]): Promise<BackupManifest> {
  const path = join(folder, backupManifestName);
  if (!existsSync(path))
    throw fault("E.NOT_FOUND", `${folder} is no complete backup: ${backupManifestName} is missing`, { folder });
  const manifest = JSON.parse(await readFile(path, "utf8")) as BackupManifest;
  const hasDatabase = (files: object): boolean => databaseNames.some((name) => Object.hasOwn(files, name));
  const isKnown = manifest.format === 1 && typeof manifest.files === "object" && hasDatabase(manifest.files);
  const isInside =
    isKnown && Object.keys(manifest.files).every((path_) => !relative(folder, join(folder, path_)).startsWith(".."));
  if (!isInside) throw fault("E.REQUEST.INVALID", `${path} is not the list of a backup that this program can read`, { folder });
  return manifest;
}

export async function compareFiles(folder: string, manifest: BackupManifest): Promise<void> {
  for (const [path, wanted] of Object.entries(manifest.files)) {
    const found = existsSync(join(folder, path)) ? await digestFile(join(folder, path)) : null;
    if (found?.sha256 === wanted.sha256 && found.bytes === wanted.bytes) continue;
    const how = found === null ? "is missing" : "has changed since the backup was made";
    throw fault("E.STORE.DAMAGED", `${join(folder, path)} ${how}; use another backup`, { folder, file: path });
  }
}

export async function digestTree(folder: string): Promise<BackupManifest["files"]> {
  const files: Record<string, { bytes: number; sha256: string }> = {};
  for (const path of await listFiles(folder)) files[relative(folder, path).split(sep).join("/")] = await digestFile(path);
  return files;
}

async function digestFile(path: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash("sha256");
  let bytes = 0;
  await pipeline(createReadStream(path), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      hash.update(chunk);
    }
  });
  return { bytes, sha256: hash.digest("hex") };
}

async function listFiles(folder: string): Promise<string[]> {
  if (!existsSync(folder)) return [];
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

/** Copies what is not there yet. A file that disappears meanwhile was removed by the scheduler. */
export async function copyTree(from: string, to: string): Promise<void> {
  for (const path of await listFiles(from)) {
    const target = join(to, relative(from, path));
    if (path.endsWith(unfinishedSuffix) || existsSync(target)) continue;
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    try {
      await copyAndSync(path, target);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause;
    }
  }
}

export async function copyAndSync(from: string, to: string): Promise<void> {
  await copyFile(from, to);
  const handle = await open(to, "r+");
  try {
    await handle.chmod(0o600);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
