// `astra backup` and `astra restore`: the data folder of a scheduler as a folder with checksums. The session keys are not in it: they are
// secrets that a backup must not spread, and without them workers only shake hands again.

import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { copyFile, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { pipeline } from "node:stream/promises";
import { fault } from "@astraflow/protocol";
import { SettingProblem } from "@astraflow/settings";
import { backupSqlite, lockDatabase } from "@astraflow/store";
import { createSyncedFile, syncFolder } from "../platform/synced-file.ts";
import { describeStoreAddress, parseStoreAddress } from "../settings/store-address.ts";

const databaseName = "astra.db";
const manifestName = "backup.json";
/** Kept with the store: the scheduler takes up its own row again. */
const replicaNameFile = "replica_name";
const blobsName = "blobs";
const unfinishedSuffix = ".unfinished";

export interface BackupRequest {
  /** As --store of the scheduler; empty is the file in the data folder. */
  readonly store: string;
  readonly dataDir: string;
  /** The folder of the backup. */
  readonly folder: string;
}

export interface BackupReport {
  readonly folder: string;
  readonly files: number;
  readonly bytes: number;
}

interface BackupManifest {
  readonly format: 1;
  readonly createdAt: string;
  readonly schema: number;
  /** By path inside the folder. */
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly sha256: string }>>;
}

/** Beside a scheduler that may go on working. The folder appears under its name only when it is complete. */
export async function backUpDataFolder({ store, dataDir, folder }: BackupRequest): Promise<BackupReport> {
  const file = requireSqliteFile(store, dataDir, "pg_dump --format=custom --file=FILE with the address of --store");
  const target = resolve(folder);
  if (existsSync(target))
    throw fault("E.CONFLICT", `${target} exists already; name a new folder for the backup`, { folder: target });
  const unfinished = `${target}${unfinishedSuffix}`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true, mode: 0o700 });
  try {
    const blobs = { from: join(dataDir, blobsName), to: join(unfinished, blobsName) };
    // Before and after the store: a file that is removed meanwhile is in the first pass, one that is added in the second.
    await copyTree(blobs.from, blobs.to);
    const { schema } = await backupSqlite(file, join(unfinished, databaseName));
    await copyTree(blobs.from, blobs.to);
    if (existsSync(join(dataDir, replicaNameFile)))
      await copyAndSync(join(dataDir, replicaNameFile), join(unfinished, replicaNameFile));
    const files = await digestTree(unfinished);
    const manifest: BackupManifest = { format: 1, createdAt: new Date().toISOString(), schema, files };
    createSyncedFile(join(unfinished, manifestName), `${JSON.stringify(manifest, null, 2)}\n`);
    await rename(unfinished, target);
    syncFolder(dirname(target));
    return summarize(target, manifest);
  } catch (cause) {
    await rm(unfinished, { recursive: true, force: true });
    throw cause;
  }
}

/** Into a data folder without a store. Every file is compared with its checksum before the first one is written. */
export async function restoreDataFolder({ store, dataDir, folder }: BackupRequest): Promise<BackupReport> {
  const file = requireSqliteFile(store, dataDir, "pg_restore with the address of --store");
  const source = resolve(folder);
  const manifest = await readManifest(source);
  await compareFiles(source, manifest);
  const lock = lockDatabase(file);
  try {
    for (const path of [file, `${file}-wal`])
      if (existsSync(path))
        throw fault("E.CONFLICT", `${path} exists already; move it away, or restore into another --data-dir`, { file: path });
    for (const path of Object.keys(manifest.files).filter((one) => one !== databaseName)) {
      await mkdir(dirname(join(dataDir, path)), { recursive: true, mode: 0o700 });
      await copyAndSync(join(source, path), join(dataDir, path));
    }
    // Last, and in one step: a restore that was interrupted leaves no store that could be started.
    await copyAndSync(join(source, databaseName), `${file}${unfinishedSuffix}`);
    await rename(`${file}${unfinishedSuffix}`, file);
    syncFolder(dirname(file));
    return summarize(dataDir, manifest);
  } finally {
    lock.close();
  }
}

function requireSqliteFile(store: string, dataDir: string, command: string): string {
  const address = parseStoreAddress(store, dataDir);
  if (address instanceof SettingProblem) throw fault("E.CONFIG.INVALID", `--store ${address.reason}`);
  if (address.of === "sqlite") return address.file;
  const place = describeStoreAddress(address);
  throw fault(
    "E.CONFIG.INVALID",
    `${place} is a PostgreSQL server, which has its own tools: use ${command}; see docs/guides/backup.md`,
  );
}

function summarize(folder: string, { files }: BackupManifest): BackupReport {
  const sizes = Object.values(files).map(({ bytes }) => bytes);
  return { folder, files: sizes.length, bytes: sizes.reduce((sum, bytes) => sum + bytes, 0) };
}

async function readManifest(folder: string): Promise<BackupManifest> {
  const path = join(folder, manifestName);
  if (!existsSync(path)) throw fault("E.NOT_FOUND", `${folder} is no complete backup: ${manifestName} is missing`, { folder });
  const manifest = JSON.parse(await readFile(path, "utf8")) as BackupManifest;
  const isKnown = manifest.format === 1 && typeof manifest.files === "object" && Object.hasOwn(manifest.files, databaseName);
  const isInside =
    isKnown && Object.keys(manifest.files).every((path_) => !relative(folder, join(folder, path_)).startsWith(".."));
  if (!isInside) throw fault("E.REQUEST.INVALID", `${path} is not the list of a backup that this program can read`, { folder });
  return manifest;
}

async function compareFiles(folder: string, manifest: BackupManifest): Promise<void> {
  for (const [path, wanted] of Object.entries(manifest.files)) {
    const found = existsSync(join(folder, path)) ? await digestFile(join(folder, path)) : null;
    if (found?.sha256 === wanted.sha256 && found.bytes === wanted.bytes) continue;
    const how = found === null ? "is missing" : "has changed since the backup was made";
    throw fault("E.STORE.DAMAGED", `${join(folder, path)} ${how}; use another backup`, { folder, file: path });
  }
}

async function digestTree(folder: string): Promise<BackupManifest["files"]> {
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
async function copyTree(from: string, to: string): Promise<void> {
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

async function copyAndSync(from: string, to: string): Promise<void> {
  await copyFile(from, to);
  const handle = await open(to, "r+");
  try {
    await handle.chmod(0o600);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
