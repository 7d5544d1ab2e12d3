// What removing old rows takes with it, what it leaves, and what readers of the log notice.

import assert from "node:assert/strict";
import type { ChangeSet, RemovalSlice, RemovedCounts, Row, RunRow } from "@astraflow/engine";
import { changeSet, chunkRow, docRow, logEntry, runRow, taskRow, workerRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

const day = 86_400_000;

type Slice<S> = S extends RemovalSlice ? Omit<S, "after" | "limit"> : never;

/** Calls until the end; answers what was removed and how often it was called. */
async function removeAll(client: StoreClient, slice: Slice<RemovalSlice>, limit = 100) {
  const sum: Record<string, number> = {};
  let after = "";
  for (let calls = 1; ; calls++) {
    assert.ok(calls < 500, `the removal does not end at ${after}`);
    const { removed, next } = await client.store.remove({ ...slice, after, limit });
    for (const [name, count] of Object.entries(removed)) sum[name] = (sum[name] ?? 0) + Number(count);
    if (next === null) return { removed: sum as unknown as RemovedCounts, calls };
    after = next;
  }
}

async function readClock(client: StoreClient): Promise<number> {
  const tx = await client.begin();
  await tx.abort();
  return tx.now;
}

const endedRun = (id: string, endedAt: number, over: Partial<RunRow> = {}): RunRow =>
  runRow(id, { phase: "succeeded", createdAt: endedAt - 5, endedAt, ...(over as object) });

/** A run that has ended, with a task, output, a dead letter and two facts. */
function finishedChangeSet(id: string, endedAt: number, over: Partial<RunRow> = {}): ChangeSet {
  const tenant = over.tenant ?? "acme";
  return changeSet({
    puts: [
      endedRun(id, endedAt, over),
      taskRow(`${id}.0`, { phase: "succeeded", endedAt, result: "1" }),
      docRow("letter", `${id}.0`, { tenant, terms: `${id}x lost` }),
    ],
    chunks: [chunkRow(`${id}.0`, 1, 0, { at: endedAt })],
    logEntries: [logEntry(tenant, `run/${id}`, ["run.created", "run.ended"])],
  });
}

const oldRunsAreRemoved: ContractCase = {
  title:
    "[S580] a store removes runs that ended long enough ago with their tasks, output, dead letters and search words, and leaves younger and live runs and other tenants alone",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const now = await readClock(client);
      const live = runRow("r3", { phase: "running", createdAt: now, startedAt: now });
      await client.write(
        finishedChangeSet("r1", now, { label: "nightly" }),
        finishedChangeSet("r2", now, { phase: "failed", error: '{"code":"E.LOST"}', label: "nightly" } as object),
        changeSet({ puts: [live, taskRow("r3.0", { phase: "leased", worker: "acme/w1" })] }),
        finishedChangeSet("x1", now, { tenant: "beta" }),
      );
      fixture.advance(2 * day);
      await client.write(finishedChangeSet("r4", now + 2 * day, { label: "nightly", createdAt: now } as object));
      fixture.advance(6 * day);
      const list = async (tenant: string, search?: string) =>
        (await client.store.page({ page: "runs", tenant, limit: 9, ...(search && { search }) })).items.map(({ id }) => id);
      // An image in a cache would outlive its row.
      await client.read("run/r1", "task/r1.0", "doc/acme/letter/r1.0");

      const { removed } = await removeAll(client, { of: "runs", tenant: "acme", olderThanMs: 7 * day });

      assert.deepEqual(removed, { runs: 2, tasks: 2, chunks: 2, logEntries: 2, keys: 0, workers: 0 });
      assert.deepEqual([await list("acme"), await list("beta")], [["r4", "r3"], ["x1"]]);
      assert.deepEqual([await list("acme", "nightly"), await list("acme", "lost")], [["r4"], []]);
      assert.deepEqual(await client.read("run/r1", "task/r1.0", "task/r2.0", "doc/acme/letter/r1.0"), [null, null, null, null]);
      assert.equal((await client.readOne<Row>("task/r3.0")).kind, "task");
      const chunks = async (task: string) =>
        (await client.store.page({ page: "chunks", tenant: "acme", task, limit: 9 })).items.length;
      await client.write(changeSet({ puts: [runRow("r1")] }));
      assert.deepEqual([await chunks("r1.0"), await chunks("r4.0")], [0, 1]);
      const letters = await client.store.page({ page: "docs", tenant: "acme", collection: "letter", search: "lost", limit: 9 });
      assert.deepEqual(
        letters.items.map(({ id }) => id),
        ["acme/letter/r4.0"],
      );
    }),
};

const largeRunsTakeSeveralCalls: ContractCase = {
  title: "[S581] a store removes a run that is larger than a slice in several calls, and continues after it was reopened",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const first = await StoreClient.open(fixture);
      const now = await readClock(first);
      const tasks = Array.from({ length: 60 }, (_, at) => taskRow(`r2.${at}`, { phase: "succeeded", result: "1" }));
      await first.write(
        finishedChangeSet("r1", now),
        changeSet({ puts: [endedRun("r2", now), ...tasks] }),
        finishedChangeSet("r3", now),
      );
      for (let turn = 0; turn < 20; turn++)
        await first.write(changeSet({ roots: ["run/r2"], logEntries: [logEntry("acme", "run/r2", [`f${turn}`])] }));
      fixture.advance(8 * day);
      for (let after = "", calls = 0; calls < 3; calls++)
        after = (await first.store.remove({ of: "runs", tenant: "acme", after, olderThanMs: day, limit: 8 })).next ?? "";
      await first.store.close();

      const client = await StoreClient.open(fixture);
      const { calls } = await removeAll(client, { of: "runs", tenant: "acme", olderThanMs: day }, 8);

      assert.ok(calls > 5, `${calls} calls`);
      assert.deepEqual((await client.store.page({ page: "runs", tenant: "acme", limit: 9 })).items, []);
      assert.deepEqual(await client.read("task/r2.0", "task/r2.59", "task/r3.0"), [null, null, null]);
      const log = await client.store.events({ tenant: "acme", after: 0, before: 999, limit: 99 });
      assert.deepEqual(log.items, []);
    }),
};

const removalLeavesNoSilentGap: ContractCase = {
  title:
    "[S582] a store answers a cursor of the whole log below a removed entry with the floor, keeps audit entries, and reads the history of a run that is kept from any cursor",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const now = await readClock(client);
      await client.write(
        changeSet({ puts: [runRow("r0", { createdAt: now })], logEntries: [logEntry("acme", "run/r0", ["1", "2"])] }),
      );
      await client.write(changeSet({ puts: [runRow("r1")], logEntries: [logEntry("acme", "run/r1", ["run.created"])] }));
      await client.write(changeSet({ roots: ["run/r1"], logEntries: [logEntry("acme", "run/r1", ["audit.run.cancel", "5"])] }));
      await client.write(
        changeSet({ puts: [endedRun("r1", now)], logEntries: [logEntry("acme", "run/r1", ["run.ended"])] }),
        changeSet({ roots: ["run/r0"], logEntries: [logEntry("acme", "run/r0", ["7", "8"])] }),
      );
      fixture.advance(8 * day);

      await removeAll(client, { of: "runs", tenant: "acme", olderThanMs: 7 * day });

      const types = (page: { items: readonly { type: string }[] }) => page.items.map(({ type }) => type);
      const below = await client.store.events({ tenant: "acme", after: 5, limit: 9 });
      assert.deepEqual(below, { items: [], next: 5, head: 8, floor: 6 });
      const at = await client.store.events({ tenant: "acme", after: 6, limit: 9 });
      assert.deepEqual([types(at), at.floor], [["7", "8"], 6]);
      for (const after of [0, 1]) {
        const history = await client.store.events({ tenant: "acme", after, subject: "run/r0", limit: 9 });
        assert.deepEqual([types(history), history.floor], [["1", "2", "7", "8"].slice(after), 0]);
      }
      const back = await client.store.events({ tenant: "acme", after: 0, before: 99, types: ["audit."], limit: 9 });
      assert.deepEqual(types(back), ["audit.run.cancel"]);
      const again = await StoreClient.open(fixture, "a").catch(() => client);
      assert.equal((await again.store.events({ tenant: "acme", after: 0, limit: 9 })).floor, 6);
      const { first } = await again.write(
        changeSet({ roots: ["run/r0"], puts: [], logEntries: [logEntry("acme", "run/r0", ["9"])] }),
      );
      assert.deepEqual([...first], [["acme", 9]]);
    }),
};

const oldLogEntriesAreRemoved: ContractCase = {
  title:
    "[S583] a store removes log entries about anything but a run it keeps by their age, audit entries only after their own time, and none that are younger",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const write = (...types: string[]) =>
        client.write(
          changeSet({
            puts: [runRow("r1"), workerRow("acme/w1")],
            logEntries: [
              logEntry("acme", "run/r1", [`run ${types[0]}`]),
              logEntry("acme", "worker/acme/w1", types),
              logEntry("acme", "run/gone", types),
              logEntry("beta", "worker/beta/w1", types),
            ],
          }),
        );
      await write("a");
      await write("audit.drain", "b");
      fixture.advance(10 * day);
      await write("audit.undrain");
      fixture.advance(10 * day);
      await write("c");
      const log = async (tenant: string) =>
        (await client.store.events({ tenant, after: 0, before: 999, limit: 99 })).items.map(({ type }) => type).reverse();
      const age = { of: "log", tenant: "acme", olderThanMs: 5 * day } as const;

      await removeAll(client, { ...age, auditOlderThanMs: null }, 3);

      const rest = ["run audit.undrain", "audit.undrain", "audit.undrain", "run c", "c", "c"];
      const kept = ["run a", "run audit.drain", "audit.drain", "b", "audit.drain", "b", ...rest];
      assert.deepEqual(await log("acme"), kept);
      assert.equal((await log("beta")).length, 5);
      await removeAll(client, { ...age, auditOlderThanMs: 15 * day }, 3);
      assert.deepEqual(await log("acme"), ["run a", "run audit.drain", ...rest]);
      const page = await client.store.events({ tenant: "acme", after: 0, limit: 9 });
      assert.deepEqual([page.items, page.floor], [[], 8]);
    }),
};

const oldKeysAndWorkersAreRemoved: ContractCase = {
  title:
    "[S584] a store removes idempotency keys by age, and workers that are lost or have left, hold nothing and wait for no answer by the time they were last seen",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const now = await readClock(client);
      const ask = (id: string, at: number): Row => ({ kind: "ask", id, digest: "d", run: "r1", at });
      const lost = (id: string, seenAt: number, over: object = {}) =>
        workerRow(id, { phase: "lost", seenAt, tenant: id.split("/")[0] as string, condition: "{}", ...over });
      const old = now - 8 * day;
      const rows = [
        ...Array.from({ length: 7 }, (_, at) => ask(`acme/k${at}`, at % 2 === 0 ? old : now)),
        ask("beta/k1", old),
        lost("acme/w1", old),
        lost("acme/w2", now),
        lost("acme/w3", old, { due: now }),
        lost("acme/w4", old, { condition: '{"orders":[{"id":"c1"}]}' }),
        workerRow("acme/w5", { phase: "online", seenAt: old, due: now }),
        workerRow("acme/w6", { phase: "enrolled", seenAt: old }),
        lost("acme/w7", old, { phase: "left" }),
        lost("beta/w1", old),
      ];
      await client.write(changeSet({ puts: rows }));
      await client.read("ask/acme/k0", "worker/acme/w1");

      const keys = await removeAll(client, { of: "keys", tenant: "acme", olderThanMs: day }, 2);
      const workers = await removeAll(client, { of: "workers", tenant: "acme", olderThanMs: 7 * day }, 2);

      assert.deepEqual([keys.removed.keys, workers.removed.workers], [4, 2]);
      const gone = ["ask/acme/k0", "ask/acme/k2", "ask/acme/k4", "ask/acme/k6", "worker/acme/w1", "worker/acme/w7"] as const;
      assert.deepEqual(
        await client.read(...gone),
        gone.map(() => null),
      );
      const { items } = await client.store.page({ page: "workers", tenant: "acme" });
      assert.deepEqual(
        items.map(({ id }) => id),
        ["acme/w2", "acme/w3", "acme/w4", "acme/w5", "acme/w6"],
      );
      for (const key of ["ask/acme/k1", "ask/beta/k1", "worker/beta/w1"] as const) await client.readOne(key);
    }),
};

const heldRowsAreLeft: ContractCase = {
  title: "[S585] a store removes nothing that a turn holds, and removes it once the turn is over",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const now = await readClock(client);
      await client.write(finishedChangeSet("r1", now - 8 * day));
      const tx = await client.begin({ rows: ["run/r1"] });
      const slice = { of: "runs", tenant: "acme", after: "", olderThanMs: day, limit: 50 } as const;

      const { removed } = await client.store.remove(slice);

      assert.equal(removed.runs, 0);
      assert.equal((await client.commit(tx, [changeSet({ puts: [endedRun("r1", now - 8 * day)] })])).outcome, "committed");
      assert.equal((await client.store.remove(slice)).removed.runs, 1);
    }),
};

const endedRunsAreCounted: ContractCase = {
  title: "[S586] a store lists which runs have ended, newest first, page by page, and a removal can be limited to older ones",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const now = await readClock(client);
      const ended = [1, 2, 4, 5].map((at) => endedRun(`r${at}`, now - day - at));
      await client.write(changeSet({ puts: [...ended, runRow("r3"), endedRun("x1", now, { tenant: "beta" })] }));
      const page = (before?: string) =>
        client.store.page({ page: "ended", tenant: "acme", limit: 3, ...(before !== undefined && { before }) });

      const newest = await page();
      const rest = await page(newest.next ?? "");

      assert.deepEqual(
        [newest.runs, newest.next],
        [
          [
            { id: "r5", endedAt: now - day - 5 },
            { id: "r4", endedAt: now - day - 4 },
          ],
          "r3",
        ],
      );
      assert.deepEqual([rest.runs.map(({ id }) => id), rest.next], [["r2", "r1"], null]);
      await removeAll(client, { of: "runs", tenant: "acme", before: "r4", olderThanMs: day });
      assert.deepEqual(
        (await page()).runs.map(({ id }) => id),
        ["r5", "r4"],
      );
    }),
};

export const removalCases: readonly ContractCase[] = [
  oldRunsAreRemoved,
  largeRunsTakeSeveralCalls,
  removalLeavesNoSilentGap,
  oldLogEntriesAreRemoved,
  oldKeysAndWorkersAreRemoved,
  heldRowsAreLeft,
  endedRunsAreCounted,
];
