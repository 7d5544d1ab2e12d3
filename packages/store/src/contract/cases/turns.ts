// The contract on turns side by side: roots, joins, lost answers, replicas that come back, mail. Stores that take one turn at a time
// play the same scenes one after the other.

import assert from "node:assert/strict";
import type { CommitOutcome, RunRow, TaskRow } from "@astraflow/engine";
import { withColumns } from "@astraflow/engine/testing";
import { changeSet, logEntry, readyChangeSet, runRow, taskRow, workerRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase, StoreFixture } from "../fixtures/store-fixture.ts";

/** Handles for two schedulers where the store allows it, one otherwise. */
async function openTwoClients(fixture: StoreFixture): Promise<[StoreClient, StoreClient]> {
  const a = await StoreClient.open(fixture, "a");
  return [a, fixture.handlesMax > 1 ? await StoreClient.open(fixture, "b") : a];
}

const busyRootsAreNotWaitedFor: ContractCase = {
  title: "[S9] a store answers busy for rows under a root that another turn holds, and releases the root at commit and abort",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const [a, b] = await openTwoClients(fixture);
      await a.write(
        changeSet({ puts: [runRow("r1"), taskRow("r1.0"), workerRow("acme/w1")] }),
        changeSet({ puts: [runRow("r2")] }),
      );
      const holder = await a.begin({ rows: ["task/r1.0"] });
      if (fixture.hasConcurrentTurns) {
        const other = await b.begin({ rows: ["run/r1", "task/r1.0", "run/r2", "worker/acme/w1"] });

        assert.deepEqual([other.row("run", "r1"), other.row("task", "r1.0")], ["busy", "busy"]);
        assert.equal((other.row("run", "r2") as RunRow).id, "r2");
        const refused = await b.commit(other, [changeSet({ puts: [runRow("r1", { open: 5 })] })]);
        assert.equal(refused.outcome, "failed");
      }
      assert.equal((await a.commit(holder, [changeSet({ puts: [runRow("r1", { open: 7 })] })])).outcome, "committed");

      assert.equal((await b.readOne<RunRow>("run/r1")).open, 7);
      const aborted = await a.begin({ rows: ["run/r1"] });
      await aborted.abort();
      assert.equal((await b.readOne<RunRow>("run/r1")).open, 7);
    }),
};

const unknownRowsAreAskedFor: ContractCase = {
  title: "[S9] a store's turn can load rows and task lists with loadMore that it did not request at first",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(
        changeSet({ puts: [runRow("r1"), taskRow("r1.0", { needs: 4 }), taskRow("r1.1", { phase: "succeeded" })] }),
      );
      const open = { of: "open", run: "r1", after: "", limit: 5 } as const;

      const tx = await client.begin({ rows: ["run/r1"] });
      if (fixture.hasConcurrentTurns) assert.deepEqual([tx.row("task", "r1.0"), tx.tasks(open)], [undefined, undefined]);
      await tx.loadMore(["task/r1.0", "run/none"], [open]);

      assert.equal((tx.row("task", "r1.0") as TaskRow).needs, 4);
      assert.equal(tx.row("run", "none"), null);
      assert.deepEqual(
        tx.tasks(open)?.map((task) => task.id),
        ["r1.0"],
      );
      assert.equal((await client.commit(tx, [changeSet({ puts: [taskRow("r1.0"), runRow("none")] })])).outcome, "committed");
    }),
};

/** One predecessor of a join has ended: count it, unless the join's run is in other hands. */
async function endPredecessor(client: StoreClient, slot: string): Promise<"busy" | (() => Promise<CommitOutcome>)> {
  const tx = await client.begin({ rows: ["run/r1", "task/r1.9", `task/r1.${slot}`] });
  const join = tx.row("task", "r1.9");
  const mine = tx.row("task", `r1.${slot}`);
  if (join === "busy" || mine === "busy") {
    await tx.abort();
    return "busy";
  }
  const puts = [
    { ...(join as TaskRow), needs: (join as TaskRow).needs - 1 },
    withColumns(mine as TaskRow, { phase: "succeeded" }),
  ];
  return () => client.commit(tx, [changeSet({ puts, logEntries: [logEntry("acme", "run/r1", [`ended ${slot}`])] })]);
}

export const joinsCountEachEnd: ContractCase = {
  title: "[S10] a store counts both ends when two turns finish two predecessors of one join at once",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const [a, b] = await openTwoClients(fixture);
      await a.write(changeSet({ puts: [runRow("r1"), taskRow("r1.0"), taskRow("r1.1"), taskRow("r1.9", { needs: 2 })] }));

      const first = await endPredecessor(a, "0");
      assert.notEqual(first, "busy");
      let second = fixture.hasConcurrentTurns ? await endPredecessor(b, "1") : "busy";
      if (first !== "busy") assert.equal((await first()).outcome, "committed");
      if (second === "busy") second = await endPredecessor(b, "1");
      if (second !== "busy") assert.equal((await second()).outcome, "committed");

      assert.equal((await a.readOne<TaskRow>("task/r1.9")).needs, 0);
      assert.equal((await a.readOne<TaskRow>("task/r1.0")).phase, "succeeded");
      assert.equal((await a.readOne<TaskRow>("task/r1.1")).phase, "succeeded");
    }),
};

const lostAnswersAreSettled: ContractCase = {
  title: "[S11] a store settles a commit whose answer was lost correctly, as committed or absent, and takes turns afterwards",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(changeSet({ puts: [runRow("r0")] }));
      for (const [fate, outcome] of [
        ["unknown-committed", "committed"],
        ["unknown-absent", "absent"],
      ] as const) {
        const turn = client.nextTurn;
        fixture.setCommitOutcome("a", turn, fate);
        const tx = await client.begin({ rows: [`run/${fate}`, "run/r0"] });
        const puts = [runRow(fate), runRow("r0", { client: fate })];
        const answer = await client.commit(tx, [changeSet({ puts, logEntries: [logEntry("acme", `run/${fate}`, ["made"])] })]);

        assert.equal(answer.outcome, "unknown");
        assert.equal(await client.store.settle(turn), outcome);
        assert.equal(await client.store.settle(turn), outcome);
        const [made] = await client.read(`run/${fate}`);
        assert.equal(made === null, outcome === "absent");
        assert.equal((await client.readOne<RunRow>("run/r0")).client, "unknown-committed");
      }
      const { first } = await client.write(
        changeSet({ puts: [runRow("r3")], logEntries: [logEntry("acme", "run/r3", ["made"])] }),
      );
      assert.deepEqual([...first], [["acme", 2]]);
    }),
};

const failedTurnsLeaveNothing: ContractCase = {
  title:
    "[S12] a store writes nothing of a turn that fails without a change set to blame, and the same turn succeeds when retried",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const units = [
        readyChangeSet("r1", "l"),
        changeSet({ puts: [runRow("r2")], logEntries: [logEntry("acme", "run/r2", ["made"])] }),
      ];
      fixture.setCommitOutcome("a", client.nextTurn, "failed");
      const tx = await client.begin({ rows: ["run/r1", "run/r2"] });
      const answer = await client.commit(tx, units);

      assert.equal(answer.outcome, "failed");
      assert.ok(answer.outcome === "failed" && answer.unit === undefined && answer.fault.code === "E.STORE.BUSY");
      assert.deepEqual(await client.read("run/r1", "task/r1.0", "run/r2"), [null, null, null]);
      const { first } = await client.write(...units);
      assert.deepEqual([...first], [["acme", 1]]);
    }),
};

const supersededReplicasAreFenced: ContractCase = {
  title: "[S22] a store refuses the commits of a replica that has been opened again elsewhere, or refuses the second opening",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const old = await StoreClient.open(fixture, "a");
      await old.write(changeSet({ puts: [runRow("r1")] }));
      if (fixture.handlesMax === 1) {
        await assert.rejects(StoreClient.open(fixture, "a"), { code: "E.STORE.IN_USE" });
        await old.write(changeSet({ puts: [runRow("r1", { open: 2 })] }));
        return;
      }
      const late = await old.begin({ rows: ["run/r1"] });
      const heir = await StoreClient.open(fixture, "a");
      const answer = await old.commit(late, [changeSet({ puts: [runRow("r1", { open: 66 })] })]);

      assert.ok(answer.outcome === "failed" && answer.fault.code === "E.STORE.IN_USE");
      assert.equal((await heir.readOne<RunRow>("run/r1")).open, 1);
    }),
};

const mailArrivesOnce: ContractCase = {
  title:
    "[S19] a store hands mail to the epoch it is addressed to, in order, once to a turn that commits and again after one that aborts",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const [a, b] = await openTwoClients(fixture);
      const mail = ["m1", "m2", "m3"].map((id) => ({ replica: b.replica, epoch: b.epoch, id, body: `body of ${id}` }));
      const stray = { replica: b.replica, epoch: b.epoch + 1, id: "m9", body: "for a later epoch" };
      await a.write(changeSet({ roots: [], mail: [...mail, stray] }));
      await a.write(changeSet({ roots: [], mail: mail.slice(0, 1) }));

      const aborted = await b.begin({ mail: 2 });
      await aborted.abort();
      const first = await b.begin({ mail: 2 });
      await b.commit(first, []);
      const second = await b.begin({ mail: 9 });
      await b.commit(second, []);
      const third = await b.begin({ mail: 9 });
      await third.abort();

      assert.deepEqual(aborted.mail, mail.slice(0, 2));
      assert.deepEqual(first.mail, mail.slice(0, 2));
      assert.deepEqual(second.mail, mail.slice(2));
      assert.deepEqual(third.mail, []);
      await b.store.close();
      const heir = await StoreClient.open(fixture, b.replica);
      const later = await heir.begin({ mail: 9 });
      assert.deepEqual(later.mail, [stray]);
      await later.abort();
    }),
};

const taskListsFollowTheirIndex: ContractCase = {
  title: "[S18] a store lists the open tasks of a run after a cursor, the tasks a worker holds, and the head of a queue",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const held = (id: string, worker: string) => taskRow(id, { phase: "leased", worker });
      await client.write(
        changeSet({
          puts: [
            runRow("r1"),
            taskRow("r1.0"),
            held("r1.1", "acme/w1"),
            taskRow("r1.2", { phase: "failed" }),
            taskRow("r1.3"),
            taskRow("r1.4"),
          ],
        }),
        changeSet({
          puts: [
            runRow("r10"),
            held("r10.0", "acme/w1"),
            held("r10.1", "acme/w2"),
            taskRow("r10.2", { phase: "skipped", worker: "acme/w1" }),
          ],
        }),
        readyChangeSet("r3", "l"),
        readyChangeSet("r4", "l", { band: 1 }),
      );
      const lists = [
        { of: "open", run: "r1", after: "", limit: 2 },
        { of: "open", run: "r1", after: "r1.1", limit: 9 },
        { of: "held", worker: "acme/w1", limit: 9 },
        { of: "held", worker: "acme/w1", limit: 1 },
        { of: "line", line: "l", limit: 9 },
        { of: "line", line: "l", limit: 1 },
        { of: "line", line: "none", limit: 1 },
      ] as const;

      const tx = await client.begin({ lists });
      const seen = lists.map((list) => tx.tasks(list)?.map((task) => task.id));
      await tx.abort();

      assert.deepEqual(seen, [["r1.0", "r1.1"], ["r1.3", "r1.4"], ["r1.1", "r10.0"], ["r1.1"], ["r4.0", "r3.0"], ["r4.0"], []]);
    }),
};

export const turnCases: readonly ContractCase[] = [
  busyRootsAreNotWaitedFor,
  unknownRowsAreAskedFor,
  joinsCountEachEnd,
  lostAnswersAreSettled,
  failedTurnsLeaveNothing,
  supersededReplicasAreFenced,
  mailArrivesOnce,
  taskListsFollowTheirIndex,
];
