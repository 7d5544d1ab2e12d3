import { copyFileSync, existsSync, mkdtempSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../contract/fixtures/memory-and-sqlite-fixtures.ts";
import { changeSet, runRow } from "../../contract/fixtures/sample-rows.ts";
import { StoreClient } from "../../contract/fixtures/store-client.ts";
import { openSqlite, type SqliteStore } from "../store.ts";
import { repairSqlite } from "./damage-check.ts";

let folder = "";
let opened: SqliteStore[] = [];
const me = { replica: "a", cluster: "test" };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "astra-damage-"));
  opened = [];
});

afterEach(async () => {
  for (const store of opened) await store.close();
  rmSync(folder, { recursive: true });
});

function createStore(file: string): SqliteStore {
  const store = openSqlite({ file, clock: new ManualClock() });
  opened.push(store);
  return store;
}

/** A store with that many runs, still open. */
async function fillStore(name: string, runs: number): Promise<{ file: string; client: StoreClient }> {
  const file = join(folder, name);
  const client = await StoreClient.open({ createHandle: () => createStore(file) });
  for (let at = 0; at < runs; at++) await client.write(changeSet({ puts: [runRow(`r${at}`, { error: "x".repeat(3_000) })] }));
  return { file, client };
}

const countRuns = async (store: SqliteStore) => (await store.page({ page: "runs", tenant: "acme", limit: 200 })).items.length;
const damaged = (damage: string) =>
  expect.objectContaining({
    code: "E.STORE.DAMAGED",
    message: expect.stringMatching(/astra restore.*astra doctor --repair/),
    details: expect.objectContaining({ damage }),
  });

describe("a damaged SQLite store", () => {
  it("[S91] a copy of the database file of a running store without its WAL is refused, and is never opened as an empty store", async () => {
    const { file } = await fillStore("store.db", 5);
    const copy = join(folder, "copy.db");
    copyFileSync(file, copy);

    await expect(createStore(copy).open(me)).rejects.toEqual(damaged("wal-missing"));
    expect(existsSync(`${copy}-wal`)).toBe(false);
  });

  it("[S91] a copy of the database file with its WAL, and a copy of a closed store without one, are opened whole", async () => {
    const { file, client } = await fillStore("store.db", 5);
    copyFileSync(file, join(folder, "pair.db"));
    copyFileSync(`${file}-wal`, join(folder, "pair.db-wal"));
    await client.store.close();
    copyFileSync(file, join(folder, "alone.db"));

    for (const name of ["pair.db", "alone.db"]) {
      const store = createStore(join(folder, name));
      await store.open(me);
      expect([name, await countRuns(store)]).toEqual([name, 5]);
    }
  });

  it("[S91] a WAL without its database is refused, and no empty store is created beside it", async () => {
    const { file } = await fillStore("store.db", 5);
    const lost = join(folder, "lost.db");
    copyFileSync(`${file}-wal`, `${lost}-wal`);

    await expect(createStore(lost).open(me)).rejects.toEqual(damaged("wal-without-database"));
    expect(existsSync(lost)).toBe(false);
  });

  it("[S91] a database beside the WAL of another store, or beside a file that is no WAL, is refused", async () => {
    const { file, client } = await fillStore("store.db", 5);
    const { file: other } = await fillStore("other.db", 40);
    await client.store.close();
    copyFileSync(`${other}-wal`, `${file}-wal`);
    const first = createStore(file).open(me);
    await expect(first).rejects.toEqual(damaged("wal-foreign"));

    const handle = openSync(`${file}-wal`, "r+");
    writeSync(handle, Buffer.from("no WAL"), 0, 6, 0);
    await expect(createStore(file).open(me)).rejects.toEqual(damaged("wal-foreign"));
  });

  it("[S91] a database with a page that quick_check refuses is not opened", async () => {
    const { file, client } = await fillStore("store.db", 60);
    await client.store.close();
    const handle = openSync(file, "r+");
    // Every page but the first few, whose loss is found even without the check.
    const page = Buffer.alloc(8_192, 0xff);
    for (let at = 8_192 * 40; at < statSync(file).size; at += page.length) writeSync(handle, page, 0, page.length, at);

    await expect(createStore(file).open(me)).rejects.toEqual(damaged("pages"));
  });

  it("[S92] a repair lets a store without its WAL open with what the file has, and moves a foreign WAL aside", async () => {
    const { file, client } = await fillStore("store.db", 5);
    const copy = join(folder, "copy.db");
    copyFileSync(file, copy);
    await client.store.close();
    copyFileSync(file, join(folder, "mixed.db"));
    const { file: other } = await fillStore("other.db", 40);
    copyFileSync(`${other}-wal`, join(folder, "mixed.db-wal"));

    expect(repairSqlite(copy, "1")).toMatchObject({ problem: null, done: [expect.stringContaining("last checkpoint")] });
    expect(repairSqlite(join(folder, "mixed.db"), "1")).toMatchObject({ problem: null });
    expect(readdirSync(folder)).toContain("mixed.db-wal.1");
    await expect(createStore(copy).open(me)).resolves.toBeDefined();
    const mixed = createStore(join(folder, "mixed.db"));
    await mixed.open(me);
    expect(await countRuns(mixed)).toBe(5);
  });

  it("[S92] a repair of pages that cannot be rebuilt changes nothing that could be restored, and advises a restore", async () => {
    const { file, client } = await fillStore("store.db", 60);
    await client.store.close();
    const handle = openSync(file, "r+");
    const page = Buffer.alloc(8_192, 0xff);
    for (let at = 8_192 * 2; at < statSync(file).size; at += page.length) writeSync(handle, page, 0, page.length, at);

    expect(repairSqlite(file, "1").problem).toMatch(/is damaged .*astra restore/);
  });
});
