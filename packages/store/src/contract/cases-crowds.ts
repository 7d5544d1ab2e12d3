// The contract on schedulers at work at one moment: loops that run side by side and meet in the same runs, lines and logs. Stores
// that take one turn at a time play the same loops one after the other.

import assert from "node:assert/strict";
import type { ChangeSet, DocRow, RowKey, TaskRow, TurnTransaction } from "@astraflow/engine";
import { Hand, onStage } from "./hand.ts";
import { docRow, happening, readyUnit, runRow, taskRow, unit } from "./sample-rows.ts";
import type { ContractCase, Stage } from "./stage.ts";

const turnsMax = 10_000;

async function openAll(stage: Stage): Promise<Hand[]> {
  const hands: Hand[] = [];
  for (let at = 0; at < stage.handles; at++) hands.push(await Hand.open(stage, `h${at}`));
  return hands;
}

async function together(stage: Stage, jobs: readonly (() => Promise<void>)[]): Promise<void> {
  if (stage.overlaps) await Promise.all(jobs.map((job) => job()));
  else for (const job of jobs) await job();
}

/** Turns until one is committed. `decide` answers null when what it needs is busy: it is asked again in a new turn. */
async function write(
  hand: Hand,
  rows: readonly RowKey[],
  decide: (tx: TurnTransaction) => readonly ChangeSet[] | null,
): Promise<void> {
  for (let tries = 0; tries < turnsMax; tries++) {
    const tx = await hand.begin({ rows });
    const units = decide(tx);
    if (units === null) {
      await tx.abort();
      continue;
    }
    const answer = await hand.commit(tx, units);
    if (answer.outcome === "committed") return;
    assert.ok(answer.outcome === "failed" && answer.unit === undefined, JSON.stringify(answer));
  }
  assert.fail(`a turn on ${rows.join(", ")} was not committed in ${turnsMax} tries`);
}

const joins = 25;

const joinsAreReadiedOnce: ContractCase = {
  title: "[S10] lets exactly one scheduler ready a join whose predecessors several of them end at the same moment",
  run: (make) =>
    onStage(make, async (stage) => {
      const hands = await openAll(stage);
      const width = hands.length;
      const names = Array.from({ length: joins }, (_, at) => `r${at}`);
      for (const run of names) {
        const ends = hands.map((_, slot) => taskRow(`${run}.${slot}`, { phase: "leased" }));
        await hands[0]?.write(unit({ puts: [runRow(run), ...ends, taskRow(`${run}.9`, { needs: width })] }));
      }

      await together(
        stage,
        hands.map((hand, slot) => async () => {
          for (const run of names)
            await write(hand, [`run/${run}`, `task/${run}.${slot}`, `task/${run}.9`], (tx) => {
              const join = tx.row("task", `${run}.9`);
              if (join === "busy") return null;
              const needs = (join as TaskRow).needs - 1;
              const puts = [
                { ...(join as TaskRow), needs, ...(needs === 0 ? { phase: "ready" as const, line: "l" } : {}) },
                { ...(tx.row("task", `${run}.${slot}`) as TaskRow), phase: "succeeded" as const },
              ];
              const ready = needs === 0 ? [{ task: `${run}.9`, tenant: "acme", cost: 1 }] : [];
              return [
                unit({
                  puts,
                  enqueued: ready,
                  logEntries: [happening("acme", `run/${run}`, needs === 0 ? ["readied"] : ["counted"])],
                }),
              ];
            });
        }),
      );

      const [reader] = hands;
      const log = (await reader?.log("acme")) ?? [];
      const readied = log.filter((entry) => entry.type === "readied").map((entry) => entry.subject);
      assert.deepEqual(readied.sort(), names.map((run) => `run/${run}`).sort());
      assert.equal(log.length, joins * width);
      const tx = await reader?.begin({ claims: [{ line: "l", limit: 99 }] });
      assert.equal(tx?.claimed.get("l")?.length, joins);
      await tx?.abort();
    }),
};

const factsPerScheduler = 40;

const tailsMissNothing: ContractCase = {
  title: "[S6] lets a reader that follows the log see every fact once and in order while schedulers commit side by side",
  run: (make) =>
    onStage(make, async (stage) => {
      const hands = await openAll(stage);
      const expected = hands.length * factsPerScheduler;
      const seen: string[] = [];
      const [reader] = hands;
      const poll = async () => {
        const page = await reader?.store.events({ tenant: "acme", after: seen.length, limit: 7 });
        for (const entry of page?.items ?? []) {
          assert.equal(entry.position, seen.length + 1, `position ${entry.position} came after ${seen.length} facts`);
          seen.push(entry.type);
        }
      };
      const writers = hands.map((hand) => async () => {
        for (let at = 0; at < factsPerScheduler; at++) {
          const run = `${hand.replica}-${at}`;
          await write(hand, [`run/${run}`], () => [
            unit({ puts: [runRow(run)], logEntries: [happening("acme", `run/${run}`, [run])] }),
          ]);
          if (!stage.overlaps) await poll();
        }
      });

      // Where turns overlap, the reader polls beside the writers; it stops once it has seen all there will ever be.
      const tail = async () => {
        for (let polls = 0; seen.length < expected && polls < turnsMax; polls++) await poll();
      };
      await together(stage, [...writers, tail]);

      const all = hands.flatMap((hand) => Array.from({ length: factsPerScheduler }, (_, at) => `${hand.replica}-${at}`));
      assert.deepEqual([...seen].sort(), all.sort());
    }),
};

const claimedTasks = 90;

const claimsInLoopsAreSingle: ContractCase = {
  title:
    "[S13] gives each task of a line to one scheduler at a time, under a fence that only rises, while several claim in loops",
  run: (make) =>
    onStage(make, async (stage) => {
      const hands = await openAll(stage);
      const runs = Array.from({ length: claimedTasks }, (_, at) => `r${at}`);
      await hands[0]?.write(...runs.map((run) => readyUnit(run, "l")));
      let left = claimedTasks;

      await together(
        stage,
        hands.map((hand) => async () => {
          for (let turns = 0; left > 0 && turns < turnsMax; turns++) {
            const tx = await hand.begin({ claims: [{ line: "l", limit: 4 }] });
            const claimed = tx.claimed.get("l") ?? [];
            const answer = await hand.commit(
              tx,
              claimed.map((task) => grant(task)),
            );
            assert.equal(answer.outcome, "committed", JSON.stringify(answer));
            left -= claimed.filter((task) => task.attempt === 1).length;
          }
        }),
      );

      assert.equal(left, 0);
      for (const run of runs) {
        const task = await hands[0]?.readOne<TaskRow>(`task/${run}.0`);
        assert.deepEqual([task?.phase, task?.attempt, task?.fence], ["leased", 2, 2], run);
      }
      const log = (await hands[0]?.log("acme")) ?? [];
      for (const run of runs) {
        const fences = log.filter((entry) => entry.subject === `run/${run}`).map((entry) => entry.type);
        assert.deepEqual(fences, ["granted under 1", "granted under 2"], run);
      }
    }),
};

/** The first grant gives the task back to its line at once, so that it is claimed a second time, by anybody. */
function grant(task: TaskRow): ChangeSet {
  const next = { ...task, attempt: task.attempt + 1, fence: task.fence + 1 };
  const happenings = [happening("acme", `run/${task.run}`, [`granted under ${next.fence}`])];
  if (next.attempt === 2) return unit({ puts: [{ ...next, phase: "leased", line: null, rank: null }], logEntries: happenings });
  return unit({
    puts: [{ ...next, rank: null }],
    enqueued: [{ task: task.id, tenant: "acme", cost: 1 }],
    logEntries: happenings,
  });
}

const writesPerScheduler = 15;

const docsAreCountedOnce: ContractCase = {
  title: "[S72] lets several schedulers make one document and raise it in loops, each write on what the one before it left",
  run: (make) =>
    onStage(make, async (stage) => {
      const hands = await openAll(stage);
      const id = "acme/workflow/shared";

      await together(
        stage,
        hands.map((hand) => async () => {
          for (let at = 0; at < writesPerScheduler; at++)
            await write(hand, [`doc/${id}`, `run/r${at}`], (tx) => {
              const doc = tx.row("doc", id);
              if (doc === "busy" || tx.row("run", `r${at}`) === "busy") return null;
              const { rev, body } = (doc ?? { rev: 0, body: "" }) as DocRow;
              const next = docRow("workflow", "shared", { rev: rev + 1, body: `${body}${hand.replica} ` });
              const puts = [next, docRow("letter", `r${at}.0`, { body: hand.replica }), runRow(`r${at}`)];
              return [unit({ puts, logEntries: [happening("acme", `doc/${id}`, [`${rev + 1}`])] })];
            });
        }),
      );

      const doc = await (hands[0] as Hand).readOne<DocRow>(`doc/${id}`);
      const writes = hands.length * writesPerScheduler;
      assert.deepEqual([doc.rev, doc.body.split(" ").length - 1], [writes, writes]);
      for (const hand of hands) assert.equal(doc.body.split(`${hand.replica} `).length - 1, writesPerScheduler);
      const log = await (hands[0] as Hand).log("acme");
      assert.deepEqual(
        log.map((entry) => entry.type),
        Array.from({ length: writes }, (_, at) => `${at + 1}`),
      );
      const { items } = await (hands[0] as Hand).store.page({ page: "docs", tenant: "acme", collection: "letter", limit: 99 });
      assert.equal(items.length, writesPerScheduler);
    }),
};

export const crowdCases: readonly ContractCase[] = [
  joinsAreReadiedOnce,
  tailsMissNothing,
  claimsInLoopsAreSingle,
  docsAreCountedOnce,
];
