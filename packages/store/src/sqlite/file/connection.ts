// Opens a database file and makes sure of its version, WAL, synchronous=FULL and schema. Also the prepared statements of a connection.

import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from "node:sqlite";
import { Fault, fault } from "@astraflow/protocol";
import { refuseNewerSchema } from "../../common/store-faults.ts";
import { autoVacuumPragma } from "./free-space.ts";
import { applicationId, migrate, schemaVersion } from "./migrations.ts";

export type SqliteCells = SQLOutputValue[];

/** `rows`: those that the statements read or wrote. */
export const newStats = () => ({ statements: 0, rows: 0, commits: 0, turns: 0 });
export type SqliteStats = ReturnType<typeof newStats>;

/** Named places of a turn and of a migration where a test may kill the process or break the disk. */
export const sqliteFailpoints = [
  "sqlite.migrate",
  "sqlite.migrated",
  "sqlite.begin",
  "sqlite.statement",
  "sqlite.commit",
  "sqlite.committing",
  "sqlite.committed",
  "sqlite.remove",
] as const;

/** Before this version two connections that write and checkpoint at one moment may corrupt the file. */
const versionMin = "3.51.3";
/**
 * For new files; one that exists keeps its own. A turn touches many places and pays for every page it writes, whatever the size, with a
 * checksum, two calls to the system and later a copy: half as many pages twice as large cost less.
 */
const pageBytes = 8_192;
const walCheckpointPages = 4_000;
const cacheKibMax = 65_536;

export class SqliteConnection {
  readonly db: DatabaseSync;
  readonly stats: SqliteStats;
  readonly #failpoint: ((name: string) => void) | null;
  readonly #prepared = new Map<string, StatementSync>();

  constructor(db: DatabaseSync, stats = newStats(), failpoint: ((name: string) => void) | null = null) {
    this.db = db;
    this.stats = stats;
    this.#failpoint = failpoint;
  }

  get(sql: string, ...values: SQLInputValue[]): SqliteCells | undefined {
    const row = this.prepare(sql).get(...values) as unknown as SqliteCells | undefined;
    this.stats.statements++;
    if (row !== undefined) this.stats.rows++;
    return row;
  }

  all(sql: string, ...values: SQLInputValue[]): SqliteCells[] {
    const rows = this.prepare(sql).all(...values) as unknown as SqliteCells[];
    this.stats.statements++;
    this.stats.rows += rows.length;
    return rows;
  }

  /** Rows one by one, for a reader that does not know beforehand how many it needs. */
  *iterate(sql: string, ...values: SQLInputValue[]): Generator<SqliteCells> {
    this.stats.statements++;
    for (const row of this.prepare(sql).iterate(...values)) {
      this.stats.rows++;
      yield row as unknown as SqliteCells;
    }
  }

  run(statement: StatementSync, values: readonly SQLInputValue[]): void {
    if (this.#failpoint !== null) this.passFailpoint("sqlite.statement");
    statement.run(...values);
    this.stats.statements++;
    this.stats.rows++;
  }

  /** Prepares the statement where it is new, and runs it. */
  write(sql: string, ...values: SQLInputValue[]): void {
    this.run(this.prepare(sql), values);
  }

  prepare(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (statement === undefined) {
      statement = this.db.prepare(sql);
      statement.setReturnArrays(true);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  /** A named place where a test may kill the process, or throw as a broken disk would. */
  passFailpoint(name: string): void {
    try {
      this.#failpoint?.(name);
    } catch (error) {
      throw new FailpointError(name, error);
    }
  }
}

/** The world failed between two statements: no unit is to blame. */
class FailpointError extends Error {
  readonly errcode: number;
  constructor(step: string, cause: unknown) {
    super(`failed at ${step}`, { cause });
    this.errcode = (cause as { errcode?: number }).errcode ?? 10;
  }
}

export function openDatabase(file: string, options: { readOnly: boolean; busyMs: number }): DatabaseSync {
  let db: DatabaseSync | null = null;
  try {
    db = new DatabaseSync(file, { readOnly: options.readOnly, timeout: options.busyMs });
    checkVersion(db);
    checkOwner(db, file);
    return db;
  } catch (error) {
    db?.close();
    throw openSqliteFault(file, error);
  }
}

const headerBytes = 100;
const magic = "SQLite format 3\0";

/**
 * Looks at the file's first bytes without SQLite, which would leave files beside it: what belongs to another program or a newer
 * version is refused before anything is written. What only the WAL knows yet is found by `checkOwner`, after the lock.
 */
export function checkFileHeader(file: string): void {
  if (!existsSync(file)) return;
  const header = Buffer.alloc(headerBytes);
  const handle = openSync(file, "r");
  let read: number;
  try {
    read = readSync(handle, header, 0, headerBytes, 0);
  } finally {
    closeSync(handle);
  }
  if (read === 0) return;
  if (read < headerBytes || header.toString("latin1", 0, magic.length) !== magic) throw new Error("it is not a database");
  refuseNewer(file, header.readInt32BE(60));
  const owner = header.readInt32BE(68);
  if (owner !== 0 && owner !== applicationId) throw foreignDatabaseFault(file);
}

/** Everything the writer's connection must have before the first turn; the newest schema included. */
export function configureWriter(db: DatabaseSync, file: string, failpoint: ((name: string) => void) | null): void {
  try {
    db.exec(`PRAGMA page_size = ${pageBytes}`);
    db.exec(autoVacuumPragma);
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON");
    db.exec(`PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -${cacheKibMax}`);
    db.exec(`PRAGMA wal_autocheckpoint = ${walCheckpointPages}`);
  } catch (error) {
    throw openSqliteFault(file, error);
  }
  const mode = pragma(db, "journal_mode");
  const synchronous = pragma(db, "synchronous");
  const settings = `journal_mode=${String(mode)} and synchronous=${String(synchronous)}`;
  if (mode !== "wal" || synchronous !== fullSynchronous)
    throw fault("E.STORE.DURABILITY", `${file} has ${settings}; commits are durable only with wal and FULL (2)`, {
      mode,
      synchronous,
    });
  migrate(db, Number(pragma(db, "user_version")), failpoint ?? (() => undefined));
}

/**
 * Runs transactions that need not survive a power loss by themselves, since whoever makes them makes them again: the sync of the next turn
 * covers them, because the WAL is one file that is written in order. Removing rows would otherwise pay for as many syncs as the work beside
 * it. If it throws, `syncsCommits` says whether the connection may still be used: inside a transaction that could not be rolled back, SQLite
 * refuses to change the setting.
 */
export function withoutSync<T>(db: DatabaseSync, work: () => T): T {
  db.exec("PRAGMA synchronous = NORMAL");
  try {
    return work();
  } finally {
    restoreSync(db);
  }
}

function restoreSync(db: DatabaseSync): void {
  db.exec("PRAGMA synchronous = FULL");
  if (!syncsCommits(db)) throw new Error("synchronous=FULL could not be restored");
}

/** Whether what is committed from now on is durable. */
export const syncsCommits = (db: DatabaseSync): boolean =>
  db.isOpen && !db.isTransaction && pragma(db, "synchronous") === fullSynchronous;
const fullSynchronous = 2;

/** Why a file cannot be opened; a fault says so already. */
export function openSqliteFault(file: string, cause: unknown): Fault {
  if (cause instanceof Fault) return cause;
  return fault("E.STORE.OPEN", `${file} cannot be opened: ${(cause as Error).message}`, { file }, cause);
}

function pragma(db: DatabaseSync, name: string): SQLOutputValue {
  const row = db.prepare(`PRAGMA ${name}`).get();
  return row === undefined ? null : (Object.values(row)[0] ?? null);
}

function checkVersion(db: DatabaseSync): void {
  const version = String(db.prepare("SELECT sqlite_version() AS version").get()?.version);
  if (!isVersionEnough(version))
    throw fault("E.STORE.DURABILITY", `this Node.js bundles SQLite ${version}; ${versionMin} or newer is needed`, { version });
}

export const isVersionEnough = (version: string): boolean => version.localeCompare(versionMin, "en", { numeric: true }) >= 0;

/** Reads only: a file that is newer than this program, or another program's, must be left as it is. */
function checkOwner(db: DatabaseSync, file: string): void {
  const version = Number(pragma(db, "user_version"));
  const owner = Number(pragma(db, "application_id"));
  const tables = Number(db.prepare("SELECT count(*) AS tables FROM sqlite_master").get()?.tables);
  if (tables > 0 && owner !== applicationId) throw foreignDatabaseFault(file);
  refuseNewer(file, version);
}

const foreignDatabaseFault = (file: string): Fault => fault("E.STORE.OPEN", `${file} is a database of another program`, { file });

const refuseNewer = (file: string, version: number): void => refuseNewerSchema(file, version, schemaVersion, { file });
