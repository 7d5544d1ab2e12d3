import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "@astraflow/engine";
import { sampleRun, sampleWorker } from "@astraflow/engine/testing";
import { defaultRetention } from "@astraflow/services";
import { openPostgres, openSqlite } from "@astraflow/store";
import { startPostgres } from "@astraflow/store/testing";
import { expect, it, onTestFinished } from "vitest";
import { readRetention } from "../settings/config.ts";
import { checkKeptRows, describeKept, describeSpace } from "./kept-checks.ts";

const space = { pageBytes: 8_192, pages: 20_000, freePages: 100, canShrink: true };

/** A tenant with two runs, one of them finished, a worker that has left and a key. */
async function fillStore(store: Store): Promise<void> {
  await store.open({ replica: "r", cluster: "c" });
  const puts = [
    sampleRun("r1", { phase: "succeeded", createdAt: 1_000, open: 0 }),
    sampleRun("r2"),
    sampleWorker("acme/w1", { phase: "left" }),
    sampleWorker("acme/w2"),
    { kind: "ask", id: "acme/k1", digest: "d", run: "r1", at: 1 } as const,
  ];
  const roots = ["run/r1", "run/r2", "worker/acme/w1", "worker/acme/w2", "ask/acme/k1"] as const;
  const tx = await store.begin({ rows: [...roots], claims: [], lists: [], due: 0, mail: 0, skip: [] });
  const logEntries = [{ tenant: "acme", subject: "run/r1", facts: [{ type: "run.ended", data: {} }] }] as const;
  const { outcome } = await tx.commit(1, [{ roots: [...roots], puts, deletes: [], enqueued: [], logEntries, mail: [] }]);
  expect(outcome).toBe("committed");
}

const keptOfTenant =
  "acme: 2 runs (1 finished, the oldest of 1970-01-01T00:00:01.000Z), the whole log, 1 facts, 1 idempotency keys, 1 workers that are gone";
const keptByDefault = /^finished runs 30 d, idempotency keys 1 d, workers that are gone 7 d, audit entries for ever/;

it("[L630] astra doctor shows how much a store in a file keeps of each tenant, since when, and how long by the settings", async () => {
  const folder = mkdtempSync(join(tmpdir(), "astra-kept-"));
  const store = openSqlite({ file: join(folder, "astra.db"), clock: { wall: () => 9_000, mono: () => performance.now() } });
  await fillStore(store);

  const checks = await checkKeptRows("", folder, defaultRetention);

  expect(checks.map(({ name, isGood }) => [name, isGood])).toEqual([
    ["kept", true],
    ["retention", true],
    ["space", true],
  ]);
  expect(checks[0]?.found).toBe(keptOfTenant);
  expect(checks[1]?.found).toMatch(keptByDefault);
  expect(checks[2]?.found).toContain("given back to the disk");
  await store.close();
  rmSync(folder, { recursive: true });
});

it("[L630] astra doctor shows the same of a PostgreSQL server, and nothing where no scheduler has been or nobody answers", async () => {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const url = await server.createDatabase();
  const nothing = await checkKeptRows(url, "", defaultRetention);
  const store = openPostgres({ url });
  await fillStore(store);

  const checks = await checkKeptRows(url, "", defaultRetention);
  await store.close();
  await server.halt("fast");

  expect(nothing[0]?.found).toBe("nothing yet");
  expect(checks.map(({ name, found }) => [name, found])).toEqual([
    ["kept", keptOfTenant],
    ["retention", expect.stringMatching(keptByDefault)],
  ]);
  expect(await checkKeptRows(url, "", defaultRetention)).toEqual([]);
});

it("[L630] astra doctor names where a log begins after a removal, and how an older file gets its free space back", () => {
  const kept = { tenant: "t", runs: 5, endedRuns: 5, oldestRunAt: null, floor: 40, head: 90, keys: 0, goneWorkers: 0 };
  const older = { ...space, freePages: 15_000, canShrink: false };

  const [tenants] = describeKept([kept], defaultRetention);
  const file = describeSpace(older, "/data/astra.db");

  expect(tenants?.found).toContain("the log from 41 to 90");
  expect(file.advice).toContain('sqlite3 /data/astra.db "PRAGMA auto_vacuum = INCREMENTAL; VACUUM;"');
  expect(describeSpace(space, "f")).not.toHaveProperty("advice");
});

it("[L630] astra doctor reads how long things are kept from the environment and its file, whatever else is wrong there", () => {
  const env = { ASTRA_SCHEDULER_RETAIN_RUNS: "2d", ASTRA_SCHEDULER_CONFIG: "c", ASTRA_SCHEDULER_LISTEN: "nonsense" };

  expect(readRetention({ env, readFile: () => JSON.stringify({ retainRunsMax: 50 }) })).toEqual({
    ...defaultRetention,
    runsMs: 2 * 86_400_000,
    runsMax: 50,
  });
});
