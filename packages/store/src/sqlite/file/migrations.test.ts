import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import type { RunRow, TaskRow } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { changeSet, logEntry, runRow, taskRow, workerRow } from "../../contract/fixtures/sample-rows.ts";
import { useTemporarySqliteFile } from "../../contract/fixtures/temporary-sqlite-file.ts";
import { allColumnsMask, columnsByKind, encodeCells } from "../rows/columns.ts";
import type { SqliteOptions } from "../store.ts";
import { migrate } from "./migrations.ts";

const place = useTemporarySqliteFile("migrations");
const openHand = (options: Partial<SqliteOptions> = {}) => place.openClient(options);

/** Before there were words, the texts themselves stood in their columns. */
const asTexts = { numberOf: (text: string) => text as unknown as number };

/** A place.file as that version made it, without rows. */
function makeFile(version: number): DatabaseSync {
  const raw = new DatabaseSync(place.file);
  let steps = 0;
  const stop = (name: string) => {
    if (name === "sqlite.migrate" && steps++ === version) throw new Error("this version goes no further");
  };
  expect(() => migrate(raw, 0, stop)).toThrow("goes no further");
  return raw;
}

/** Columns that came with a later version. */
const later: ReadonlySet<string> = new Set(["label", "source", "about", "marks", "bindings", "state"]);

/** A row as earlier versions wrote it. */
function insert(raw: DatabaseSync, row: RunRow | TaskRow): void {
  const cells = encodeCells(row, allColumnsMask, asTexts);
  const columns = columnsByKind[row.kind].columns.map(({ field }, at) => ({ field, cell: cells[at] as SQLInputValue }));
  const known = columns.filter(({ field }) => !later.has(field));
  const names = known.map(({ field }) => `"${field}"`).join(", ");
  raw
    .prepare(`INSERT INTO ${row.kind} (${names}) VALUES (${known.map(() => "?").join(", ")})`)
    .run(...known.map(({ cell }) => cell));
}

describe("files of earlier versions", () => {
  it("[S67] the SQLite store upgrades a file from before workers had a condition, and keeps its workers with an empty one", async () => {
    const raw = makeFile(2);
    const cells = encodeCells(workerRow("acme/w1"), allColumnsMask, asTexts);
    const names = columnsByKind.worker.names.replace(', "condition"', "");
    raw.prepare(`INSERT INTO worker (${names}) VALUES (${names.replaceAll(/[^,]+/g, "?")})`).run(...cells.slice(0, -1));
    raw.close();

    const after = await openHand();

    expect((await after.store.page({ page: "workers", tenant: "acme" })).items).toEqual([workerRow("acme/w1")]);
    await after.write(changeSet({ puts: [workerRow("acme/w1", { condition: '{"healthy":false}' })] }));
    expect((await after.store.page({ page: "workers", tenant: "acme" })).items).toMatchObject([
      { condition: '{"healthy":false}' },
    ]);
  });

  it("[S67] the SQLite store upgrades a file in which tasks were ordered by id and every log row was indexed at once", async () => {
    const raw = makeFile(3);
    const tasks = [taskRow("r1.1"), taskRow("r1.2", { phase: "leased", worker: "acme/w1", boot: "b1" })];
    for (const row of [runRow("r1"), ...tasks]) insert(raw, row);
    raw.exec("INSERT INTO tenant (id, position, clock, floor) VALUES ('acme', 3, 0, 0)");
    const event = raw.prepare("INSERT INTO event (tenant, first, last, at, subject, facts) VALUES ('acme', ?, ?, 5, ?, ?)");
    event.run(1, 2, "run/r1", '[["a",{}],["b",{}]]');
    event.run(3, 3, "run/r2", '[["c",{}]]');
    raw.close();

    const after = await openHand();
    await after.write(changeSet({ puts: [runRow("r3")], logEntries: [logEntry("acme", "run/r1", ["d"])] }));

    expect((await after.store.page({ page: "run", tenant: "acme", run: "r1" })).detail?.tasks).toEqual(tasks);
    const { items } = await after.store.events({ tenant: "acme", after: 0, limit: 9, subject: "run/r1" });
    expect(items.map(({ position, type }) => `${position} ${type}`)).toEqual(["1 a", "2 b", "4 d"]);
  });

  it("[S84] the SQLite store upgrades a file from before runs had names, and finds its runs by their words", async () => {
    const raw = makeFile(4);
    const runs = Array.from({ length: 30 }, (_, at) =>
      runRow(`r${10 + at}`, { client: at % 10 === 0 ? "nightly" : "cli", error: at === 7 ? '{"code":"E.OLD"}' : null }),
    );
    for (const run of runs) insert(raw, run);
    raw.close();

    const after = await openHand({ unindexedRunsMax: 5, searchedRows: 1 });
    await after.write(changeSet({ puts: [runRow("r90", { label: "Nightly" })] }));

    const found = async (search: string) =>
      (await after.store.page({ page: "runs", tenant: "acme", limit: 9, search })).items.map(({ id }) => id);
    expect(await found("night")).toEqual(["r90", "r30", "r20", "r10"]);
    expect(await found("e.old")).toEqual(["r17"]);
    expect((await after.store.page({ page: "run", tenant: "acme", run: "r17" })).detail?.run).toEqual(runs[7]);
    expect(await after.read("doc/acme/workflow/w1")).toEqual([null]);
  });
});
