import type { Row, RowKey } from "@astraflow/engine";
import { keyOf, rootOf } from "@astraflow/engine";
import { withColumns } from "@astraflow/engine/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { changeSet, logEntry, sampleRowsOfAllKinds } from "../../contract/fixtures/sample-rows.ts";
import { StoreClient } from "../../contract/fixtures/store-client.ts";
import { type PostgresServer, startPostgres } from "../../contract/servers/postgres-server.ts";
import { openPostgres, type PostgresStore } from "../store.ts";
import { columnsOf, isNumeric } from "./columns.ts";
import { rowSections, sections } from "./commit-sections.ts";

let server: PostgresServer;
let store: PostgresStore;
let storeClient: StoreClient;

beforeAll(async () => {
  server = await startPostgres();
  store = openPostgres({ url: await server.createDatabase() });
  storeClient = await StoreClient.open({ createHandle: () => store });
});
afterAll(async () => {
  await store.close();
  await server.stop();
});

/** Changes the rows in a turn that has read them first, as the engine does. */
async function writeChanges(rows: readonly Row[]): Promise<void> {
  const keys = rows.map(keyOf);
  const tx = await storeClient.begin({ rows: keys });
  const committed = await storeClient.commit(tx, [changeSet({ roots: [...new Set(keys.map(rootOf))], puts: rows })]);

  expect(committed.outcome).toBe("committed");
}

/** The row with the fields of another of its kind. */
const copyFields = (row: Row, other: Row, fields: readonly string[]): Row => ({
  ...row,
  ...Object.fromEntries(fields.map((field) => [field, (other as unknown as Record<string, unknown>)[field]])),
});

describe("rows on their way", () => {
  it("[S2] a row in PostgreSQL is read back as written, whichever columns have changed: each one alone, the usual ones together, and all", async () => {
    const samples = sampleRowsOfAllKinds();
    await storeClient.write(changeSet({ puts: samples }));
    for (const row of samples) {
      const other = samples.find((one) => one.kind === row.kind && one.id !== row.id) ?? row;
      // Whoever stands in a line has a rank; a change of the line alone would be refused.
      const free = columnsOf(row.kind).flatMap(({ field }) => (field === "id" || field === "line" ? [] : [field]));
      const usual = rowSections[row.kind].updates.map(({ columns }) =>
        columns.flatMap(({ field }) => (free.includes(field) ? [field] : [])),
      );
      for (const fields of [...free.map((field) => [field]), ...usual]) {
        const changed = copyFields(row, other, fields);
        await writeChanges([changed]);

        expect([fields, ...(await storeClient.read(keyOf(row)))]).toEqual([fields, changed]);
        await writeChanges([row]);
        expect([fields, ...(await storeClient.read(keyOf(row)))]).toEqual([fields, row]);
      }
    }
  });

  it("[S2] the PostgreSQL store keeps many rows of many kinds apart in one turn, with texts of any length and alphabet", async () => {
    const texts = ["", "a", "ä".repeat(3_000), "\u{1f600}".repeat(99), "x".repeat(70_000)];
    const rows = texts.flatMap((text, at) =>
      sampleRowsOfAllKinds().map((row): Row => {
        const id = `${at}${row.id}`;
        if (row.kind === "task") return withColumns(row, { id, run: `${at}${row.run}`, params: text, rank: at / 3 });
        return row.kind === "run" ? withColumns(row, { id, error: text, due: 2 ** 53 - 1 - at }) : { ...row, id };
      }),
    );
    const facts = logEntry("acme", "run/0r1", texts);
    await storeClient.write(changeSet({ puts: rows, logEntries: [facts] }));

    expect(await storeClient.read(...rows.map((row): RowKey => keyOf(row)))).toEqual(rows);
    expect((await storeClient.readLog("acme")).map((entry) => entry.type)).toEqual(texts);
  });

  it("[S46] every section of a PostgreSQL commit has its own offset, and no column twice", () => {
    expect(sections.map(({ offset: at }) => at).sort((a, b) => a - b)).toEqual(sections.map((_, index) => 3 * index));
    for (const { columns, texts, numbers } of Object.values(rowSections).flatMap(({ insert: i, upsert: p, updates: changes }) => [
      i,
      p,
      ...changes,
    ])) {
      expect(new Set([...texts, ...numbers]).size).toBe(texts.length + numbers.length);
      expect(numbers.filter((name) => name !== "place")).toEqual(columns.filter(isNumeric).map(({ field }) => field));
    }
  });
});
