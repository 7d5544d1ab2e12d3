// Units that rely on a worker being as the engine's fleet has it: many turns may at once, and none while another is changing it.

import assert from "node:assert/strict";
import type { ChangeSet, RunRow, WorkerRow } from "@astraflow/engine";
import { changeSet, runRow, workerRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

const worker = "acme/w1";

/** A unit on a run of its own that grants to the worker as it was in epoch 7. */
const grantChangeSet = (run: string, epoch = 7): ChangeSet =>
  changeSet({ puts: [runRow(run, { open: 9 })], workerPreconditions: [{ worker, epoch }] });

const changedWorkersFailTheCommit: ContractCase = {
  title:
    "[S60] a store writes nothing of a turn that relies on a worker which is away, lost, draining, in another epoch or unknown, and names it",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(changeSet({ puts: [runRow("r1"), runRow("r2")] }));
      const changes: (Partial<WorkerRow> | null)[] = [
        null,
        { phase: "away" },
        { phase: "lost" },
        { draining: true },
        { epoch: 8 },
      ];
      for (const change of changes) {
        if (change !== null) await client.write(changeSet({ puts: [workerRow(worker, change)] }));

        const tx = await client.begin({ rows: ["run/r1", "run/r2"] });
        const answer = await client.commit(tx, [changeSet({ puts: [runRow("r2", { open: 9 })] }), grantChangeSet("r1")]);

        assert.equal(answer.outcome, "failed", `a worker that ${JSON.stringify(change)} was relied on`);
        assert.deepEqual(answer.outcome === "failed" && [answer.unit, answer.changedWorkers], [undefined, [worker]]);
        assert.deepEqual(
          (await client.read("run/r1", "run/r2")).map((row) => (row as RunRow).open),
          [1, 1],
        );
      }
      await client.write(changeSet({ puts: [workerRow(worker)] }));

      const tx = await client.begin({ rows: ["run/r1"] });
      assert.equal((await client.commit(tx, [grantChangeSet("r1")])).outcome, "committed");
      assert.equal((await client.readOne<RunRow>("run/r1")).open, 9);
    }),
};

const turnsMayRelyOnOneWorker: ContractCase = {
  title: "[S61] a store lets several turns rely on one worker at once, and none on a worker that another turn holds",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      if (!fixture.hasConcurrentTurns) return;
      const [a, b] = [await StoreClient.open(fixture, "a"), await StoreClient.open(fixture, "b")];
      await a.write(changeSet({ puts: [runRow("r1"), runRow("r2"), runRow("r3"), workerRow(worker)] }));
      const first = await a.begin({ rows: ["run/r1"] });
      const second = await b.begin({ rows: ["run/r2"] });
      const release = fixture.delayCommit("a", a.nextTurn);

      const held = a.commit(first, [grantChangeSet("r1")]);
      assert.equal((await b.commit(second, [grantChangeSet("r2")])).outcome, "committed");
      release();
      assert.equal((await held).outcome, "committed");

      const changing = await b.begin({ rows: [`worker/${worker}`] });
      const third = await a.begin({ rows: ["run/r3"] });
      const refused = await a.commit(third, [grantChangeSet("r3")]);
      assert.deepEqual(refused.outcome === "failed" && refused.changedWorkers, [worker]);
      assert.equal(
        (await b.commit(changing, [changeSet({ puts: [workerRow(worker, { draining: true })] })])).outcome,
        "committed",
      );
      assert.equal((await a.readOne<RunRow>("run/r3")).open, 1);
    }),
};

const turnMayRelyOnWorkerItHolds: ContractCase = {
  title: "[S62] a store lets a turn rely on a worker that the turn itself holds",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(changeSet({ puts: [runRow("r1"), workerRow(worker)] }));

      const tx = await client.begin({ rows: ["run/r1", `worker/${worker}`] });
      const answer = await client.commit(tx, [changeSet({ puts: [workerRow(worker, { seenAt: 9_000 })] }), grantChangeSet("r1")]);

      assert.equal(answer.outcome, "committed");
      assert.equal((await client.readOne<WorkerRow>(`worker/${worker}`)).seenAt, 9_000);
    }),
};

const addressesTakeNoRoot: ContractCase = {
  title: "[S63] a store returns a worker's address without locking the worker, even while another turn holds it",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(changeSet({ puts: [workerRow(worker)] }));
      const holder = fixture.hasConcurrentTurns ? await client.begin({ rows: [`worker/${worker}`] }) : null;
      const looker = await client.begin();
      if (fixture.hasConcurrentTurns) assert.equal(looker.peekWorker(worker), undefined);

      await looker.loadMore([], [], [worker, "acme/nobody"]);

      assert.deepEqual([looker.peekWorker(worker)?.replica, looker.peekWorker("acme/nobody")], ["a", null]);
      await looker.abort();
      if (holder === null) return;
      const answer = await client.commit(holder, [changeSet({ puts: [workerRow(worker, { seenAt: 9_000 })] })]);
      assert.equal(answer.outcome, "committed");
    }),
};

export const workerRelianceCases: readonly ContractCase[] = [
  changedWorkersFailTheCommit,
  turnsMayRelyOnOneWorker,
  turnMayRelyOnWorkerItHolds,
  addressesTakeNoRoot,
];
