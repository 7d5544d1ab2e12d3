// Units that rely on a worker being what the engine's floor says: many turns may at once, and none while another is changing it.

import assert from "node:assert/strict";
import type { ChangeSet, RunRow, WorkerRow } from "@astraflow/engine";
import { Hand, onStage } from "./hand.ts";
import { runRow, unit, workerRow } from "./sample-rows.ts";
import type { ContractCase } from "./stage.ts";

const worker = "acme/w1";

/** A unit on a run of its own that grants to the worker as it was in epoch 7. */
const grant = (run: string, epoch = 7): ChangeSet =>
  unit({ puts: [runRow(run, { open: 9 })], workerPreconditions: [{ worker, epoch }] });

const changedWorkersRefuse: ContractCase = {
  title:
    "[S60] writes nothing of a turn that relies on a worker which is away, draining, in another epoch or unknown, and names it",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      await hand.write(unit({ puts: [runRow("r1"), runRow("r2")] }));
      const changes: (Partial<WorkerRow> | null)[] = [
        null,
        { phase: "away" },
        { phase: "lost" },
        { draining: true },
        { epoch: 8 },
      ];
      for (const change of changes) {
        if (change !== null) await hand.write(unit({ puts: [workerRow(worker, change)] }));

        const tx = await hand.begin({ rows: ["run/r1", "run/r2"] });
        const said = await hand.commit(tx, [unit({ puts: [runRow("r2", { open: 9 })] }), grant("r1")]);

        assert.equal(said.outcome, "failed", `a worker that ${JSON.stringify(change)} was relied on`);
        assert.deepEqual(said.outcome === "failed" && [said.unit, said.changedWorkers], [undefined, [worker]]);
        assert.deepEqual(
          (await hand.read("run/r1", "run/r2")).map((row) => (row as RunRow).open),
          [1, 1],
        );
      }
      await hand.write(unit({ puts: [workerRow(worker)] }));

      const tx = await hand.begin({ rows: ["run/r1"] });
      assert.equal((await hand.commit(tx, [grant("r1")])).outcome, "committed");
      assert.equal((await hand.readOne<RunRow>("run/r1")).open, 9);
    }),
};

const manyMayRely: ContractCase = {
  title: "[S61] lets several turns rely on one worker at once, and none on a worker that another turn has in hand",
  run: (make) =>
    onStage(make, async (stage) => {
      if (!stage.overlaps) return;
      const [a, b] = [await Hand.open(stage, "a"), await Hand.open(stage, "b")];
      await a.write(unit({ puts: [runRow("r1"), runRow("r2"), runRow("r3"), workerRow(worker)] }));
      const first = await a.begin({ rows: ["run/r1"] });
      const second = await b.begin({ rows: ["run/r2"] });
      const release = stage.hold("a", a.nextTurn);

      const held = a.commit(first, [grant("r1")]);
      assert.equal((await b.commit(second, [grant("r2")])).outcome, "committed");
      release();
      assert.equal((await held).outcome, "committed");

      const changing = await b.begin({ rows: [`worker/${worker}`] });
      const third = await a.begin({ rows: ["run/r3"] });
      const refused = await a.commit(third, [grant("r3")]);
      assert.deepEqual(refused.outcome === "failed" && refused.changedWorkers, [worker]);
      assert.equal((await b.commit(changing, [unit({ puts: [workerRow(worker, { draining: true })] })])).outcome, "committed");
      assert.equal((await a.readOne<RunRow>("run/r3")).open, 1);
    }),
};

const ownWorkerMayChange: ContractCase = {
  title: "[S62] lets a turn rely on a worker that it has in hand itself",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      await hand.write(unit({ puts: [runRow("r1"), workerRow(worker)] }));

      const tx = await hand.begin({ rows: ["run/r1", `worker/${worker}`] });
      const said = await hand.commit(tx, [unit({ puts: [workerRow(worker, { seenAt: 9_000 })] }), grant("r1")]);

      assert.equal(said.outcome, "committed");
      assert.equal((await hand.readOne<WorkerRow>(`worker/${worker}`)).seenAt, 9_000);
    }),
};

const addressesTakeNothing: ContractCase = {
  title: "[S63] tells a worker's address without taking it, also of one that another turn has in hand",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      await hand.write(unit({ puts: [workerRow(worker)] }));
      const holder = stage.overlaps ? await hand.begin({ rows: [`worker/${worker}`] }) : null;
      const looker = await hand.begin();
      if (stage.overlaps) assert.equal(looker.peekWorker(worker), undefined);

      await looker.loadMore([], [], [worker, "acme/nobody"]);

      assert.deepEqual([looker.peekWorker(worker)?.replica, looker.peekWorker("acme/nobody")], ["a", null]);
      await looker.abort();
      if (holder === null) return;
      const said = await hand.commit(holder, [unit({ puts: [workerRow(worker, { seenAt: 9_000 })] })]);
      assert.equal(said.outcome, "committed");
    }),
};

export const relianceCases: readonly ContractCase[] = [
  changedWorkersRefuse,
  manyMayRely,
  ownWorkerMayChange,
  addressesTakeNothing,
];
