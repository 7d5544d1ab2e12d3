import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../contract/fixtures/memory-and-sqlite-fixtures.ts";
import { changeSet, logEntry, readyChangeSet, runRow, taskRow } from "../contract/fixtures/sample-rows.ts";
import { StoreClient } from "../contract/fixtures/store-client.ts";
import { configureWriter, isVersionEnough } from "./file/connection.ts";
import { schemaVersion } from "./file/migrations.ts";
import {
  boundedTaskCountsSql,
  chunksSql,
  heldTasksSql as heldByWorkerSql,
  nextTaskQueueSql,
  openTaskCountsSql,
  runsSql,
  taskQueueDepthSql,
  tasksSql,
  walkDocumentsSql,
} from "./reader/pages.ts";
import { SqliteReader } from "./reader/reader.ts";
import { earliestDueSql, nextDueSql, passedDueSql } from "./rows/deadline-index.ts";
import { runsAtInstantSql } from "./search/run-search.ts";
import { backwardsSql, forwardsSql } from "./search/subject-history.ts";
import { openSqlite, type SqliteOptions, type SqliteStore } from "./store.ts";
import { heldTaskIdsSql, openTasksSql, queueHeadSql, taskRangeSql } from "./writer/repository.ts";

let folder = "";
let file = "";
let opened: SqliteStore[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "astra-sqlite-"));
  file = join(folder, "store.db");
  opened = [];
});

afterEach(async () => {
  for (const store of opened) await store.close();
  rmSync(folder, { recursive: true, force: true });
});

function createStore(options: Partial<SqliteOptions> = {}): SqliteStore {
  const store = openSqlite({ file, clock: new ManualClock(), ...options });
  opened.push(store);
  return store;
}

const openClient = (store: SqliteStore): Promise<StoreClient> => StoreClient.open({ createHandle: () => store });
const me = { replica: "a", cluster: "test" };

/** Fails at a step with an error of SQLite's, as long as `isBroken`. */
function brokenDisk(step: string, errcode: number) {
  const disk = {
    isBroken: false,
    failpoint(name: string) {
      if (disk.isBroken && name === step) throw Object.assign(new Error(`step ${name} fails with ${errcode}`), { errcode });
    },
  };
  return disk;
}

describe("opening", () => {
  it("[S30] the SQLite store refuses a second scheduler on the same file and names the file and the process that holds it", async () => {
    await createStore().open(me);

    await expect(createStore().open(me)).rejects.toMatchObject({
      code: "E.STORE.IN_USE",
      message: expect.stringMatching(new RegExp(`store\\.db.* process ${process.pid}`)),
      details: { file, pid: process.pid },
    });
  });

  it("[S30] the SQLite store is refused a file that another process holds, and takes it over as soon as that process is killed", async () => {
    const holder = spawn(
      process.execPath,
      ["--no-warnings", join(import.meta.dirname, "../contract/fixtures/killable-writer.ts"), file, "never"],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    await once(createInterface({ input: holder.stdout }), "line");

    await expect(createStore().open({ replica: "a", cluster: "kill" })).rejects.toMatchObject({
      code: "E.STORE.IN_USE",
      details: { pid: holder.pid },
    });
    holder.kill("SIGKILL");
    await once(holder, "exit");
    const { lastTurn } = await createStore().open({ replica: "a", cluster: "kill" });
    expect(lastTurn).toBeGreaterThan(0);
  });

  it("[S31] the SQLite store refuses a schema of a newer version, names both versions, and leaves the file as it was", async () => {
    const store = createStore();
    await store.open(me);
    await store.close();
    const raw = new DatabaseSync(file);
    raw.exec("PRAGMA journal_mode = DELETE; PRAGMA user_version = 99");
    raw.close();
    const before = readFileSync(file);

    await expect(createStore().open(me)).rejects.toMatchObject({
      code: "E.STORE.SCHEMA_NEWER",
      details: { schema: 99, known: schemaVersion },
    });
    expect(() => new SqliteReader({ file })).toThrow(expect.objectContaining({ code: "E.STORE.SCHEMA_NEWER" }));
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  it("[S32] the SQLite store reads its durability settings back and refuses a database that does not take them", () => {
    const durable = new DatabaseSync(file);
    configureWriter(durable, file, null);
    const settings = ["journal_mode", "synchronous", "mmap_size"].map(
      (name) => Object.values(durable.prepare(`PRAGMA ${name}`).get() ?? {})[0],
    );
    durable.close();
    const volatile = new DatabaseSync(":memory:");

    expect(settings).toEqual(["wal", 2, 0]);
    expect(() => configureWriter(volatile, ":memory:", null)).toThrow(expect.objectContaining({ code: "E.STORE.DURABILITY" }));
    volatile.close();
  });

  it("[S32] the SQLite store recognizes the versions of SQLite that may corrupt a WAL used by two connections", () => {
    expect(["3.51.3", "3.51.10", "3.53.0", "4.0.0"].map(isVersionEnough)).toEqual([true, true, true, true]);
    expect(["3.51.2", "3.50.9", "3.7.0", "2.99.99", ""].map(isVersionEnough)).toEqual([false, false, false, false, false]);
  });

  it("[S33] the SQLite store refuses a file that is no database, another program's database, and a folder that cannot be created", async () => {
    writeFileSync(file, "this is a text, and it is long enough to be looked at as a header ".repeat(20));
    await expect(createStore().open(me)).rejects.toMatchObject({ code: "E.STORE.OPEN" });
    await expect(createStore({ file: join(file, "below", "store.db") }).open(me)).rejects.toMatchObject({ code: "E.STORE.OPEN" });
    const foreign = join(folder, "foreign.db");
    const raw = new DatabaseSync(foreign);
    raw.exec("CREATE TABLE recipes (name TEXT)");
    raw.close();
    await expect(createStore({ file: foreign }).open(me)).rejects.toMatchObject({
      code: "E.STORE.OPEN",
      message: expect.stringContaining("another program"),
    });
    expect(() => new SqliteReader({ file: join(folder, "none.db") })).toThrow(expect.objectContaining({ code: "E.STORE.OPEN" }));
  });

  it("[S30] the SQLite store releases the file when it refuses to open it", async () => {
    const store = createStore();
    await store.open(me);
    await store.close();

    await expect(createStore().open({ replica: "a", cluster: "other" })).rejects.toMatchObject({ code: "E.STORE.OPEN" });
    await expect(createStore().open(me)).resolves.toMatchObject({ epoch: 2 });
  });
});

describe("a disk that fails", () => {
  const full = 13;
  const ioError = 10;

  it("[S36] the SQLite store fails a turn when the disk is full, at a statement or at the commit, and works again once there is room", async () => {
    for (const step of ["sqlite.begin", "sqlite.statement", "sqlite.commit", "sqlite.committing"]) {
      const disk = brokenDisk(step, full);
      const store = createStore({ failpoint: disk.failpoint });
      const client = await openClient(store);
      const run = step.replace(".", "-");
      await client.write(readyChangeSet(`${run}-1`, "l"));
      disk.isBroken = true;
      const tx = await client.begin({ rows: [`run/${run}-2`] });
      const answer = await client.commit(tx, [readyChangeSet(`${run}-2`, "l")]);
      disk.isBroken = false;

      expect(answer).toMatchObject({
        outcome: "failed",
        fault: { code: "E.STORE.BUSY", message: expect.stringContaining("the disk is full"), details: { isDiskFull: true } },
      });
      expect(answer).not.toHaveProperty("unit");
      expect(await client.read(`run/${run}-2`, `task/${run}-2.0`)).toEqual([null, null]);
      await client.write(readyChangeSet(`${run}-2`, "l"));
      expect(await client.read(`run/${run}-2`)).toMatchObject([{ id: `${run}-2` }]);
      await store.close();
    }
  });

  it("[S36] the SQLite store reports a commit with an I/O error as unknown, takes no turn until it is settled, then works again", async () => {
    const disk = brokenDisk("sqlite.committing", ioError);
    const client = await openClient(createStore({ failpoint: disk.failpoint }));
    await client.write(changeSet({ puts: [runRow("r1")] }));
    disk.isBroken = true;
    const tx = await client.begin({ rows: ["run/r1"] });
    const turn = client.nextTurn;
    const answer = await client.commit(tx, [changeSet({ puts: [runRow("r1", { open: 5 })] })]);
    disk.isBroken = false;

    expect(answer).toEqual({ outcome: "unknown" });
    await expect(client.begin()).rejects.toMatchObject({ code: "E.STORE.UNKNOWN_OUTCOME", isRetryable: true });
    expect(await client.store.settle(turn)).toBe("absent");
    expect(await client.read("run/r1")).toMatchObject([{ open: 1 }]);
    await client.write(changeSet({ puts: [runRow("r1", { open: 6 })] }));
    expect(await client.read("run/r1")).toMatchObject([{ open: 6 }]);
  });

  it("[S36] the SQLite store reports that it cannot settle a turn while the file is locked, and settles it once the lock is gone", async () => {
    const disk = brokenDisk("sqlite.committed", ioError);
    const client = await openClient(createStore({ failpoint: disk.failpoint, busyMs: 0 }));
    await client.write(changeSet({ puts: [runRow("r1")] }));
    disk.isBroken = true;
    const tx = await client.begin({ rows: ["run/r1"] });
    const turn = client.nextTurn;
    expect((await client.commit(tx, [changeSet({ puts: [runRow("r1", { open: 5 })] })])).outcome).toBe("unknown");
    disk.isBroken = false;
    const stranger = new DatabaseSync(file);
    stranger.exec("BEGIN IMMEDIATE");

    await expect(client.store.settle(turn)).rejects.toMatchObject({ code: "E.STORE.UNKNOWN_OUTCOME" });
    stranger.exec("ROLLBACK");
    stranger.close();
    expect(await client.store.settle(turn)).toBe("committed");
    expect(await client.read("run/r1")).toMatchObject([{ open: 5 }]);
  });

  it("[S37] the SQLite store fails a turn as busy while another program has the file locked, and writes it when retried", async () => {
    const client = await openClient(createStore({ busyMs: 0 }));
    const stranger = new DatabaseSync(file);
    stranger.exec("BEGIN IMMEDIATE");
    const tx = await client.begin({ rows: ["run/r1"] });
    const answer = await client.commit(tx, [changeSet({ puts: [runRow("r1")] })]);
    stranger.exec("ROLLBACK");
    stranger.close();

    expect(answer).toMatchObject({ outcome: "failed", fault: { code: "E.STORE.BUSY" } });
    await client.write(changeSet({ puts: [runRow("r1")] }));
  });

  it("[S39] the SQLite store truncates the WAL once a reader that held it up is gone", async () => {
    const walBytesMax = 256 * 1024;
    const client = await openClient(createStore({ walBytesMax }));
    const reader = new DatabaseSync(file, { readOnly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM run").get();
    const bulk = "x".repeat(20_000);
    const fill = async (turns: number) => {
      for (let at = 0; at < turns; at++)
        await client.write(changeSet({ puts: [runRow("r1", { error: bulk + client.nextTurn })] }));
    };
    await fill(64);
    const held = statSync(`${file}-wal`).size;
    reader.exec("COMMIT");
    reader.close();
    await fill(64);

    expect(held).toBeGreaterThan(walBytesMax);
    expect(statSync(`${file}-wal`).size).toBeLessThanOrEqual(walBytesMax);
  });
});

describe("what a turn costs", () => {
  it("[S38] the SQLite store reads cached rows, and ids newer than any stored, without a statement", async () => {
    const store = createStore();
    const client = await openClient(store);
    await client.write(changeSet({ puts: [runRow("r1"), taskRow("r1.0")] }));
    const before = store.stats();

    const tx = await client.begin({ rows: ["run/r1", "task/r1.0", "run/r2", "task/r2.0"], due: 9 });
    const rows = [tx.row("run", "r1"), tx.row("task", "r1.0"), tx.row("run", "r2"), tx.row("task", "r2.0")];
    await tx.abort();

    expect(rows).toMatchObject([{ id: "r1" }, { id: "r1.0" }, null, null]);
    expect(store.stats().statements - before.statements).toBe(0);
  });

  it("[S38] the SQLite store writes a changed row in one statement, an unchanged one in none, and a turn's facts in one per subject", async () => {
    const store = createStore();
    const client = await openClient(store);
    await client.write(changeSet({ puts: [runRow("r1"), taskRow("r1.0")], logEntries: [logEntry("acme", "run/r1", ["a"])] }));
    const before = store.stats();

    const puts = [runRow("r1"), taskRow("r1.0", { phase: "succeeded", result: "1" })];
    await client.write(changeSet({ puts, logEntries: [logEntry("acme", "run/r1", ["b", "c", "d"])] }));

    const after = store.stats();
    // task, event, tenant, replica
    expect(after.statements - before.statements).toBe(4);
    expect([after.commits - before.commits, after.turns - before.turns]).toEqual([1, 1]);
  });

  it("[S14] [S80] the SQLite store finds queues, held tasks, deadlines, open tasks and pages by index, without sorting", () => {
    const db = new DatabaseSync(file);
    configureWriter(db, file, null);
    const plan = (sql: string) =>
      db
        .prepare(`EXPLAIN QUERY PLAN ${sql}`)
        .all()
        .map((row) => String(row.detail))
        .join("; ");
    const plans = {
      line: plan(queueHeadSql),
      held: plan(heldTaskIdsSql),
      open: plan(openTasksSql),
      passed: plan(passedDueSql("task")),
      next: plan(nextDueSql("worker")),
      least: plan(earliestDueSql("run")),
      runs: plan(runsSql({})),
      failed: plan(runsSql({ phase: "failed" })),
      events: plan(forwardsSql.log),
      history: plan(forwardsSql.indexed),
      tail: plan(forwardsSql.unindexed),
      depth: plan(openTaskCountsSql),
      bounded: plan(boundedTaskCountsSql),
      attempts: plan(heldByWorkerSql),
      range: plan(taskRangeSql),
      source: plan(runsSql({ source: "w", phase: "failed" })),
      tasks: plan(tasksSql),
      instant: plan(runsAtInstantSql),
      docs: plan(walkDocumentsSql({}, true)),
      docsBack: plan(walkDocumentsSql({ order: "desc" }, true)),
      dueDocs: plan(passedDueSql("doc")),
      chunks: plan(chunksSql),
      nextLine: plan(nextTaskQueueSql),
      lineDepth: plan(taskQueueDepthSql),
      eventsBack: plan(backwardsSql.log),
      historyBack: plan(backwardsSql.indexed),
      tailBack: plan(backwardsSql.unindexed),
    };
    db.close();
    const word = "SEARCH word USING COVERING INDEX sqlite_autoindex_word_1 (text=?)";
    const texts = [1, 2, 3]
      .map((at) => `CORRELATED SCALAR SUBQUERY ${at}; SEARCH word USING INTEGER PRIMARY KEY (rowid=?)`)
      .join("; ");

    expect(plans).toEqual({
      line: "SEARCH task USING COVERING INDEX task_line (line=?)",
      held: `SEARCH task USING COVERING INDEX task_held (worker=?); SCALAR SUBQUERY 1; ${word}`,
      open: `SEARCH task USING INDEX sqlite_autoindex_task_1 (id>? AND id<?); ${texts}`,
      passed: "SEARCH task USING COVERING INDEX task_due (due>? AND due<?)",
      next: "SEARCH worker USING COVERING INDEX worker_due (due>?)",
      least: "SEARCH run USING COVERING INDEX run_due (due>?)",
      runs: "SEARCH run USING INDEX run_of (tenant=? AND id>? AND id<?)",
      failed: "SEARCH run USING INDEX run_phase (tenant=? AND phase=? AND id>? AND id<?)",
      events:
        "SEARCH event USING PRIMARY KEY (tenant=? AND first>?); SCALAR SUBQUERY 1; SEARCH event USING PRIMARY KEY (tenant=? AND first<?)",
      history:
        "SEARCH event_of USING PRIMARY KEY (subject=? AND tenant=? AND first>?); SCALAR SUBQUERY 1; SEARCH event_of USING PRIMARY KEY (subject=? AND tenant=? AND first<?); SEARCH event USING PRIMARY KEY (tenant=? AND first=?)",
      tail: "SEARCH event USING PRIMARY KEY (tenant=? AND first>?); SCALAR SUBQUERY 1; SEARCH event USING PRIMARY KEY (tenant=? AND first<?)",
      // Live runs only; the counting itself has to gather somewhere.
      depth:
        "SCAN tenant; SEARCH run USING COVERING INDEX run_phase (tenant=? AND phase=?); SEARCH task USING INDEX sqlite_autoindex_task_1 (id>? AND id<?); USE TEMP B-TREE FOR GROUP BY",
      bounded:
        "CO-ROUTINE (subquery-1); SEARCH run USING COVERING INDEX run_phase (tenant=? AND phase=?); SEARCH task USING INDEX sqlite_autoindex_task_1 (id>? AND id<?); SCAN (subquery-1); USE TEMP B-TREE FOR GROUP BY",
      range: `SEARCH task USING INDEX sqlite_autoindex_task_1 (id>? AND id<?); ${texts}`,
      source: "SEARCH run USING INDEX run_source (tenant=? AND source=? AND id>? AND id<?)",
      tasks: `SEARCH task USING INDEX sqlite_autoindex_task_1 (id>? AND id<?); ${texts}`,
      instant: "SEARCH run USING INDEX run_of (tenant=? AND id>? AND id<?)",
      docs: "SEARCH doc USING INDEX doc_list (tenant=? AND collection=? AND (sort,id)>(?,?))",
      docsBack: "SEARCH doc USING INDEX doc_list (tenant=? AND collection=? AND (sort,id)<(?,?))",
      dueDocs: "SEARCH doc USING COVERING INDEX doc_due (due>? AND due<?)",
      chunks:
        "SEARCH chunk USING INDEX sqlite_autoindex_chunk_1 (task=? AND fence=? AND first>?); SCALAR SUBQUERY 1; SEARCH chunk USING COVERING INDEX sqlite_autoindex_chunk_1 (task=? AND fence=? AND first<?)",
      nextLine: "SEARCH task USING COVERING INDEX task_line (line>? AND line<?)",
      lineDepth: "CO-ROUTINE (subquery-1); SEARCH task USING INDEX task_line (line=?); SCAN (subquery-1)",
      eventsBack: "SEARCH event USING PRIMARY KEY (tenant=? AND first<?)",
      historyBack:
        "SEARCH event_of USING PRIMARY KEY (subject=? AND tenant=? AND first<?); SEARCH event USING PRIMARY KEY (tenant=? AND first=?)",
      tailBack: "SEARCH event USING PRIMARY KEY (tenant=? AND first>? AND first<?)",
      attempts: `SEARCH task USING INDEX task_held (worker=?); SCALAR SUBQUERY 4; ${word}; ${texts}`,
    });
  });

  it("[S5] a separate SQLite reader follows the log while the writer goes on", async () => {
    const client = await openClient(createStore());
    await client.write(changeSet({ puts: [runRow("r1")], logEntries: [logEntry("acme", "run/r1", ["a"])] }));
    const reader = new SqliteReader({ file });

    expect((await reader.events({ tenant: "acme", after: 0, limit: 9 })).items).toHaveLength(1);
    await client.write(changeSet({ puts: [runRow("r2")], logEntries: [logEntry("acme", "run/r2", ["b"])] }));
    expect((await reader.events({ tenant: "acme", after: 1, limit: 9 })).items).toMatchObject([{ position: 2, type: "b" }]);
    await reader.close();
  });
});
