import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { changeSet, logEntry, runRow, taskRow } from "../../contract/fixtures/sample-rows.ts";
import { useTemporarySqliteFile } from "../../contract/fixtures/temporary-sqlite-file.ts";
import type { SqliteOptions, SqliteStore } from "../store.ts";

const place = useTemporarySqliteFile("removal");
const slice = { of: "runs", tenant: "acme", after: "", olderThanMs: 0, limit: 1_000 } as const;
/** A run's id by its instant and its random part. */
const idAt = (instant: number, random: number) =>
  `0190cfe5-${(0x6800 + instant).toString(16)}-7001-8000-${random.toString(16).padStart(12, "0")}`;
const idOf = (at: number) => idAt(0, at);
const ended = { phase: "succeeded", createdAt: 1, endedAt: 2, label: "nightly" } as const;

function inFile<T>(read: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(place.file);
  try {
    return read(db);
  } finally {
    db.close();
  }
}

const countOf = (db: DatabaseSync, sql: string) => Number(Object.values(db.prepare(sql).get() ?? {})[0]);

async function openWithRuns(options: Partial<SqliteOptions> = {}) {
  const client = await place.openClient({ unindexedRunsMax: 0, ...options });
  for (const at of [1, 2, 3, 4]) {
    const [id, task] = [idOf(at), `${idOf(at)}.0`];
    await client.write(
      changeSet({ puts: [runRow(id, { label: "nightly" }), taskRow(task, { phase: "succeeded", result: "1" })] }),
    );
    const end = at === 2 ? { ...ended, phase: "failed" as const, error: '{"code":"E.LOST","message":"worker gone"}' } : ended;
    const entry = logEntry("acme", `run/${id}`, ["run.ended"]);
    await client.write(changeSet({ puts: [runRow(id, at === 4 ? { label: "nightly" } : end)], logEntries: [entry] }));
  }
  return client;
}

describe("removal on SQLite", () => {
  it("[S587] the SQLite store takes removed runs out of its index of words, those that failed after they were indexed with both rows, and the index stays sound", async () => {
    const client = await openWithRuns();
    const indexed = (word: string) =>
      inFile((db) => countOf(db, `SELECT count(*) FROM run_words WHERE run_words MATCH '${word}'`));
    expect([indexed("nightly"), indexed("gone")]).toEqual([5, 1]);

    const { removed } = await client.store.remove(slice);

    expect(removed.runs).toBe(3);
    const left = await client.store.page({ page: "runs", tenant: "acme", search: "nightly", limit: 9 });
    expect(left.items.map(({ id }) => id)).toEqual([idOf(4)]);
    await client.store.close();
    expect([indexed("nightly"), indexed("gone"), indexed("lost")]).toEqual([1, 0, 0]);
    inFile((db) => db.exec("INSERT INTO run_words (run_words) VALUES ('integrity-check')"));
  });

  it("[S587] the SQLite store takes exactly the indexed words out of its index: its last run goes too when that one failed after it was indexed", async () => {
    const client = await place.openClient({ unindexedRunsMax: 0 });
    const message = Array.from({ length: 50 }, (_, at) => `word${at}`).join(" ");
    await client.write(changeSet({ puts: [runRow(idOf(1), { label: "nightly" })] }));
    const failed = { ...ended, phase: "failed" as const, error: JSON.stringify({ code: "E.LOST", message }) };
    await client.write(changeSet({ puts: [runRow(idOf(1), failed)] }));

    // The index counts its words, and refuses to give more of them back than it has got.
    const { removed } = await client.store.remove(slice);

    expect(removed.runs).toBe(1);
    await client.store.close();
    inFile((db) => db.exec("INSERT INTO run_words (run_words) VALUES ('integrity-check')"));
  });

  it("[S816] the SQLite store removes the small runs of a slice together: besides one for each run in the index of words, the number of statements does not grow with them", async () => {
    const client = await place.openClient({ unindexedRunsMax: 0 });
    const runs = 120;
    for (let at = 1; at <= runs; at++) {
      const id = idAt(at, at);
      const logEntries = ["a", "b"].map((type) => logEntry("acme", `run/${id}`, [type]));
      const puts = [runRow(id, ended), ...[0, 1].map((no) => taskRow(`${id}.${no}`, { phase: "succeeded", result: "1" }))];
      await client.write(changeSet({ puts, logEntries }));
    }
    const { statements } = (client.store as SqliteStore).stats();

    const { removed } = await client.store.remove(slice);

    expect(removed).toMatchObject({ runs, tasks: 2 * runs, logEntries: 2 * runs });
    expect((client.store as SqliteStore).stats().statements - statements).toBeLessThan(runs + 20);
    await client.store.close();
    expect(inFile((db) => countOf(db, "SELECT count(*) FROM run_words WHERE run_words MATCH 'nightly'"))).toBe(0);
    inFile((db) => db.exec("INSERT INTO run_words (run_words) VALUES ('integrity-check')"));
  });

  it("[S817] the SQLite store leaves a run in its index of words that began at the instant of a removed one and whose label names another removed one", async () => {
    const client = await place.openClient({ unindexedRunsMax: 0, searchedRows: 1 });
    const [first, second, kept] = [idAt(1, 1), idAt(2, 2), idAt(2, 3)];
    const label = `again ${first}`;
    // A search compares the newest run by itself and finds the others by the index.
    const newest = runRow(idAt(3, 4));
    await client.write(changeSet({ puts: [runRow(first, ended), runRow(second, ended), runRow(kept, { label }), newest] }));

    const { removed } = await client.store.remove(slice);

    expect(removed.runs).toBe(2);
    const found = await client.store.page({ page: "runs", tenant: "acme", search: "again", limit: 9 });
    expect(found.items.map(({ id }) => id)).toEqual([kept]);
    await client.store.close();
    const words = inFile((db) =>
      ["again", "nightly"].map((word) => countOf(db, `SELECT count(*) FROM run_words WHERE run_words MATCH '${word}'`)),
    );
    expect(words).toEqual([1, 0]);
    inFile((db) => db.exec("INSERT INTO run_words (run_words) VALUES ('integrity-check')"));
  });

  it("[S817] the SQLite store leaves a run in its index of words that began at the instant of a removed one and was indexed later", async () => {
    const client = await place.openClient({ unindexedRunsMax: 0, searchedRows: 1 });
    const [gone, kept] = [idAt(1, 1), idAt(1, 2)];
    // Each of these turns indexes its run.
    for (const run of [runRow(gone, ended), runRow(kept, { label: "again" }), runRow(idAt(2, 3))])
      await client.write(changeSet({ puts: [run] }));

    const { removed } = await client.store.remove(slice);

    expect(removed.runs).toBe(1);
    const found = await client.store.page({ page: "runs", tenant: "acme", search: "again", limit: 9 });
    expect(found.items.map(({ id }) => id)).toEqual([kept]);
  });

  it("[S588] the SQLite store removes nothing when the process ends before the removal is committed, and the next removal takes it all", async () => {
    let isBroken = true;
    const failpoint = (name: string) => {
      if (name === "sqlite.remove" && isBroken) throw new Error("the disk is broken, says the test");
    };
    const client = await openWithRuns({ failpoint });
    const counts = () => inFile((db) => ["run", "task", "event"].map((table) => countOf(db, `SELECT count(*) FROM ${table}`)));

    await expect(client.store.remove(slice)).rejects.toMatchObject({ code: "E.STORE.BUSY" });

    expect(counts()).toEqual([4, 4, 4]);
    isBroken = false;
    expect((await client.store.remove(slice)).removed).toMatchObject({ runs: 3, tasks: 3, logEntries: 3 });
    expect(counts()).toEqual([1, 1, 1]);
    const { first } = await client.write(
      changeSet({ puts: [runRow(idOf(5))], logEntries: [logEntry("acme", `run/${idOf(5)}`, ["a"])] }),
    );
    expect([...first]).toEqual([["acme", 5]]);
  });

  it("[S630] a SQLite file that was made new gives the space of removed rows back in slices and keeps a tenth for new ones; an older file reuses it", async () => {
    const body = "x".repeat(20_000);
    const fill = async () => {
      const client = await place.openClient({});
      for (let at = 0; at < 12; at++) {
        const puts = Array.from({ length: 100 }, (_, no) =>
          runRow(idOf(at * 100 + no), { phase: "succeeded", createdAt: 1, endedAt: 2, about: JSON.stringify({ body }) }),
        );
        await client.write(changeSet({ puts }));
      }
      for (let after = ""; ; ) {
        const { next } = await client.store.remove({ ...slice, after });
        if (next === null) return client;
        after = next;
      }
    };
    const release = async (client: Awaited<ReturnType<typeof fill>>) => {
      const released: number[] = [];
      for (let pages = -1; pages !== 0; released.push(pages)) pages = (await client.store.releaseSpace?.(500)) ?? 0;
      return released;
    };
    const pagesNow = () => inFile((db) => countOf(db, "PRAGMA page_count"));

    const client = await fill();
    const before = pagesNow();
    const released = await release(client);

    // A page of the file's own bookkeeping may go with a slice.
    for (const pages of released.slice(0, 2)) expect([500, 501]).toContain(pages);
    expect(before - pagesNow()).toBe(released.reduce((sum, pages) => sum + pages, 0));
    expect(inFile((db) => countOf(db, "PRAGMA freelist_count"))).toBe(1_024);
    await client.store.close();
    inFile((db) => {
      db.exec("PRAGMA journal_mode = DELETE");
      db.exec("PRAGMA auto_vacuum = NONE; VACUUM");
    });
    const older = await fill();
    expect([inFile((db) => countOf(db, "PRAGMA freelist_count")) > 1_024, await release(older)]).toEqual([true, [0]]);
    await older.store.close();
  });

  it("[S631] the SQLite store syncs every turn after a removal, although the removal itself is left to the sync of the next turn", async () => {
    await withExec(
      () => undefined,
      async (modes) => {
        const client = await openWithRuns();
        modes.length = 0;

        await client.store.remove(slice);
        await client.write(changeSet({ puts: [runRow(idOf(6))] }));

        expect(modes).toEqual([1, 2]);
        await client.store.close();
      },
    );
  });

  it.each(["sqlite.remove", "ROLLBACK", "PRAGMA synchronous = FULL"])(
    "[S818] the SQLite store syncs every turn after a removal that failed at %s, and after space that could not be given back",
    async (place) => {
      let isBroken = false;
      const fail = (name: string) => {
        if (isBroken && (name === place || name === "sqlite.remove" || name.startsWith("PRAGMA incremental_vacuum")))
          throw new Error("the disk is broken, says the test");
      };
      await withExec(fail, async (modes) => {
        const client = await openWithRuns({ failpoint: fail });
        await client.read(`run/${idOf(1)}`);
        const problems: (string | null)[] = [];
        for (const maintain of [() => client.store.remove(slice), () => client.store.releaseSpace?.(100)]) {
          isBroken = true;
          const problem = await Promise.resolve(maintain()).then(
            () => null,
            (error: { code: string }) => error.code,
          );
          problems.push(problem);
          isBroken = false;
          modes.length = 0;

          await client.write(changeSet({ puts: [runRow(idOf(6))] }));

          expect(modes).toEqual([2]);
        }
        expect(problems[0]).toBe("E.STORE.BUSY");
        expect((await client.store.remove(slice)).removed.runs).toBe(3);
        await client.store.close();
      });
    },
  );
});

/** While the body runs, `fail` sees what connections execute, and each COMMIT notes how it is synced. */
async function withExec(fail: (sql: string) => void, body: (modes: number[]) => Promise<void>): Promise<void> {
  const modes: number[] = [];
  const exec = DatabaseSync.prototype.exec;
  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string) {
    fail(sql);
    if (sql === "COMMIT") modes.push(countOf(this, "PRAGMA synchronous"));
    return exec.call(this, sql);
  };
  try {
    await body(modes);
  } finally {
    DatabaseSync.prototype.exec = exec;
  }
}
