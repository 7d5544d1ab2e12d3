import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { changeSet, logEntry, runRow } from "../../contract/fixtures/sample-rows.ts";
import { useTemporarySqliteFile } from "../../contract/fixtures/temporary-sqlite-file.ts";
import type { SqliteOptions, SqliteStore } from "../store.ts";

const place = useTemporarySqliteFile("histories");
const openHand = (options: Partial<SqliteOptions> = {}) => place.openClient(options);

function count(table: string): number {
  const raw = new DatabaseSync(place.file, { readOnly: true });
  const found = Number(raw.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
  raw.close();
  return found;
}

describe("histories", () => {
  it("[S68] the SQLite store finds the history of a subject from any cursor, whether it is indexed or only in the newest rows of the log", async () => {
    const client = await openHand({ unindexedLogRowsMax: 5 });
    const expected: string[] = [];
    const history = async (after: number, limit: number) =>
      (await client.store.events({ tenant: "acme", after, limit, subject: "run/r1" })).items.map(
        (one) => `${one.position} ${one.type}`,
      );

    for (let turn = 1; turn <= 14; turn++) {
      const subjects = turn % 3 === 0 ? (["run/r1", "run/r2"] as const) : (["run/r2", "run/r1", "run/r3"] as const);
      const types = [`a${turn}`, `b${turn}`];
      const happenings = subjects.map((subject) => logEntry("acme", subject, types));
      const { first } = await client.write(changeSet({ puts: [runRow(`x${turn}`)], logEntries: happenings }));
      const from = (first.get("acme") ?? 0) + 2 * subjects.indexOf("run/r1");
      expected.push(`${from} ${types[0]}`, `${from + 1} ${types[1]}`);

      expect(await history(0, 99)).toEqual(expected);
      for (const [at, one] of expected.entries()) {
        const position = Number.parseInt(one, 10);
        expect(await history(position, 2)).toEqual(expected.slice(at + 1, at + 3));
        expect(await history(position - 1, 1)).toEqual([one]);
      }
    }
    expect(count("event_of")).toBeGreaterThan(0);
    expect(count("event") - count("event_of")).toBeLessThanOrEqual(5);
  });

  it("[S68] a reopened SQLite store indexes the unindexed end of the log that it finds, and trims subject histories with the log", async () => {
    const first = await openHand({ unindexedLogRowsMax: 3 });
    for (const type of ["a", "b", "c"])
      await first.write(changeSet({ puts: [runRow(type)], logEntries: [logEntry("acme", "run/r1", [type])] }));
    await first.store.close();
    const again = await openHand({ unindexedLogRowsMax: 3 });
    await again.write(changeSet({ puts: [runRow("d")], logEntries: [logEntry("acme", "run/r1", ["d"])] }));

    expect([count("event"), count("event_of")]).toEqual([4, 4]);
    expect((again.store as SqliteStore).trim("acme", 3)).toBe(3);
    expect([count("event"), count("event_of")]).toEqual([1, 1]);
    const { items } = await again.store.events({ tenant: "acme", after: 3, limit: 9, subject: "run/r1" });
    expect(items).toMatchObject([{ position: 4, type: "d" }]);
  });
});
