// The contract on lines: order, limits, quarantine, what a claim reads, and the fairness of ranks.

import assert from "node:assert/strict";
import type { ChangeSet, QueueName, RowKey, TaskRow } from "@astraflow/engine";
import { withColumns } from "@astraflow/engine/testing";
import { changeSet, readyChangeSet, runRow, taskRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

const asLeased = (task: TaskRow): TaskRow => withColumns(task, { phase: "leased", line: null, worker: "acme/w1" });

/** Claims and leases up to `limit` tasks of a line in one turn; answers their ids. */
async function claimTaskIds(
  client: StoreClient,
  line: QueueName,
  limit: number,
  skip: readonly RowKey[] = [],
): Promise<string[]> {
  const tx = await client.begin({ claims: [{ line, limit }], skip });
  const claimed = tx.claimed.get(line) ?? [];
  const answer = await client.commit(
    tx,
    claimed.map((task) => changeSet({ puts: [asLeased(task)] })),
  );
  assert.equal(answer.outcome, "committed", JSON.stringify(answer));
  return claimed.map((task) => task.id);
}

const claimsFollowBandAndRank: ContractCase = {
  title: "[S13] a store claims the head of a task queue by band, then rank, up to a limit, and keeps pinned queues separate",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(
        readyChangeSet("r1", "r|x"),
        readyChangeSet("r2", "r|x"),
        readyChangeSet("r3", "r|x", { band: 1 }),
        readyChangeSet("r4", "r|x|acme/w1"),
        readyChangeSet("r5", "r|x", { band: 9 }),
        readyChangeSet("r6", "r|x", { cost: 0 }),
      );

      const tx = await client.begin({
        claims: [
          { line: "r|x", limit: 3 },
          { line: "r|x|acme/w1", limit: 3 },
          { line: "r|none", limit: 3 },
        ],
      });
      const seen = [...tx.claimed].map(([line, tasks]) => [line, tasks.map((task) => task.id)]);
      const run = tx.row("run", "r3");
      await tx.abort();

      assert.deepEqual(seen, [
        ["r|x", ["r3.0", "r1.0", "r2.0"]],
        ["r|x|acme/w1", ["r4.0"]],
        ["r|none", []],
      ]);
      assert.deepEqual(run, runRow("r3", { phase: "running" }));
      assert.deepEqual(await claimTaskIds(client, "r|x", 2), ["r3.0", "r1.0"]);
      assert.deepEqual(await claimTaskIds(client, "r|x", 0), []);
      assert.deepEqual(await claimTaskIds(client, "r|x", 9), ["r2.0", "r6.0", "r5.0"]);
      assert.deepEqual(await claimTaskIds(client, "r|x", 9), []);
    }),
};

const claimsLeaveOutQuarantine: ContractCase = {
  title: "[S13] a store leaves the tasks of quarantined runs in their queue and fills the claim from behind them",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(...["r1", "r2", "r3", "r4"].map((run) => readyChangeSet(run, "l")));

      assert.deepEqual(await claimTaskIds(client, "l", 2, ["run/r1", "run/r3"]), ["r2.0", "r4.0"]);
      assert.deepEqual(await claimTaskIds(client, "l", 2), ["r1.0", "r3.0"]);
    }),
};

const claimsAreNotDoubled: ContractCase = {
  title: "[S13] a store gives no task to two turns: a task that one has claimed is hidden from the next until it is released",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const a = await StoreClient.open(fixture, "a");
      await a.write(...["r1", "r2", "r3"].map((run) => readyChangeSet(run, "l")));
      const first = await a.begin({ claims: [{ line: "l", limit: 2 }] });
      if (fixture.hasConcurrentTurns) {
        const b = await StoreClient.open(fixture, "b");
        const second = await b.begin({ claims: [{ line: "l", limit: 2 }] });

        assert.deepEqual(
          second.claimed.get("l")?.map((task) => task.id),
          ["r3.0"],
        );
        await second.abort();
      }
      assert.deepEqual(
        first.claimed.get("l")?.map((task) => task.id),
        ["r1.0", "r2.0"],
      );
      await first.abort();
      assert.deepEqual(await claimTaskIds(a, "l", 9), ["r1.0", "r2.0", "r3.0"]);
    }),
};

const otherQueueTasks = 200_000;

const claimsReadTheirQueueOnly: ContractCase = {
  title: "[S14] a store reads no other queue's tasks for a claim, however many precede its own",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const unitsPerTurn = 10;
      const tasksPerUnit = 1_000;
      for (let made = 0; made < otherQueueTasks; made += unitsPerTurn * tasksPerUnit)
        await client.write(
          ...Array.from({ length: unitsPerTurn }, (_, at) => bulkChangeSet(`a${made}x${at}`, "r|foreign", tasksPerUnit)),
        );
      await client.write(...["z1", "z2", "z3"].map((run) => readyChangeSet(run, "r|own")));
      await claimTaskIds(client, "r|own", 1);
      const before = fixture.rowsRead();

      const tx = await client.begin({ claims: [{ line: "r|own", limit: 50 }] });
      const read = fixture.rowsRead() - before;
      await tx.abort();

      assert.equal(tx.claimed.get("r|own")?.length, 2);
      assert.ok(read <= 4, `the claim read ${read} rows`);
    }),
};

function bulkChangeSet(run: string, line: QueueName, tasks: number): ChangeSet {
  const ids = Array.from({ length: tasks }, (_, at) => `${run}.${at}`);
  return changeSet({
    puts: [runRow(run, { tenant: "crowd" }), ...ids.map((id) => taskRow(id, { phase: "ready", line, band: 0 }))],
    enqueued: ids.map((task) => ({ task, tenant: "crowd", cost: 1 })),
  });
}

const lateTenantsAreInterleaved: ContractCase = {
  title: "[S15] a store ranks a late tenant at the queue's current clock: it gets its share from then on and has saved no credit",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(bulkChangeSet("a1", "l", 100));
      await claimTaskIds(client, "l", 40);
      await client.write(changeSet({ puts: [runRow("b1", { tenant: "late" })] }));
      const ids = Array.from({ length: 20 }, (_, at) => `b1.${at + 10}`);
      await client.write(
        changeSet({
          puts: ids.map((id) => taskRow(id, { phase: "ready", line: "l", band: 0 })),
          enqueued: ids.map((task) => ({ task, tenant: "late", cost: 1 })),
        }),
      );

      const next = await claimTaskIds(client, "l", 40);

      const late = next.filter((id) => id.startsWith("b1."));
      assert.equal(late.length, 20);
      for (let seen = 2; seen <= next.length; seen += 2)
        assert.equal(
          next.slice(0, seen).filter((id) => id.startsWith("b1.")).length,
          seen / 2,
          `among the first ${seen}: ${next.slice(0, seen).join(" ")}`,
        );
    }),
};

const ranksAreClocksPlusCost: ContractCase = {
  title: "[S15] a store sets rank = max(tenant clock, queue clock) + cost, and moves the tenant's clock there",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const rankOf = async (run: string) => (await client.readOne<TaskRow>(`task/${run}.0`)).rank;
      await client.write(
        readyChangeSet("r1", "l", { tenant: "x", cost: 3 }),
        readyChangeSet("r2", "l", { tenant: "x", cost: 0.5 }),
      );
      await client.write(readyChangeSet("r3", "l", { tenant: "y", cost: 1 }));
      assert.deepEqual([await rankOf("r1"), await rankOf("r2"), await rankOf("r3")], [3, 3.5, 1]);

      assert.deepEqual(await claimTaskIds(client, "l", 2), ["r3.0", "r1.0"]);
      await client.write(
        readyChangeSet("r4", "l", { tenant: "z", cost: 1 }),
        readyChangeSet("r5", "other", { tenant: "z", cost: 1 }),
      );

      assert.deepEqual([await rankOf("r4"), await rankOf("r5")], [4, 5]);
      await client.store.close();
      const again = await StoreClient.open(fixture);
      await again.write(
        readyChangeSet("r6", "l", { tenant: "new", cost: 1 }),
        readyChangeSet("r7", "empty", { tenant: "z", cost: 1 }),
      );
      const ranks = [(await again.readOne<TaskRow>("task/r6.0")).rank, (await again.readOne<TaskRow>("task/r7.0")).rank];
      assert.deepEqual(ranks, [4, 6]);
    }),
};

export const taskQueueCases: readonly ContractCase[] = [
  claimsFollowBandAndRank,
  claimsLeaveOutQuarantine,
  claimsAreNotDoubled,
  claimsReadTheirQueueOnly,
  lateTenantsAreInterleaved,
  ranksAreClocksPlusCost,
];
