import { copyFileSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../contract/fixtures/memory-and-sqlite-fixtures.ts";
import { changeSet, runRow } from "../../contract/fixtures/sample-rows.ts";
import type { StoreClient } from "../../contract/fixtures/store-client.ts";
import { useTemporarySqliteFile } from "../../contract/fixtures/temporary-sqlite-file.ts";
import { SqliteReader } from "../reader/reader.ts";
import { walCheckMs } from "./write-ahead-log.ts";

const place = useTemporarySqliteFile("wal");
const walBytes = () => statSync(`${place.file}-wal`, { throwIfNoEntry: false })?.size ?? 0;

async function writeTurns(client: StoreClient, count: number): Promise<void> {
  for (let at = 0; at < count; at++)
    await client.write(changeSet({ puts: [runRow("r1", { error: `${"x".repeat(20_000)}${client.nextTurn}` })] }));
}

/** What a copy of the database file without its WAL holds. */
function countRunsInLoneCopy(): number {
  copyFileSync(place.file, `${place.file}.copy`);
  const copy = new DatabaseSync(`${place.file}.copy`);
  const row = copy.prepare("SELECT count(*) AS runs FROM run").get();
  copy.close();
  return Number(row?.["runs"]);
}

describe("the write-ahead log of the SQLite store", () => {
  it("[S90] a store that is closed leaves everything in its database file, also while a reader has the file open", async () => {
    const client = await place.openClient();
    await writeTurns(client, 3);
    const reader = new SqliteReader({ file: place.file });

    await client.store.close();

    expect(walBytes()).toBe(0);
    expect(countRunsInLoneCopy()).toBe(1);
    await reader.close();
  });

  it("[S90] a store that works slowly moves a WAL above 1 MiB into the database file every half minute", async () => {
    const clock = new ManualClock();
    const client = await place.openClient({ clock });
    await writeTurns(client, 64);
    const before = walBytes();

    clock.advance(walCheckMs);
    await writeTurns(client, 64);

    expect(before).toBeGreaterThan(1024 * 1024);
    expect(walBytes()).toBeLessThan(before);
    expect(countRunsInLoneCopy()).toBe(1);
  });
});
