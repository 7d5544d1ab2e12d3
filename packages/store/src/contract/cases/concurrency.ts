// The contract on schedulers at work at one moment: loops that run side by side and meet in the same runs, lines and logs. Stores
// that take one turn at a time play the same loops one after the other.

import assert from "node:assert/strict";
import type { ChangeSet, DocRow, RemovalOutcome, RowKey, TaskRow, TurnTransaction } from "@astraflow/engine";
import { withColumns } from "@astraflow/engine/testing";
import { changeSet, docRow, logEntry, readyChangeSet, runRow, taskRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase, StoreFixture } from "../fixtures/store-fixture.ts";

const turnsMax = 10_000;

async function openAllClients(fixture: StoreFixture): Promise<StoreClient[]> {
  const clients: StoreClient[] = [];
  for (let at = 0; at < fixture.handlesMax; at++) clients.push(await StoreClient.open(fixture, `h${at}`));
  return clients;
}

async function runTogether(fixture: StoreFixture, jobs: readonly (() => Promise<void>)[]): Promise<void> {
  if (fixture.hasConcurrentTurns) await Promise.all(jobs.map((job) => job()));
  else for (const job of jobs) await job();
}

/** Turns until one is committed. `decide` answers null when what it needs is busy: it is asked again in a new turn. */
async function writeUntilCommitted(
  client: StoreClient,
  rows: readonly RowKey[],
  decide: (tx: TurnTransaction) => readonly ChangeSet[] | null,
): Promise<void> {
  for (let tries = 0; tries < turnsMax; tries++) {
    const tx = await client.begin({ rows });
    const units = decide(tx);
    if (units === null) {
      await tx.abort();
      continue;
    }
    const answer = await client.commit(tx, units);
    if (answer.outcome === "committed") return;
    assert.ok(answer.outcome === "failed" && answer.unit === undefined, JSON.stringify(answer));
  }
  assert.fail(`a turn on ${rows.join(", ")} was not committed in ${turnsMax} tries`);
}

const joins = 25;

const joinsAreReadiedOnce: ContractCase = {
  title: "[S10] a store lets exactly one scheduler ready a join whose predecessors several schedulers end at the same moment",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const clients = await openAllClients(fixture);
      const width = clients.length;
      const names = Array.from({ length: joins }, (_, at) => `r${at}`);
      for (const run of names) {
        const ends = clients.map((_, slot) => taskRow(`${run}.${slot}`, { phase: "leased" }));
        await clients[0]?.write(changeSet({ puts: [runRow(run), ...ends, taskRow(`${run}.9`, { needs: width })] }));
      }

      await runTogether(
        fixture,
        clients.map((client, slot) => async () => {
          for (const run of names)
            await writeUntilCommitted(client, [`run/${run}`, `task/${run}.${slot}`, `task/${run}.9`], (tx) => {
              const join = tx.row("task", `${run}.9`);
              if (join === "busy") return null;
              const needs = (join as TaskRow).needs - 1;
              const puts = [
                withColumns(join as TaskRow, { needs, ...(needs === 0 ? { phase: "ready", line: "l" } : {}) }),
                withColumns(tx.row("task", `${run}.${slot}`) as TaskRow, { phase: "succeeded" }),
              ];
              const ready = needs === 0 ? [{ task: `${run}.9`, tenant: "acme", cost: 1 }] : [];
              return [
                changeSet({
                  puts,
                  enqueued: ready,
                  logEntries: [logEntry("acme", `run/${run}`, needs === 0 ? ["readied"] : ["counted"])],
                }),
              ];
            });
        }),
      );

      const [reader] = clients;
      const log = (await reader?.readLog("acme")) ?? [];
      const readied = log.filter((entry) => entry.type === "readied").map((entry) => entry.subject);
      assert.deepEqual(readied.sort(), names.map((run) => `run/${run}`).sort());
      assert.equal(log.length, joins * width);
      const tx = await reader?.begin({ claims: [{ line: "l", limit: 99 }] });
      assert.equal(tx?.claimed.get("l")?.length, joins);
      await tx?.abort();
    }),
};

const factsPerScheduler = 40;

const logReadersMissNothing: ContractCase = {
  title: "[S6] a store's log reader sees every fact once and in order while schedulers commit concurrently",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const clients = await openAllClients(fixture);
      const expected = clients.length * factsPerScheduler;
      const seen: string[] = [];
      const [reader] = clients;
      const poll = async () => {
        const page = await reader?.store.events({ tenant: "acme", after: seen.length, limit: 7 });
        for (const entry of page?.items ?? []) {
          assert.equal(entry.position, seen.length + 1, `position ${entry.position} came after ${seen.length} facts`);
          seen.push(entry.type);
        }
      };
      const writers = clients.map((client) => async () => {
        for (let at = 0; at < factsPerScheduler; at++) {
          const run = `${client.replica}-${at}`;
          await writeUntilCommitted(client, [`run/${run}`], () => [
            changeSet({ puts: [runRow(run)], logEntries: [logEntry("acme", `run/${run}`, [run])] }),
          ]);
          if (!fixture.hasConcurrentTurns) await poll();
        }
      });

      // Where turns overlap, the reader polls beside the writers; it stops once it has seen all there will ever be.
      const tail = async () => {
        for (let polls = 0; seen.length < expected && polls < turnsMax; polls++) await poll();
      };
      await runTogether(fixture, [...writers, tail]);

      const all = clients.flatMap((client) => Array.from({ length: factsPerScheduler }, (_, at) => `${client.replica}-${at}`));
      assert.deepEqual([...seen].sort(), all.sort());
    }),
};

const claimedTasks = 90;

const concurrentClaimsAreExclusive: ContractCase = {
  title:
    "[S13] a store gives each queued task to one scheduler at a time, under a fence that only rises, while several claim in loops",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const clients = await openAllClients(fixture);
      const runs = Array.from({ length: claimedTasks }, (_, at) => `r${at}`);
      await clients[0]?.write(...runs.map((run) => readyChangeSet(run, "l")));
      let left = claimedTasks;

      await runTogether(
        fixture,
        clients.map((client) => async () => {
          for (let turns = 0; left > 0 && turns < turnsMax; turns++) {
            const tx = await client.begin({ claims: [{ line: "l", limit: 4 }] });
            const claimed = tx.claimed.get("l") ?? [];
            const answer = await client.commit(
              tx,
              claimed.map((task) => leaseTask(task)),
            );
            assert.equal(answer.outcome, "committed", JSON.stringify(answer));
            left -= claimed.filter((task) => task.attempt === 1).length;
          }
        }),
      );

      assert.equal(left, 0);
      for (const run of runs) {
        const task = await clients[0]?.readOne<TaskRow>(`task/${run}.0`);
        assert.deepEqual([task?.phase, task?.attempt, task?.fence], ["leased", 2, 2], run);
      }
      const log = (await clients[0]?.readLog("acme")) ?? [];
      for (const run of runs) {
        const fences = log.filter((entry) => entry.subject === `run/${run}`).map((entry) => entry.type);
        assert.deepEqual(fences, ["granted under 1", "granted under 2"], run);
      }
    }),
};

/** The first grant gives the task back to its line at once, so that it is claimed a second time, by anybody. */
function leaseTask(task: TaskRow): ChangeSet {
  const next = withColumns(task, { attempt: task.attempt + 1, fence: task.fence + 1 });
  const happenings = [logEntry("acme", `run/${task.run}`, [`granted under ${next.fence}`])];
  if (next.attempt === 2)
    return changeSet({ puts: [withColumns(next, { phase: "leased", line: null, rank: null })], logEntries: happenings });
  return changeSet({
    puts: [withColumns(next, { rank: null })],
    enqueued: [{ task: task.id, tenant: "acme", cost: 1 }],
    logEntries: happenings,
  });
}

const writesPerScheduler = 15;

const concurrentDocumentWritesAreCounted: ContractCase = {
  title: "[S72] a store lets several schedulers create and update one document in loops, each write building on the one before",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const clients = await openAllClients(fixture);
      const id = "acme/workflow/shared";

      await runTogether(
        fixture,
        clients.map((client) => async () => {
          for (let at = 0; at < writesPerScheduler; at++)
            await writeUntilCommitted(client, [`doc/${id}`, `run/r${at}`], (tx) => {
              const doc = tx.row("doc", id);
              if (doc === "busy" || tx.row("run", `r${at}`) === "busy") return null;
              const { rev, body } = (doc ?? { rev: 0, body: "" }) as DocRow;
              const next = docRow("workflow", "shared", { rev: rev + 1, body: `${body}${client.replica} ` });
              const puts = [next, docRow("letter", `r${at}.0`, { body: client.replica }), runRow(`r${at}`)];
              return [changeSet({ puts, logEntries: [logEntry("acme", `doc/${id}`, [`${rev + 1}`])] })];
            });
        }),
      );

      const doc = await (clients[0] as StoreClient).readOne<DocRow>(`doc/${id}`);
      const writes = clients.length * writesPerScheduler;
      assert.deepEqual([doc.rev, doc.body.split(" ").length - 1], [writes, writes]);
      for (const client of clients) assert.equal(doc.body.split(`${client.replica} `).length - 1, writesPerScheduler);
      const log = await (clients[0] as StoreClient).readLog("acme");
      assert.deepEqual(
        log.map((entry) => entry.type),
        Array.from({ length: writes }, (_, at) => `${at + 1}`),
      );
      const { items } = await (clients[0] as StoreClient).store.page({
        page: "docs",
        tenant: "acme",
        collection: "letter",
        limit: 99,
      });
      assert.equal(items.length, writesPerScheduler);
    }),
};

const oldRuns = 30;

const removalsTakeTurns: ContractCase = {
  title:
    "[S819] a store removes each row once and counts it once while several schedulers remove rows of one tenant and write turns about its runs",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const clients = await openAllClients(fixture);
      const runs = Array.from({ length: oldRuns }, (_, at) => `r${at + 10}`);
      const finished = (run: string) =>
        changeSet({
          puts: [
            runRow(run, { phase: "succeeded", createdAt: 1, endedAt: 2 }),
            ...["0", "1"].map((no) => taskRow(`${run}.${no}`, { phase: "succeeded", result: "1" })),
          ],
          logEntries: [logEntry("acme", `run/${run}`, ["run.ended"])],
        });
      await clients[0]?.write(changeSet({ puts: [runRow("x1")] }), ...runs.map(finished));
      // The history of old runs must be old too.
      fixture.advance(60_000);
      const removed = { runs: 0, tasks: 0, logEntries: 0 };
      const sweep = async (client: StoreClient, afterSlice: (slices: number) => Promise<void>) => {
        let after: string | null = "";
        for (let slices = 0; after !== null && slices < turnsMax; slices++) {
          const slice = { of: "runs", tenant: "acme", after, olderThanMs: 1_000, limit: 12 } as const;
          const outcome: RemovalOutcome = await client.store.remove(slice);
          removed.runs += outcome.removed.runs;
          removed.tasks += outcome.removed.tasks;
          removed.logEntries += outcome.removed.logEntries;
          after = outcome.next;
          await afterSlice(slices);
        }
      };

      await runTogether(
        fixture,
        clients.map((client) => () => {
          // The turn holds a run that is about to go.
          const writeTurn = (slices: number) =>
            writeUntilCommitted(client, ["run/x1", `run/${runs[slices % oldRuns]}`], (tx) =>
              tx.row("run", "x1") === "busy"
                ? null
                : [changeSet({ roots: ["run/x1"], logEntries: [logEntry("acme", "run/x1", [`${client.replica} ${slices}`])] })],
            );
          return sweep(client, writeTurn);
        }),
      );
      // What a turn held was passed over.
      await sweep(clients[0] as StoreClient, async () => undefined);

      assert.deepEqual(removed, { runs: oldRuns, tasks: 2 * oldRuns, logEntries: oldRuns });
      const left = await clients[0]?.store.page({ page: "runs", tenant: "acme", limit: 99 });
      assert.deepEqual(
        left?.items.map(({ id }) => id),
        ["x1"],
      );
      const history = await clients[0]?.store.events({ tenant: "acme", after: 0, subject: "run/x1", limit: 999 });
      const types = history?.items.map(({ type }) => type) ?? [];
      assert.ok(types.length >= clients.length, `${types.length} turns were written meanwhile`);
      assert.equal(new Set(types).size, types.length);
    }),
};

export const concurrencyCases: readonly ContractCase[] = [
  joinsAreReadiedOnce,
  logReadersMissNothing,
  concurrentClaimsAreExclusive,
  concurrentDocumentWritesAreCounted,
  removalsTakeTurns,
];
