// The contract on turns side by side: roots, joins, lost answers, replicas that come back, mail. Stores that take one turn at a time
// play the same scenes one after the other.

import assert from "node:assert/strict";
import type { CommitOutcome, RunRow, TaskRow } from "@astraflow/engine";
import { Hand, onStage } from "./hand.ts";
import { happening, readyUnit, runRow, taskRow, unit, workerRow } from "./sample-rows.ts";
import type { ContractCase, Stage } from "./stage.ts";

/** Handles for two schedulers where the store allows it, one otherwise. */
async function openTwo(stage: Stage): Promise<[Hand, Hand]> {
  const a = await Hand.open(stage, "a");
  return [a, stage.handles > 1 ? await Hand.open(stage, "b") : a];
}

const busyRootsAreNotWaitedFor: ContractCase = {
  title: "[S9] answers busy for what stands under a root that another turn holds, and lets go of it at commit and abort",
  run: (make) =>
    onStage(make, async (stage) => {
      const [a, b] = await openTwo(stage);
      await a.write(unit({ puts: [runRow("r1"), taskRow("r1.0"), workerRow("acme/w1")] }), unit({ puts: [runRow("r2")] }));
      const holder = await a.begin({ rows: ["task/r1.0"] });
      if (stage.overlaps) {
        const other = await b.begin({ rows: ["run/r1", "task/r1.0", "run/r2", "worker/acme/w1"] });

        assert.deepEqual([other.row("run", "r1"), other.row("task", "r1.0")], ["busy", "busy"]);
        assert.equal((other.row("run", "r2") as RunRow).id, "r2");
        const refused = await b.commit(other, [unit({ puts: [runRow("r1", { open: 5 })] })]);
        assert.equal(refused.outcome, "failed");
      }
      assert.equal((await a.commit(holder, [unit({ puts: [runRow("r1", { open: 7 })] })])).outcome, "committed");

      assert.equal((await b.readOne<RunRow>("run/r1")).open, 7);
      const aborted = await a.begin({ rows: ["run/r1"] });
      await aborted.abort();
      assert.equal((await b.readOne<RunRow>("run/r1")).open, 7);
    }),
};

const unknownRowsAreAskedFor: ContractCase = {
  title: "[S9] loads with `more` what a turn did not ask for at first, under the same instant",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      await hand.write(unit({ puts: [runRow("r1"), taskRow("r1.0", { needs: 4 }), taskRow("r1.1", { phase: "succeeded" })] }));
      const open = { of: "open", run: "r1", after: "", limit: 5 } as const;

      const tx = await hand.begin({ rows: ["run/r1"] });
      if (stage.overlaps) assert.deepEqual([tx.row("task", "r1.0"), tx.tasks(open)], [undefined, undefined]);
      await tx.loadMore(["task/r1.0", "run/none"], [open]);

      assert.equal((tx.row("task", "r1.0") as TaskRow).needs, 4);
      assert.equal(tx.row("run", "none"), null);
      assert.deepEqual(
        tx.tasks(open)?.map((task) => task.id),
        ["r1.0"],
      );
      assert.equal((await hand.commit(tx, [unit({ puts: [taskRow("r1.0"), runRow("none")] })])).outcome, "committed");
    }),
};

/** One predecessor of a join has ended: count it, unless the join's run is in other hands. */
async function endPredecessor(hand: Hand, slot: string): Promise<"busy" | (() => Promise<CommitOutcome>)> {
  const tx = await hand.begin({ rows: ["run/r1", "task/r1.9", `task/r1.${slot}`] });
  const join = tx.row("task", "r1.9");
  const mine = tx.row("task", `r1.${slot}`);
  if (join === "busy" || mine === "busy") {
    await tx.abort();
    return "busy";
  }
  const puts = [
    { ...(join as TaskRow), needs: (join as TaskRow).needs - 1 },
    { ...(mine as TaskRow), phase: "succeeded" as const },
  ];
  return () => hand.commit(tx, [unit({ puts, logEntries: [happening("acme", "run/r1", [`ended ${slot}`])] })]);
}

export const joinsCountEachEnd: ContractCase = {
  title: "[S10] counts both ends when two turns finish two predecessors of one join at once",
  run: (make) =>
    onStage(make, async (stage) => {
      const [a, b] = await openTwo(stage);
      await a.write(unit({ puts: [runRow("r1"), taskRow("r1.0"), taskRow("r1.1"), taskRow("r1.9", { needs: 2 })] }));

      const first = await endPredecessor(a, "0");
      assert.notEqual(first, "busy");
      let second = stage.overlaps ? await endPredecessor(b, "1") : "busy";
      if (first !== "busy") assert.equal((await first()).outcome, "committed");
      if (second === "busy") second = await endPredecessor(b, "1");
      if (second !== "busy") assert.equal((await second()).outcome, "committed");

      assert.equal((await a.readOne<TaskRow>("task/r1.9")).needs, 0);
      assert.equal((await a.readOne<TaskRow>("task/r1.0")).phase, "succeeded");
      assert.equal((await a.readOne<TaskRow>("task/r1.1")).phase, "succeeded");
    }),
};

const lostAnswersAreSettled: ContractCase = {
  title: "[S11] settles a commit whose answer was lost exactly, both ways, and goes on afterwards",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      await hand.write(unit({ puts: [runRow("r0")] }));
      for (const [fate, outcome] of [
        ["unknown-committed", "committed"],
        ["unknown-absent", "absent"],
      ] as const) {
        const turn = hand.nextTurn;
        stage.doom("a", turn, fate);
        const tx = await hand.begin({ rows: [`run/${fate}`, "run/r0"] });
        const puts = [runRow(fate), runRow("r0", { client: fate })];
        const answer = await hand.commit(tx, [unit({ puts, logEntries: [happening("acme", `run/${fate}`, ["made"])] })]);

        assert.equal(answer.outcome, "unknown");
        assert.equal(await hand.store.settle(turn), outcome);
        assert.equal(await hand.store.settle(turn), outcome);
        const [made] = await hand.read(`run/${fate}`);
        assert.equal(made === null, outcome === "absent");
        assert.equal((await hand.readOne<RunRow>("run/r0")).client, "unknown-committed");
      }
      const { first } = await hand.write(unit({ puts: [runRow("r3")], logEntries: [happening("acme", "run/r3", ["made"])] }));
      assert.deepEqual([...first], [["acme", 2]]);
    }),
};

const failedTurnsLeaveNothing: ContractCase = {
  title: "[S12] writes nothing of a turn that fails without a unit to blame, and the same turn goes through when tried again",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      const units = [readyUnit("r1", "l"), unit({ puts: [runRow("r2")], logEntries: [happening("acme", "run/r2", ["made"])] })];
      stage.doom("a", hand.nextTurn, "failed");
      const tx = await hand.begin({ rows: ["run/r1", "run/r2"] });
      const answer = await hand.commit(tx, units);

      assert.equal(answer.outcome, "failed");
      assert.ok(answer.outcome === "failed" && answer.unit === undefined && answer.fault.code === "E.STORE.BUSY");
      assert.deepEqual(await hand.read("run/r1", "task/r1.0", "run/r2"), [null, null, null]);
      const { first } = await hand.write(...units);
      assert.deepEqual([...first], [["acme", 1]]);
    }),
};

const zombiesAreFenced: ContractCase = {
  title: "[S22] refuses the commits of a replica that has been opened again elsewhere",
  run: (make) =>
    onStage(make, async (stage) => {
      const old = await Hand.open(stage, "a");
      await old.write(unit({ puts: [runRow("r1")] }));
      if (stage.handles === 1) {
        await assert.rejects(Hand.open(stage, "a"), { code: "E.STORE.IN_USE" });
        await old.write(unit({ puts: [runRow("r1", { open: 2 })] }));
        return;
      }
      const late = await old.begin({ rows: ["run/r1"] });
      const heir = await Hand.open(stage, "a");
      const answer = await old.commit(late, [unit({ puts: [runRow("r1", { open: 66 })] })]);

      assert.ok(answer.outcome === "failed" && answer.fault.code === "E.STORE.IN_USE");
      assert.equal((await heir.readOne<RunRow>("run/r1")).open, 1);
    }),
};

const mailArrivesOnce: ContractCase = {
  title: "[S19] hands mail to the epoch it is for, in order, once a turn that read it is committed and again when it was not",
  run: (make) =>
    onStage(make, async (stage) => {
      const [a, b] = await openTwo(stage);
      const mail = ["m1", "m2", "m3"].map((id) => ({ replica: b.replica, epoch: b.epoch, id, body: `body of ${id}` }));
      const stray = { replica: b.replica, epoch: b.epoch + 1, id: "m9", body: "for a later epoch" };
      await a.write(unit({ roots: [], mail: [...mail, stray] }));
      await a.write(unit({ roots: [], mail: mail.slice(0, 1) }));

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
      const heir = await Hand.open(stage, b.replica);
      const later = await heir.begin({ mail: 9 });
      assert.deepEqual(later.mail, [stray]);
      await later.abort();
    }),
};

const listsFollowTheirIndex: ContractCase = {
  title: "[S18] lists the open tasks of a run after a cursor, the tasks a worker holds, and the head of a line",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      const held = (id: string, worker: string) => taskRow(id, { phase: "leased", worker });
      await hand.write(
        unit({
          puts: [
            runRow("r1"),
            taskRow("r1.0"),
            held("r1.1", "acme/w1"),
            taskRow("r1.2", { phase: "failed" }),
            taskRow("r1.3"),
            taskRow("r1.4"),
          ],
        }),
        unit({
          puts: [
            runRow("r10"),
            held("r10.0", "acme/w1"),
            held("r10.1", "acme/w2"),
            taskRow("r10.2", { phase: "skipped", worker: "acme/w1" }),
          ],
        }),
        readyUnit("r3", "l"),
        readyUnit("r4", "l", { band: 1 }),
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

      const tx = await hand.begin({ lists });
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
  zombiesAreFenced,
  mailArrivesOnce,
  listsFollowTheirIndex,
];
