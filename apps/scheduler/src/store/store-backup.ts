// `astra backup` and `astra restore`: the data folder of a scheduler, or a dump of its PostgreSQL server, as a folder with checksums. The
// session keys are not in it: they are secrets that a backup must not spread, and without them workers only shake hands again.

import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fault } from "@astraflow/protocol";
import { SettingProblem } from "@astraflow/settings";
import { backupSqlite, lockDatabase } from "@astraflow/store";
import { createSyncedFile, syncFolder } from "../platform/synced-file.ts";
import { describeStoreAddress, parseStoreAddress, type StoreAddress } from "../settings/store-address.ts";
import {
  type BackupManifest,
  backupManifestName,
  compareFiles,
  copyAndSync,
  copyTree,
  digestTree,
  readManifest,
  unfinishedSuffix,
} from "./backup-files.ts";
import { dumpPostgres, restorePostgres } from "./postgres-dump.ts";

/** What the store is called in a backup. */
const databaseNames = { sqlite: "astra.db", postgres: "astra.dump" } as const;
/** Kept with the store: the scheduler takes up its own row again. */
const replicaNameFile = "replica_name";
const blobsName = "blobs";

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

/** Beside schedulers that may go on working. The folder appears under its name only when it is complete. */
export async function backUpDataFolder({ store, dataDir, folder }: BackupRequest): Promise<BackupReport> {
  const address = readStoreAddress(store, dataDir);
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
    const { schema } = await copyDatabase(address, join(unfinished, databaseNames[address.of]));
    await copyTree(blobs.from, blobs.to);
    // Of several schedulers on a server each keeps its own name.
    if (address.of === "sqlite" && existsSync(join(dataDir, replicaNameFile)))
      await copyAndSync(join(dataDir, replicaNameFile), join(unfinished, replicaNameFile));
    const files = await digestTree(unfinished);
    const manifest: BackupManifest = { format: 1, createdAt: new Date().toISOString(), schema, files };
    createSyncedFile(join(unfinished, backupManifestName), `${JSON.stringify(manifest, null, 2)}\n`);
    await rename(unfinished, target);
    syncFolder(dirname(target));
    return summarize(target, manifest);
  } catch (cause) {
    await rm(unfinished, { recursive: true, force: true });
    throw cause;
  }
}

const copyDatabase = (address: StoreAddress, to: string): Promise<{ readonly schema: number }> =>
  address.of === "sqlite" ? backupSqlite(address.file, to) : dumpPostgres(address, to);

/** Into a data folder without a store, or a database without one. Every file is compared with its checksum before the first one is written. */
export async function restoreDataFolder({ store, dataDir, folder }: BackupRequest): Promise<BackupReport> {
  const address = readStoreAddress(store, dataDir);
  const source = resolve(folder);
  const manifest = await readManifest(source, Object.values(databaseNames));
  const databaseName = databaseNames[address.of];
  if (!Object.hasOwn(manifest.files, databaseName)) {
    const other = address.of === "sqlite" ? "a PostgreSQL server" : "a sqlite file";
    throw fault("E.CONFIG.INVALID", `${source} is the backup of ${other}, and --store is ${describeStoreAddress(address)}`, {
      folder: source,
    });
  }
  await compareFiles(source, manifest);
  const otherFiles = Object.keys(manifest.files).filter((path) => path !== databaseName);
  if (address.of === "sqlite") await restoreSqlite(address.file, { source, dataDir, otherFiles });
  else {
    await restorePostgres(address, join(source, databaseName), () => copyFiles({ source, dataDir, otherFiles }));
  }
  return summarize(dataDir, manifest);
}

interface RestoredFiles {
  readonly source: string;
  readonly dataDir: string;
  readonly otherFiles: readonly string[];
}

async function restoreSqlite(file: string, files: RestoredFiles): Promise<void> {
  const lock = lockDatabase(file);
  try {
    for (const path of [file, `${file}-wal`])
      if (existsSync(path))
        throw fault("E.CONFLICT", `${path} exists already; move it away, or restore into another --data-dir`, { file: path });
    await copyFiles(files);
    // Last, and in one step: a restore that was interrupted leaves no store that could be started.
    await copyAndSync(join(files.source, databaseNames.sqlite), `${file}${unfinishedSuffix}`);
    await rename(`${file}${unfinishedSuffix}`, file);
    syncFolder(dirname(file));
  } finally {
    lock.close();
  }
}

async function copyFiles({ source, dataDir, otherFiles }: RestoredFiles): Promise<void> {
  for (const path of otherFiles) {
    await mkdir(dirname(join(dataDir, path)), { recursive: true, mode: 0o700 });
    await copyAndSync(join(source, path), join(dataDir, path));
  }
}

function readStoreAddress(store: string, dataDir: string): StoreAddress {
  const address = parseStoreAddress(store, dataDir);
  if (address instanceof SettingProblem) throw fault("E.CONFIG.INVALID", `--store ${address.reason}`);
  return address;
}

function summarize(folder: string, { files }: BackupManifest): BackupReport {
  const sizes = Object.values(files).map(({ bytes }) => bytes);
  return { folder, files: sizes.length, bytes: sizes.reduce((sum, bytes) => sum + bytes, 0) };
}
