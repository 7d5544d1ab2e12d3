// A copy of a database that is consistent although a scheduler goes on writing: SQLite's online backup, in one step on one snapshot.

import { existsSync, rmSync } from "node:fs";
import { backup, DatabaseSync } from "node:sqlite";
import { Fault, fault } from "@astraflow/protocol";
import { checkFileHeader, openDatabase } from "./connection.ts";
import { markClosed, refuseDamagedFile } from "./damage-check.ts";
import { createPrivateFile } from "./database-lock.ts";
import { schemaVersion } from "./migrations.ts";

const busyMs = 10_000;
/** In several steps SQLite would begin again after every commit of the scheduler, and never end beside a busy one. */
const allPages = 0x7fff_ffff;

export interface SqliteBackup {
  readonly pages: number;
  readonly schema: number;
}

/** Copies the database to a new file, which is checked and needs no WAL. */
export async function backupSqlite(file: string, to: string): Promise<SqliteBackup> {
  if (!existsSync(file))
    throw fault("E.STORE.OPEN", `${file} does not exist; name the scheduler's folder with --data-dir`, { file });
  checkFileHeader(file);
  // Beside a running scheduler there always is a WAL; without one nobody writes, and the file can be checked.
  if (!existsSync(`${file}-wal`)) refuseDamagedFile(file);
  const source = openDatabase(file, { readOnly: true, busyMs });
  try {
    createPrivateFile(to);
    const pages = await backup(source, to, { rate: allPages });
    completeCopy(to);
    return { pages, schema: schemaVersion };
  } catch (error) {
    rmSync(to, { force: true });
    if (error instanceof Fault) throw error;
    throw fault("E.STORE.OPEN", `${file} cannot be copied to ${to}: ${(error as Error).message}`, { file, to }, error);
  } finally {
    source.close();
  }
}

/** The copy is marked as a store that was closed: it has everything, and no WAL. */
function completeCopy(file: string): void {
  const copy = new DatabaseSync(file);
  try {
    markClosed(copy);
    copy.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    copy.close();
  }
  refuseDamagedFile(file);
  for (const suffix of ["-wal", "-shm"]) rmSync(`${file}${suffix}`, { force: true });
}
