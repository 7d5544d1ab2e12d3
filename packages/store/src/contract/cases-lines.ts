// The contract on lines: order, limits, quarantine, what a claim reads, and the fairness of ranks.

import assert from "node:assert/strict";
import type { ChangeSet, QueueName, RowKey, TaskRow } from "@astraflow/engine";
import { Hand, onStage } from "./hand.ts";
import { readyUnit, runRow, taskRow, unit } from "./sample-rows.ts";
import type { ContractCase } from "./stage.ts";

const leased = (task: TaskRow): TaskRow => ({ ...task, phase: "leased", line: null, worker: "acme/w1" });

/** Claims and leases up to `limit` tasks of a line in one turn; answers their ids. */
async function take(hand: Hand, line: QueueName, limit: number, skip: readonly RowKey[] = []): Promise<string[]> {
  const tx = await hand.begin({ claims: [{ line, limit }], skip });
  const claimed = tx.claimed.get(line) ?? [];
  const answer = await hand.commit(
    tx,
    claimed.map((task) => unit({ puts: [leased(task)] })),
  );
  assert.equal(answer.outcome, "committed", JSON.stringify(answer));
  return claimed.map((task) => task.id);
}

const claimsFollowBandAndRank: ContractCase = {
  title: "[S13] claims the head of a line by band, then rank, up to its limit; pinned lines stand apart",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      await hand.write(
        readyUnit("r1", "r|x"),
        readyUnit("r2", "r|x"),
        readyUnit("r3", "r|x", { band: 1 }),
        readyUnit("r4", "r|x|acme/w1"),
        readyUnit("r5", "r|x", { band: 9 }),
        readyUnit("r6", "r|x", { cost: 0 }),
      );

      const tx = await hand.begin({
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
      assert.deepEqual(await take(hand, "r|x", 2), ["r3.0", "r1.0"]);
      assert.deepEqual(await take(hand, "r|x", 0), []);
      assert.deepEqual(await take(hand, "r|x", 9), ["r2.0", "r6.0", "r5.0"]);
      assert.deepEqual(await take(hand, "r|x", 9), []);
    }),
};

const claimsLeaveOutQuarantine: ContractCase = {
  title: "[S13] leaves the tasks of quarantined runs in their line and fills the claim from behind them",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      await hand.write(...["r1", "r2", "r3", "r4"].map((run) => readyUnit(run, "l")));

      assert.deepEqual(await take(hand, "l", 2, ["run/r1", "run/r3"]), ["r2.0", "r4.0"]);
      assert.deepEqual(await take(hand, "l", 2), ["r1.0", "r3.0"]);
    }),
};

const claimsAreNotDoubled: ContractCase = {
  title: "[S13] gives no task to two turns: what one has claimed, the next does not see until it is let go",
  run: (make) =>
    onStage(make, async (stage) => {
      const a = await Hand.open(stage, "a");
      await a.write(...["r1", "r2", "r3"].map((run) => readyUnit(run, "l")));
      const first = await a.begin({ claims: [{ line: "l", limit: 2 }] });
      if (stage.overlaps) {
        const b = await Hand.open(stage, "b");
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
      assert.deepEqual(await take(a, "l", 9), ["r1.0", "r2.0", "r3.0"]);
    }),
};

const crowd = 200_000;

const claimsReadTheirLineOnly: ContractCase = {
  title: "[S14] reads no other line's tasks for a claim, however many stand before its own",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      const unitsPerTurn = 10;
      const tasksPerUnit = 1_000;
      for (let made = 0; made < crowd; made += unitsPerTurn * tasksPerUnit)
        await hand.write(
          ...Array.from({ length: unitsPerTurn }, (_, at) => bulkUnit(`a${made}x${at}`, "r|foreign", tasksPerUnit)),
        );
      await hand.write(...["z1", "z2", "z3"].map((run) => readyUnit(run, "r|own")));
      await take(hand, "r|own", 1);
      const before = stage.rowsRead();

      const tx = await hand.begin({ claims: [{ line: "r|own", limit: 50 }] });
      const read = stage.rowsRead() - before;
      await tx.abort();

      assert.equal(tx.claimed.get("r|own")?.length, 2);
      assert.ok(read <= 4, `the claim read ${read} rows`);
    }),
};

function bulkUnit(run: string, line: QueueName, tasks: number): ChangeSet {
  const ids = Array.from({ length: tasks }, (_, at) => `${run}.${at}`);
  return unit({
    puts: [runRow(run, { tenant: "crowd" }), ...ids.map((id) => taskRow(id, { phase: "ready", line, band: 0 }))],
    enqueued: ids.map((task) => ({ task, tenant: "crowd", cost: 1 })),
  });
}

const lateTenantsAreInterleaved: ContractCase = {
  title: "[S15] ranks a tenant that comes late at the line's present clock: it shares from then on and has saved no credit",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      await hand.write(bulkUnit("a1", "l", 100));
      await take(hand, "l", 40);
      await hand.write(unit({ puts: [runRow("b1", { tenant: "late" })] }));
      const ids = Array.from({ length: 20 }, (_, at) => `b1.${at + 10}`);
      await hand.write(
        unit({
          puts: ids.map((id) => taskRow(id, { phase: "ready", line: "l", band: 0 })),
          enqueued: ids.map((task) => ({ task, tenant: "late", cost: 1 })),
        }),
      );

      const next = await take(hand, "l", 40);

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
  title: "[S15] sets rank = max(tenant clock, line clock) + cost, and moves the tenant's clock there",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      const rankOf = async (run: string) => (await hand.readOne<TaskRow>(`task/${run}.0`)).rank;
      await hand.write(readyUnit("r1", "l", { tenant: "x", cost: 3 }), readyUnit("r2", "l", { tenant: "x", cost: 0.5 }));
      await hand.write(readyUnit("r3", "l", { tenant: "y", cost: 1 }));
      assert.deepEqual([await rankOf("r1"), await rankOf("r2"), await rankOf("r3")], [3, 3.5, 1]);

      assert.deepEqual(await take(hand, "l", 2), ["r3.0", "r1.0"]);
      await hand.write(readyUnit("r4", "l", { tenant: "z", cost: 1 }), readyUnit("r5", "other", { tenant: "z", cost: 1 }));

      assert.deepEqual([await rankOf("r4"), await rankOf("r5")], [4, 5]);
      await hand.store.close();
      const again = await Hand.open(stage);
      await again.write(readyUnit("r6", "l", { tenant: "new", cost: 1 }), readyUnit("r7", "empty", { tenant: "z", cost: 1 }));
      const ranks = [(await again.readOne<TaskRow>("task/r6.0")).rank, (await again.readOne<TaskRow>("task/r7.0")).rank];
      assert.deepEqual(ranks, [4, 6]);
    }),
};

export const lineCases: readonly ContractCase[] = [
  claimsFollowBandAndRank,
  claimsLeaveOutQuarantine,
  claimsAreNotDoubled,
  claimsReadTheirLineOnly,
  lateTenantsAreInterleaved,
  ranksAreClocksPlusCost,
];
