// The contract on time: deadlines in order, the next one to wake for, and a clock that never goes back.

import assert from "node:assert/strict";
import type { Millis, RowKey } from "@astraflow/engine";
import { keyOf } from "@astraflow/engine";
import { Hand, onStage } from "./hand.ts";
import { keyRow, runRow, taskRow, unit, workerRow } from "./sample-rows.ts";
import type { ContractCase } from "./stage.ts";

async function now(hand: Hand): Promise<Millis> {
  const tx = await hand.begin();
  await tx.abort();
  return tx.now;
}

async function look(hand: Hand, due: number, skip: readonly RowKey[] = []): Promise<[RowKey[], Millis | null]> {
  const tx = await hand.begin({ due, skip });
  await tx.abort();
  return [tx.due.map(keyOf), tx.nextDue];
}

const deadlinesComeInOrder: ContractCase = {
  title:
    "[S16] hands out passed deadlines of all kinds of rows, oldest first, up to the limit, and names the next that has not passed",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      const start = await now(hand);
      await hand.write(
        unit({
          puts: [runRow("r1", { due: start + 40 }), taskRow("r1.0", { due: start + 10 }), taskRow("r1.1", { due: start + 90 })],
        }),
        unit({ puts: [workerRow("acme/w1", { due: start + 20 })] }),
        unit({ puts: [keyRow("acme/k1", { due: start + 30 })] }),
        unit({ puts: [runRow("r2", { due: start + 20 })] }),
      );
      assert.deepEqual(await look(hand, 9), [[], start + 10]);

      stage.advance(30);
      const all: RowKey[] = ["task/r1.0", "run/r2", "worker/acme/w1", "key/acme/k1"];
      assert.deepEqual(await look(hand, 9), [all, start + 40]);
      assert.deepEqual(await look(hand, 2), [all.slice(0, 2), start + 40]);
      assert.deepEqual(await look(hand, 0), [[], start + 40]);
      assert.deepEqual(await look(hand, 2, ["run/r1"]), [all.slice(1, 3), start + 40]);

      await hand.write(
        unit({ puts: [taskRow("r1.0"), runRow("r1", { due: start + 70 })] }),
        unit({ deletes: ["worker/acme/w1"] }),
      );
      assert.deepEqual(await look(hand, 9), [["run/r2", "key/acme/k1"], start + 70]);
      await hand.write(unit({ puts: [runRow("r2", { due: start + 60 }), keyRow("acme/k1")] }));
      assert.deepEqual(await look(hand, 9), [[], start + 60]);
      stage.advance(1_000);
      await hand.write(unit({ puts: [runRow("r1"), taskRow("r1.1")] }), unit({ puts: [runRow("r2")] }));
      assert.deepEqual(await look(hand, 9), [[], null]);
    }),
};

const dueRowsAreTaken: ContractCase = {
  title: "[S16] takes the root of a row that is due, brings the run of a task along, and leaves out roots in other hands",
  run: (make) =>
    onStage(make, async (stage) => {
      const hand = await Hand.open(stage);
      const start = await now(hand);
      await hand.write(
        unit({ puts: [runRow("r1"), taskRow("r1.0", { due: start })] }),
        unit({ puts: [runRow("r2", { due: start })] }),
      );
      if (stage.overlaps) {
        const holder = await hand.begin({ rows: ["run/r1"] });
        assert.deepEqual((await look(hand, 9))[0], ["run/r2"]);
        await holder.abort();
      }

      const tx = await hand.begin({ due: 9 });
      const run = tx.row("run", "r1");
      const answer = await hand.commit(tx, [unit({ puts: [taskRow("r1.0")] }), unit({ puts: [runRow("r2")] })]);

      assert.deepEqual(run, runRow("r1"));
      assert.equal(answer.outcome, "committed");
      assert.deepEqual(await look(hand, 9), [[], null]);
    }),
};

const clocksNeverGoBack: ContractCase = {
  title: "[S17] never tells an earlier time than before, over jumps of the wall clock by an hour and a new start",
  run: (make) =>
    onStage(make, async (stage) => {
      const hourMs = 3_600_000;
      let hand = await Hand.open(stage);
      let last = await now(hand);
      const step = async (ms: Millis, slackMs: Millis) => {
        stage.advance(ms);
        const reading = await now(hand);
        const passed = reading - last;
        assert.ok(passed >= 0, `the clock went back by ${-passed} ms`);
        assert.ok(Math.abs(passed - ms) <= slackMs, `${ms} ms passed and the clock moved by ${passed}`);
        last = reading;
      };
      await step(1_000, 1);
      stage.jumpWall(hourMs);
      await step(1_000, 51);
      stage.jumpWall(-2 * hourMs);
      await step(1_000, 51);
      await step(0, 1);
      await hand.write(unit({ puts: [runRow("r1")] }));
      await hand.store.close();

      stage.jumpWall(-10 * hourMs);
      hand = await Hand.open(stage);
      assert.ok((await now(hand)) >= last, "the clock went back over a new start");
      last = await now(hand);
      await step(1_000, 51);
    }),
};

export const timeCases: readonly ContractCase[] = [deadlinesComeInOrder, dueRowsAreTaken, clocksNeverGoBack];
