import { DatabaseSync } from "node:sqlite";
import type { TaskRow } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { changeSet, runRow, taskRow } from "../../contract/fixtures/sample-rows.ts";
import { useTemporarySqliteFile } from "../../contract/fixtures/temporary-sqlite-file.ts";
import { inlineValueCharsMax } from "./task-values.ts";

const place = useTemporarySqliteFile("values");
const large = `"${"x".repeat(inlineValueCharsMax)}"`;
const leased = (columns: Parameters<typeof taskRow>[1] = {}) =>
  taskRow("r1.0", { phase: "leased", worker: "acme/w1", boot: "b1", params: large, ...columns });

function readFile<T>(read: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(place.file, { readOnly: true });
  try {
    return read(db);
  } finally {
    db.close();
  }
}

const storedCells = () => readFile((db) => db.prepare("SELECT params, result FROM task WHERE id = 'r1.0'").get());
const storedValues = () =>
  readFile((db) => db.prepare("SELECT task, field, length(body) AS chars FROM task_value ORDER BY field").all());

describe("large values of tasks", () => {
  it("[S521] the SQLite store keeps parameters and results above 64 KiB out of the task's row, and shorter ones in it without another row", async () => {
    const client = await place.openClient();
    const short = "y".repeat(inlineValueCharsMax);
    await client.write(changeSet({ puts: [runRow("r1"), leased(), taskRow("r1.1", { params: short })] }));
    expect(storedCells()).toEqual({ params: `@${large.length}`, result: null });

    await client.write(changeSet({ puts: [leased({ phase: "succeeded", result: large, endedAt: 1 })] }));

    expect(storedCells()).toEqual({ params: `@${large.length}`, result: `@${large.length}` });
    expect(storedValues()).toMatchObject([
      { task: "r1.0", field: "params", chars: large.length },
      { task: "r1.0", field: "result", chars: large.length },
    ]);
  });

  it("[S521] the SQLite store returns a short text that begins like a reference to a large value as it was written, to turns and to pages", async () => {
    const client = await place.openClient();
    const texts = { params: "@7", result: "@" };
    await client.write(changeSet({ puts: [runRow("r1"), leased(texts)] }));

    expect(await client.readOne("task/r1.0")).toMatchObject(texts);
    expect(await client.store.page({ page: "task", tenant: "acme", task: "r1.0" })).toMatchObject({ task: texts });
    await client.write(changeSet({ puts: [leased({ params: "{}", result: null })] }));
    expect(await client.readOne("task/r1.0")).toMatchObject({ params: "{}", result: null });
    expect(storedValues()).toEqual([]);
  });

  it("[S521] the SQLite store neither reads nor writes the large value of a task whose other columns are listed or changed", async () => {
    const client = await place.openClient();
    await client.write(changeSet({ puts: [runRow("r1"), leased()] }));
    const stats = () => (client.store as unknown as { stats(): { statements: number } }).stats().statements;
    const tx = await client.begin({ rows: ["run/r1"] });
    const before = stats();
    const [listed] = tx.tasks({ of: "held", worker: "acme/w1", limit: 9 }) ?? [];
    expect([listed?.id, listed?.phase]).toEqual(["r1.0", "leased"]);
    const row = tx.row("task", "r1.0") as TaskRow;
    // The list of ids alone: rows come from the cache, values are not looked at.
    expect(stats() - before).toBe(1);
    const moved = { ...row, fence: 7 } as TaskRow;
    expect([moved.params === large, row.params === large, stats() - before]).toEqual([true, true, 2]);

    const written = stats();
    expect(await client.commit(tx, [changeSet({ puts: [moved] })])).toMatchObject({ outcome: "committed" });

    // The task's row and the replica's.
    expect(stats() - written).toBe(2);
    expect(await client.readOne("task/r1.0")).toEqual(leased({ fence: 7 }));
  });

  it("[S521] the SQLite store removes large values with their task, whichever statement deletes it", async () => {
    const client = await place.openClient();
    await client.write(changeSet({ puts: [runRow("r1"), leased()] }));
    await client.store.close();
    const db = new DatabaseSync(place.file);
    db.exec("DELETE FROM task WHERE id > 'r1.' AND id < 'r1/'");
    db.close();

    expect(storedValues()).toEqual([]);
  });

  it("[S521] the SQLite store reads a large value that an earlier version left in the task's row, and moves it out with the next write", async () => {
    const client = await place.openClient();
    await client.write(changeSet({ puts: [runRow("r1"), leased({ params: "{}" })] }));
    await client.store.close();
    const db = new DatabaseSync(place.file);
    db.prepare("UPDATE task SET params = ? WHERE id = 'r1.0'").run(large);
    db.close();
    const again = await place.openClient();
    expect(await again.readOne("task/r1.0")).toEqual(leased());
    expect(storedValues()).toEqual([]);

    await again.write(changeSet({ puts: [leased({ fence: 9 })] }));

    expect(storedCells()).toEqual({ params: `@${large.length}`, result: null });
    expect(await again.readOne("task/r1.0")).toEqual(leased({ fence: 9 }));
  });
});
