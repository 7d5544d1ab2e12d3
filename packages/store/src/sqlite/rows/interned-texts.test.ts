import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { changeSet, runRow, taskRow } from "../../contract/fixtures/sample-rows.ts";
import { useTemporarySqliteFile } from "../../contract/fixtures/temporary-sqlite-file.ts";
import type { SqliteOptions } from "../store.ts";

const place = useTemporarySqliteFile("words");
const openHand = (options: Partial<SqliteOptions> = {}) => place.openClient(options);

function countWords(): number {
  const raw = new DatabaseSync(place.file, { readOnly: true });
  const found = Number(raw.prepare("SELECT count(*) AS n FROM word").get()?.n);
  raw.close();
  return found;
}

const leased = (id: string, worker: string) => taskRow(id, { phase: "leased", worker, boot: "b1", route: "route-1" });

describe("words", () => {
  it("[S69] the SQLite store stores a text that many tasks share once, and reads every task with its texts, also after a restart", async () => {
    const client = await openHand({ cacheRows: 2 });
    const tasks = Array.from({ length: 20 }, (_, at) => leased(`r1.${at + 10}`, at % 2 === 0 ? "acme/w1" : "acme/w2"));
    await client.write(changeSet({ puts: [runRow("r1"), ...tasks] }));
    await client.store.close();

    const again = await openHand();

    expect(countWords()).toBe(4);
    expect((await again.store.page({ page: "run", tenant: "acme", run: "r1" })).detail?.tasks).toEqual(tasks);
    expect(await again.read("task/r1.13")).toEqual([leased("r1.13", "acme/w2")]);
    const tx = await again.begin();
    expect(tx.tasks({ of: "held", worker: "acme/w2", limit: 3 })).toEqual([tasks[1], tasks[3], tasks[5]]);
    expect(tx.tasks({ of: "held", worker: "acme/nobody", limit: 3 })).toEqual([]);
    await tx.abort();
  });

  it("[S69] the SQLite store discards the shared texts of a turn that failed, and the next turn stores them again", async () => {
    let isBroken = true;
    const failpoint = (name: string) => {
      if (isBroken && name === "sqlite.commit") throw Object.assign(new Error("no room"), { errcode: 13 });
    };
    const client = await openHand({ failpoint });
    const puts = [runRow("r1"), leased("r1.1", "acme/w1")];
    const tx = await client.begin({ rows: ["run/r1"] });
    expect(await client.commit(tx, [changeSet({ puts })])).toMatchObject({ outcome: "failed" });
    expect(countWords()).toBe(0);

    isBroken = false;
    await client.write(changeSet({ puts }));

    expect(countWords()).toBe(3);
    expect((await client.store.page({ page: "run", tenant: "acme", run: "r1" })).detail?.tasks).toEqual([
      leased("r1.1", "acme/w1"),
    ]);
  });
});
