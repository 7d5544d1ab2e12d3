// Finds out before the first write whether a database file and its WAL are whole and belong together. A file that was copied without its
// WAL, or stands beside the WAL of another store, opens without an error in SQLite and has silently lost work.
//
// The store leaves two marks in its tables. Whether it is open: that is in the database file before the first turn commits, so a file that
// is marked open needs its WAL. And an id of its own, as a row beside the replica's: every turn writes that page, so every WAL carries it.

import { closeSync, existsSync, openSync, readSync, renameSync, rmSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { type Fault, fault } from "@astraflow/protocol";
import { lockDatabase } from "./database-lock.ts";
import { applicationId } from "./migrations.ts";

const walHeaderBytes = 32;
const walMagics: ReadonlySet<number> = new Set([0x377f0682, 0x377f0683]);
const problemsShownMax = 3;

type DamageKind = "wal-without-database" | "wal-missing" | "wal-foreign" | "pages";

interface Damage {
  readonly kind: DamageKind;
  /** Completes a sentence that begins with the file. */
  readonly problem: string;
}

/** Throws `E.STORE.DAMAGED`. Called by the holder of the lock, before anything is written. */
export function refuseDamagedFile(file: string): void {
  const damage = findDamage(file);
  if (damage !== null) throw damageFault(file, damage);
}

function damageFault(file: string, { kind, problem }: Damage): Fault {
  const advice = "restore a backup with astra restore, or run astra doctor --repair to go on with what is left";
  return fault("E.STORE.DAMAGED", `${file} ${problem}; ${advice}`, { file, damage: kind });
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

function findDamage(file: string): Damage | null {
  const walBytes = sizeOf(`${file}-wal`);
  if (sizeOf(file) === 0) {
    if (walBytes === 0) return null;
    return { kind: "wal-without-database", problem: "is missing, but its write-ahead log is there" };
  }
  const alone = readView(file, true);
  if (alone === "foreign") return null;
  if (alone.isMarkedOpen && !existsSync(`${file}-wal`))
    return {
      kind: "wal-missing",
      problem: "was not closed, and its write-ahead log (-wal) is missing: it was copied or moved without it",
    };
  if (walBytes === 0) return alone.problem === null ? null : { kind: "pages", problem: `is damaged (${alone.problem})` };
  const foreign = { kind: "wal-foreign", problem: "stands beside a write-ahead log (-wal) that does not belong to it" } as const;
  if (!hasWalHeader(`${file}-wal`)) return foreign;
  const together = readView(file, false);
  if (together === "foreign") return alone.store === null ? null : foreign;
  const isOurs = alone.store === null || (alone.store === together.store && together.progress >= alone.progress);
  if (isOurs && together.problem === null) return null;
  // Pages that were written since are in the WAL alone, so the file without it may look damaged where both together are whole.
  return isOurs || alone.problem !== null ? { kind: "pages", problem: `is damaged (${together.problem})` } : foreign;
}

function hasWalHeader(file: string): boolean {
  const header = Buffer.alloc(walHeaderBytes);
  const handle = openSync(file, "r");
  try {
    return readSync(handle, header, 0, walHeaderBytes, 0) === walHeaderBytes && walMagics.has(header.readUInt32BE(0));
  } finally {
    closeSync(handle);
  }
}

interface FileView {
  /** The store's own id; null in a file from before there was one, or that is not complete yet. */
  readonly store: string | null;
  readonly isMarkedOpen: boolean;
  /** Rises with every start and every turn. */
  readonly progress: number;
  /** The first problems of `quick_check`; null if it found none. */
  readonly problem: string | null;
}

/** Reads the file with its WAL, or without. `foreign`: the tables are not ours; opening it explains why it is refused. */
function readView(file: string, isWithoutWal: boolean): FileView | "foreign" {
  const place = isWithoutWal ? `${pathToFileURL(file).href}?immutable=1` : file;
  let db: DatabaseSync | null = null;
  try {
    db = new DatabaseSync(place, { readOnly: true });
    return readTables(db);
  } catch (error) {
    if ((error as { errcode?: number }).errcode === undefined) throw error;
    return { store: null, isMarkedOpen: false, progress: 0, problem: (error as Error).message };
  } finally {
    db?.close();
  }
}

function readTables(db: DatabaseSync): FileView | "foreign" {
  const tables = new Set(
    db
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
      .all()
      .map((row) => row["name"]),
  );
  if (tables.size > 0 && db.prepare("PRAGMA application_id").get()?.["application_id"] !== applicationId) return "foreign";
  const found = db
    .prepare(`PRAGMA quick_check(${problemsShownMax})`)
    .all()
    .map((row) => String(row["quick_check"]));
  const problem = found.length === 1 && found[0] === "ok" ? null : found.join("; ").slice(0, 300);
  if (!tables.has("meta") || !tables.has("replica")) return { store: null, isMarkedOpen: false, progress: 0, problem };
  const read = (name: string) => db.prepare("SELECT value FROM meta WHERE name = ?").get(name)?.["value"];
  const sum = db.prepare("SELECT coalesce(sum(epoch + last_turn), 0) AS progress FROM replica").get();
  const store = db.prepare("SELECT id FROM replica WHERE id GLOB ?").get(`${storeIdPrefix}*`)?.["id"];
  return {
    store: store === undefined ? null : String(store),
    isMarkedOpen: read("state") === "open",
    progress: Number(sum?.["progress"]),
    problem,
  };
}

/** No name of a replica may begin like this. */
const storeIdPrefix = "/store/";
const createStoreIdSql = `
  INSERT INTO replica (id, epoch, last_turn, clock) SELECT '${storeIdPrefix}' || lower(hex(randomblob(16))), 0, 0, 0
  WHERE NOT EXISTS (SELECT 1 FROM replica WHERE id GLOB '${storeIdPrefix}*')`;
const setStateSql = "INSERT INTO meta (name, value) VALUES ('state', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/** Inside the transaction that opens the store. The caller moves it from the WAL into the file before the first turn. */
export function markOpen(db: DatabaseSync): void {
  db.exec(createStoreIdSql);
  db.prepare(setStateSql).run("open");
}

export function markClosed(db: DatabaseSync): void {
  db.prepare(setStateSql).run("closed");
}

export interface StoreRepair {
  /** What was done, one sentence each. */
  readonly done: readonly string[];
  /** What cannot be repaired; null if the store can be opened now. */
  readonly problem: string | null;
}

/** Makes a store that was refused as damaged open again, with what is left of it. Removes nothing: what does not belong is moved aside. */
export function repairSqlite(file: string, stamp: string): StoreRepair {
  const done: string[] = [];
  const lock = lockDatabase(file);
  try {
    for (let damage = findDamage(file), last: DamageKind | null = null; damage !== null; damage = findDamage(file)) {
      if (damage.kind === last) return { done, problem: `${file} ${damage.problem}; restore a backup with astra restore` };
      done.push(repairDamage(file, damage.kind, stamp));
      last = damage.kind;
    }
    return { done, problem: null };
  } finally {
    lock.close();
  }
}

function repairDamage(file: string, kind: DamageKind, stamp: string): string {
  if (kind === "wal-without-database" || kind === "wal-foreign") {
    const aside = `${file}-wal.${stamp}`;
    renameSync(`${file}-wal`, aside);
    rmSync(`${file}-shm`, { force: true });
    return `the write-ahead log was moved to ${aside}`;
  }
  const db = new DatabaseSync(file);
  try {
    if (kind === "pages") {
      db.exec("REINDEX");
      return "the indexes were built again";
    }
    markClosed(db);
    return "the store goes on from its last checkpoint; what was accepted after it is lost";
  } catch (error) {
    if ((error as { errcode?: number }).errcode === undefined) throw error;
    return `a repair was tried and failed (${(error as Error).message})`;
  } finally {
    db.close();
  }
}
