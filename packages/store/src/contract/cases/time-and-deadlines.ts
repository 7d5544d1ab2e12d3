// The contract on time: deadlines in order, the next one to wake for, and a clock that never goes back.

import assert from "node:assert/strict";
import type { Millis, RowKey } from "@astraflow/engine";
import { keyOf } from "@astraflow/engine";
import { changeSet, keyRow, runRow, taskRow, workerRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

async function readStoreTime(client: StoreClient): Promise<Millis> {
  const tx = await client.begin();
  await tx.abort();
  return tx.now;
}

async function readDueKeys(client: StoreClient, due: number, skip: readonly RowKey[] = []): Promise<[RowKey[], Millis | null]> {
  const tx = await client.begin({ due, skip });
  await tx.abort();
  return [tx.due.map(keyOf), tx.nextDue];
}

const deadlinesComeInOrder: ContractCase = {
  title:
    "[S16] a store hands out passed deadlines of all kinds of rows, oldest first, up to a limit, and returns the next that has not passed",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const start = await readStoreTime(client);
      await client.write(
        changeSet({
          puts: [runRow("r1", { due: start + 40 }), taskRow("r1.0", { due: start + 10 }), taskRow("r1.1", { due: start + 90 })],
        }),
        changeSet({ puts: [workerRow("acme/w1", { due: start + 20 })] }),
        changeSet({ puts: [keyRow("acme/k1", { due: start + 30 })] }),
        changeSet({ puts: [runRow("r2", { due: start + 20 })] }),
      );
      assert.deepEqual(await readDueKeys(client, 9), [[], start + 10]);

      fixture.advance(30);
      const all: RowKey[] = ["task/r1.0", "run/r2", "worker/acme/w1", "key/acme/k1"];
      assert.deepEqual(await readDueKeys(client, 9), [all, start + 40]);
      assert.deepEqual(await readDueKeys(client, 2), [all.slice(0, 2), start + 40]);
      assert.deepEqual(await readDueKeys(client, 0), [[], start + 40]);
      assert.deepEqual(await readDueKeys(client, 2, ["run/r1"]), [all.slice(1, 3), start + 40]);

      await client.write(
        changeSet({ puts: [taskRow("r1.0"), runRow("r1", { due: start + 70 })] }),
        changeSet({ deletes: ["worker/acme/w1"] }),
      );
      assert.deepEqual(await readDueKeys(client, 9), [["run/r2", "key/acme/k1"], start + 70]);
      await client.write(changeSet({ puts: [runRow("r2", { due: start + 60 }), keyRow("acme/k1")] }));
      assert.deepEqual(await readDueKeys(client, 9), [[], start + 60]);
      fixture.advance(1_000);
      await client.write(changeSet({ puts: [runRow("r1"), taskRow("r1.1")] }), changeSet({ puts: [runRow("r2")] }));
      assert.deepEqual(await readDueKeys(client, 9), [[], null]);
    }),
};

const goneDeadlinesWakeNobody: ContractCase = {
  title: "[S16] a store does not return the next deadline of a row that has lost it or was deleted, nor one that has moved",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const start = await readStoreTime(client);
      const readNext = async () => (await readDueKeys(client, 9))[1];
      await client.write(
        changeSet({ puts: [runRow("r1", { due: start + 10_000 })] }),
        changeSet({ puts: [runRow("r2", { due: start + 20_000 })] }),
        changeSet({ puts: [runRow("r3", { due: start + 30_000 })] }),
        changeSet({ puts: [runRow("r4", { due: start + 50_000 })] }),
      );
      assert.equal(await readNext(), start + 10_000);

      await client.write(changeSet({ puts: [runRow("r1")] }));
      assert.equal(await readNext(), start + 20_000);
      await client.write(changeSet({ deletes: ["run/r2"] }));
      assert.equal(await readNext(), start + 30_000);
      await client.write(changeSet({ puts: [runRow("r3", { due: start + 60_000 })] }));
      assert.equal(await readNext(), start + 50_000);
      await client.write(changeSet({ puts: [runRow("r3")] }), changeSet({ deletes: ["run/r4"] }));
      assert.equal(await readNext(), null);
    }),
};

const dueRowsAreTaken: ContractCase = {
  title: "[S16] a store locks the root of a due row, loads the run of a due task, and leaves out roots that other turns hold",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const start = await readStoreTime(client);
      await client.write(
        changeSet({ puts: [runRow("r1"), taskRow("r1.0", { due: start })] }),
        changeSet({ puts: [runRow("r2", { due: start })] }),
      );
      if (fixture.hasConcurrentTurns) {
        const holder = await client.begin({ rows: ["run/r1"] });
        assert.deepEqual((await readDueKeys(client, 9))[0], ["run/r2"]);
        await holder.abort();
      }

      const tx = await client.begin({ due: 9 });
      const run = tx.row("run", "r1");
      const answer = await client.commit(tx, [changeSet({ puts: [taskRow("r1.0")] }), changeSet({ puts: [runRow("r2")] })]);

      assert.deepEqual(run, runRow("r1"));
      assert.equal(answer.outcome, "committed");
      assert.deepEqual(await readDueKeys(client, 9), [[], null]);
    }),
};

const clocksNeverGoBack: ContractCase = {
  title: "[S17] a store's clock never goes back, over wall clock jumps of an hour and more and a reopening",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const hourMs = 3_600_000;
      let client = await StoreClient.open(fixture);
      let last = await readStoreTime(client);
      const step = async (ms: Millis, slackMs: Millis) => {
        fixture.advance(ms);
        const reading = await readStoreTime(client);
        const passed = reading - last;
        assert.ok(passed >= 0, `the clock went back by ${-passed} ms`);
        assert.ok(Math.abs(passed - ms) <= slackMs, `${ms} ms passed and the clock moved by ${passed}`);
        last = reading;
      };
      await step(1_000, 1);
      fixture.jumpWallClock(hourMs);
      await step(1_000, 51);
      fixture.jumpWallClock(-2 * hourMs);
      await step(1_000, 51);
      await step(0, 1);
      await client.write(changeSet({ puts: [runRow("r1")] }));
      await client.store.close();

      fixture.jumpWallClock(-10 * hourMs);
      client = await StoreClient.open(fixture);
      assert.ok((await readStoreTime(client)) >= last, "the clock went back over a new start");
      last = await readStoreTime(client);
      await step(1_000, 51);
    }),
};

export const timeCases: readonly ContractCase[] = [
  deadlinesComeInOrder,
  goneDeadlinesWakeNobody,
  dueRowsAreTaken,
  clocksNeverGoBack,
];
