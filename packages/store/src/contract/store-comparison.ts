// Runs one random history on two stores and compares every read.

import assert from "node:assert/strict";
import { type ChangeSet, keyOf, type Row, rootOf, splitKey, type TaskRow } from "@astraflow/engine";
import { createSeededRandom } from "@astraflow/protocol/testing";
import { changeSet, chunkRow, docRow, keyRow, logEntry, runRow, taskRow, workerRow } from "./fixtures/sample-rows.ts";
import { StoreClient } from "./fixtures/store-client.ts";
import type { StoreFixture } from "./fixtures/store-fixture.ts";

const lines = ["r|a", "r|b"];
const words = ["alpha", "beta", "Ähre", "gamma-ray", "100%"];
const workers = ["acme/w1", "acme/w2"];

function randomChangeSets(randomBelow: (sides: number) => number, now: number, made: ReadonlySet<string>): ChangeSet[] {
  const pick = <T>(of: readonly T[]): T => of[randomBelow(of.length)] as T;
  const due = () => (randomBelow(3) === 0 ? now + randomBelow(200) - 60 : null);
  const units: ChangeSet[] = [];
  const runs = new Set(Array.from({ length: 1 + randomBelow(4) }, () => `r${randomBelow(12)}`));
  for (const run of runs) {
    const puts: Row[] = [];
    const ready: { task: string; tenant: string; cost: number }[] = [];
    const drops: ChangeSet["deletes"][number][] = [];
    // A task without a run is something no engine writes, and not every store could claim it.
    if (randomBelow(2) === 0 || !made.has(run))
      puts.push(
        runRow(run, {
          due: due(),
          open: randomBelow(5),
          phase: pick(["queued", "running", "failed"]),
          label: `${pick(words)} ${pick(words)}`,
          source: pick(["", "w1", "w2"]),
          about: `{"by":"${pick(words)}"}`,
          error: randomBelow(3) === 0 ? `{"code":"E.${pick(words)}"}` : null,
          bindings: randomBelow(3) === 0 ? "{}" : null,
        }),
      );
    for (let slot = 0; slot < 3; slot++) {
      const id = `${run}.${slot}`;
      const what = randomBelow(7);
      if (what === 0) drops.push(`task/${id}`);
      if (what === 1) puts.push(taskRow(id, { phase: "leased", worker: pick(workers), due: due() }));
      if (what === 2) puts.push(taskRow(id, { phase: "succeeded", result: String(randomBelow(9)) }));
      if (what === 6) puts.push(taskRow(id, { phase: "hosting", state: String(randomBelow(9)), due: due() }));
      if (what !== 3) continue;
      puts.push(taskRow(id, { phase: "ready", line: pick(lines), band: randomBelow(2), due: due() }));
      ready.push({ task: id, tenant: pick(["acme", "beta"]), cost: 1 + randomBelow(3) });
    }
    if (randomBelow(3) === 0)
      puts.push(
        docRow("letter", `${run}.${randomBelow(2)}`, { due: due(), rev: randomBelow(9), terms: pick(words).toLowerCase() }),
      );
    const chunks =
      randomBelow(3) === 0
        ? [chunkRow(`${run}.0`, 1 + randomBelow(2), 2 * randomBelow(3), { body: String(randomBelow(9)) })]
        : [];
    units.push(
      changeSet({
        chunks,
        roots: [`run/${run}`],
        puts,
        deletes: drops,
        enqueued: ready,
        logEntries: [logEntry("acme", `run/${run}`, ["x", "y"].slice(randomBelow(2)))],
      }),
    );
  }
  const key = keyRow(`acme/k${randomBelow(2)}`, {
    due: due(),
    holders: Array.from({ length: randomBelow(3) }, () => `r${randomBelow(12)}.0`),
  });
  const doc = docRow("workflow", `d${randomBelow(6)}`, {
    due: due(),
    sort: String(randomBelow(4)),
    terms: pick(words).toLowerCase(),
  });
  units.push(randomBelow(4) === 0 ? changeSet({ deletes: [keyOf(doc)] }) : changeSet({ puts: [doc] }));
  if (!made.has("a"))
    units.push(changeSet({ puts: ["a", "b"].map((id) => ({ kind: "route", id, tenant: "acme", needs: "{}" }) as const) }));
  units.push(
    randomBelow(4) === 0
      ? changeSet({ deletes: [keyOf(key)] })
      : changeSet({ puts: [key, workerRow(pick(workers), { due: due() })] }),
  );
  return units;
}

async function readEverything(client: StoreClient) {
  const keys = Array.from(
    { length: 12 },
    (_, run) => [`run/r${run}`, `task/r${run}.0`, `task/r${run}.1`, `task/r${run}.2`] as const,
  ).flat();
  const held = workers.map((worker) => ({ of: "held", worker, limit: 9 }) as const);
  const range = [1, 6].map((run) => ({ of: "range", run: `r${run}`, after: `r${run}.0`, last: `r${run}.2`, limit: 9 }) as const);
  const open = [0, 5].map((run) => ({ of: "open", run: `r${run}`, after: `r${run}.0`, limit: 9 }) as const);
  const claims = lines.map((line) => ({ line, limit: 6 }));
  const tx = await client.begin({
    rows: [...keys, "key/acme/k0", "key/acme/k1"],
    claims,
    lists: [...held, ...open, ...range],
    due: 7,
  });
  const listed = [...held, ...open, ...range].map((list) => tx.tasks(list));
  await tx.abort();
  const again = await client.begin({ rows: [...keys, "key/acme/k0"], claims, due: 3, skip: ["run/r1", "run/r2"] });
  const rows = [...keys, "key/acme/k0" as const].map((key) => (rootOf(key) === key ? again.row(...splitKey(key)) : null));
  await again.abort();
  const ids = (tasks: readonly TaskRow[] | undefined) => tasks?.map((task) => `${task.id} ${task.rank}`);
  return {
    rows,
    claimed: [...tx.claimed].map(([line, tasks]) => [line, ids(tasks)]),
    due: tx.due,
    next: [tx.nextDue, again.nextDue, tx.now],
    skipped: [again.due.map(keyOf), [...again.claimed.values()].map(ids)],
    log: await client.readLog("acme", 0, 50),
    depth: await client.store.page({ page: "depth" }),
    listed,
    ...(await readPages(client)),
  };
}

async function readPages({ store }: StoreClient) {
  const [tenant, limit] = ["acme", 50];
  const head = (await store.events({ tenant, after: 0, limit: 1 })).head;
  return {
    runs: await store.page({ page: "runs", tenant, limit }),
    runsOf: await store.page({ page: "runs", tenant, limit, source: "w1", phase: "failed" }),
    found: await Promise.all(words.map((search) => store.page({ page: "runs", tenant, limit, search: `${search} r` }))),
    docs: await store.page({ page: "docs", tenant, collection: "workflow", limit, order: "desc" }),
    deadLetters: await store.page({ page: "docs", tenant, collection: "letter", limit, search: "al", prefix: "r1" }),
    chunks: await Promise.all(
      [0, 1, 2].map((run) => store.page({ page: "chunks", tenant, task: `r${run}.0`, limit, fromChunk: 1 })),
    ),
    lines: await store.page({ page: "lines", tenant, max: 3 }),
    back: await store.events({ tenant, after: 3, limit: 7, before: head - 1, types: ["x"] }),
    backOf: await store.events({ tenant, after: 0, limit: 7, before: head, subject: "run/r1" }),
  };
}

/** Plays one random history on both stages and compares what they show after every turn. Both must begin at the same instant. */
export async function compareStores(fixtures: readonly [StoreFixture, StoreFixture], seed: number, turns: number): Promise<void> {
  const randomBelow = createSeededRandom(seed * 2_654_435_761 + 1);
  const made = new Set<string>();
  try {
    const clients = [await StoreClient.open(fixtures[0]), await StoreClient.open(fixtures[1])] as const;
    for (let turn = 0; turn < turns; turn++) {
      const tx = await clients[0].begin();
      await tx.abort();
      const units = randomChangeSets(randomBelow, tx.now, made);
      const isScripted = randomBelow(6) === 0;
      const fate = turn % 2 === 0 ? "committed" : "absent";
      for (const [at, client] of clients.entries()) {
        if (isScripted) fixtures[at]?.setCommitOutcome("a", client.nextTurn, `unknown-${fate}`);
        const number = client.nextTurn;
        const mine = await client.begin({ rows: units.flatMap((one) => one.roots) });
        const answer = await client.commit(mine, units);
        assert.equal(answer.outcome, isScripted ? "unknown" : "committed", JSON.stringify(answer));
        if (isScripted) assert.equal(await client.store.settle(number), fate);
      }
      if (!isScripted || fate === "committed") for (const one of units) for (const row of one.puts) made.add(row.id);
      assert.deepEqual(await readEverything(clients[1]), await readEverything(clients[0]), `after turn ${turn}`);
      for (const fixture of fixtures) fixture.advance(turn % 7);
    }
  } finally {
    for (const fixture of fixtures) await fixture.close();
  }
}
