// The contract on rows and units: what is put comes back, a turn is all or nothing, readers and reopened stores see what was committed.

import assert from "node:assert/strict";
import type { Row, RowKey, RunRow } from "@astraflow/engine";
import { keyOf } from "@astraflow/engine";
import { changeSet, keyRow, logEntry, readyChangeSet, runRow, sampleRowsOfAllKinds, taskRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

const epochsRise: ContractCase = {
  title: "[S1] a store raises a replica's epoch at each open, returns its last turn, and refuses another cluster",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const first = await StoreClient.open(fixture, "a");
      await first.write(readyChangeSet("r1", "l"));
      await first.write(readyChangeSet("r2", "l"));
      await first.store.close();
      const second = await StoreClient.open(fixture, "a");
      await second.store.close();
      const other = await StoreClient.open(fixture, "b");
      await other.store.close();

      assert.deepEqual([first.epoch, first.lastTurn], [1, 0]);
      assert.deepEqual([second.epoch, second.lastTurn], [2, 2]);
      assert.deepEqual([other.epoch, other.lastTurn], [1, 0]);
      await assert.rejects(StoreClient.open(fixture, "a", "elsewhere"), { code: "E.STORE.OPEN" });
    }),
};

const rowsComeBackExactly: ContractCase = {
  title: "[S2] a store returns every kind of row exactly as it was written, also after it is reopened",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const rows = sampleRowsOfAllKinds();
      const client = await StoreClient.open(fixture);
      await client.write(changeSet({ puts: rows }));
      assert.deepEqual(await client.read(...rows.map(keyOf)), rows);
      await client.store.close();

      const again = await StoreClient.open(fixture);

      assert.deepEqual(await again.read(...rows.map(keyOf)), rows);
      assert.deepEqual(await again.read("run/none", "ask/acme/none"), [null, null]);
    }),
};

const rowsAreReplaced: ContractCase = {
  title: "[S2] a store keeps one row per key: a later version replaces every field of an earlier one, and a deleted row is gone",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const rows = sampleRowsOfAllKinds();
      await client.write(changeSet({ puts: rows }));
      const changed: Row[] = [
        runRow("r1", { phase: "failed", open: 0, endedAt: 9, error: "{}" }),
        runRow("r2"),
        taskRow("r1.0", { phase: "succeeded", acked: true, result: '"long enough"', fence: 77 }),
        taskRow("r2.10"),
        keyRow("acme/k2", { holders: ["r1.0"], limit: 9 }),
      ];
      await client.write(changeSet({ puts: changed, deletes: ["worker/acme/w1", "key/acme/k1", "ask/acme/none"] }));

      for (const again of [false, true]) {
        const reader = again ? await StoreClient.open(fixture) : client;
        assert.deepEqual(await reader.read(...changed.map(keyOf)), changed);
        assert.deepEqual(await reader.read("worker/acme/w1", "key/acme/k1"), [null, null]);
        const { items } = await reader.store.page({ page: "runs", tenant: "acme", limit: 10 });
        assert.deepEqual(
          items.map((run) => run.id),
          ["r2", "r1"],
        );
        await reader.store.close();
      }
    }),
};

const megabyte = "x".repeat(1024 * 1024);

const largeValuesComeBack: ContractCase = {
  title:
    "[S520] a store returns large parameters and results exactly as they were written: in turns, in lists, in pages, after every move of their task and after it is reopened",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const params = `{"text":"${megabyte} ü \u{1f600}"}`;
      const ready = taskRow("r1.0", { phase: "ready", line: "l", readyAt: 1, params });
      await client.write(changeSet({ puts: [runRow("r1"), ready], enqueued: [{ task: ready.id, tenant: "acme", cost: 1 }] }));
      const leased = taskRow("r1.0", { phase: "leased", worker: "acme/w1", boot: "b1", fence: 2, params });
      await client.write(changeSet({ puts: [leased] }));
      const tx = await client.begin({ rows: ["run/r1"], lists: [{ of: "held", worker: "acme/w1", limit: 5 }] });
      assert.deepEqual(tx.tasks({ of: "held", worker: "acme/w1", limit: 5 }), [leased]);
      await tx.abort();
      const ended = taskRow("r1.0", { phase: "succeeded", worker: "acme/w1", endedAt: 9, params, result: `["${megabyte}"]` });
      await client.write(changeSet({ puts: [ended] }));

      for (const again of [false, true]) {
        const reader = again ? await StoreClient.open(fixture) : client;
        assert.deepEqual(await reader.readOne("task/r1.0"), ended);
        const { detail } = await reader.store.page({ page: "run", tenant: "acme", run: "r1" });
        assert.deepEqual(detail?.tasks, [ended]);
        assert.deepEqual((await reader.store.page({ page: "task", tenant: "acme", task: "r1.0" })).task, ended);
        await reader.store.close();
      }
    }),
};

const largeValuesAreReplaced: ContractCase = {
  title:
    "[S520] a store replaces a large value by another, by a small one and by none, leaves it as it was where a turn fails, and removes it with its task",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const task = (params: string | null) => taskRow("r1.0", { params });
      const large = [`"a${megabyte}"`, `"b${megabyte}"`, `"@${megabyte}"`];
      await client.write(changeSet({ puts: [runRow("r1"), task(large[0] ?? "")] }));
      const bad = changeSet({ puts: [runRow("r2", { tenant: null as unknown as string })] });
      const tx = await client.begin({ rows: ["run/r1", "run/r2"] });
      const failed = await client.commit(tx, [changeSet({ puts: [task(large[1] ?? "")] }), bad]);
      assert.equal(failed.outcome, "failed");
      assert.deepEqual(await client.readOne("task/r1.0"), task(large[0] ?? ""));

      for (const params of [...large, "{}", null, "@12", large[0] ?? "", "@12", "{}"]) {
        await client.write(changeSet({ puts: [task(params)] }));
        assert.deepEqual(await client.readOne("task/r1.0"), task(params));
      }

      await client.write(changeSet({ puts: [task(large[0] ?? "")] }));
      await client.write(changeSet({ roots: ["run/r1"], deletes: ["task/r1.0"] }));
      assert.deepEqual(await client.read("task/r1.0"), [null]);
      await client.write(changeSet({ puts: [task("{}")] }));
      assert.deepEqual(await client.readOne("task/r1.0"), task("{}"));
    }),
};

export const everyChangeSetIsWritten: ContractCase = {
  title: "[S3] a store writes the rows and facts of every change set of a turn that it reports as committed",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const runs = ["r1", "r2", "r3", "r4", "r5"];

      await client.write(
        ...runs.map((run) => changeSet({ puts: [runRow(run)], logEntries: [logEntry("acme", `run/${run}`, ["made"])] })),
      );

      assert.deepEqual(
        (await client.read(...runs.map((run): RowKey => `run/${run}`))).map((row) => (row as RunRow | null)?.id ?? null),
        runs,
      );
      assert.deepEqual(
        (await client.readLog("acme")).map((entry) => entry.subject),
        runs.map((run) => `run/${run}`),
      );
    }),
};

const invalidChangeSetIsNamed: ContractCase = {
  title:
    "[S3] a store names the change set it refuses and writes nothing of that turn, and the other change sets can be written without it",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const good = [readyChangeSet("r1", "l"), readyChangeSet("r3", "l")] as const;
      const poisons = {
        "a phase that does not exist": changeSet({ puts: [runRow("r2", { phase: "bogus" as RunRow["phase"] })] }),
        "a field left out": changeSet({ puts: [runRow("r2", { tenant: undefined as unknown as string })] }),
        "a null where none may be": changeSet({ puts: [runRow("r2", { workflow: null as unknown as string })] }),
        "a task of another run": changeSet({ roots: ["run/r2"], puts: [taskRow("r2.0", { run: "r1" })] }),
        "a place in a line without a rank": changeSet({ puts: [runRow("r2"), taskRow("r2.0", { phase: "ready", line: "l" })] }),
        "a task that enters a line and is not written": changeSet({
          puts: [runRow("r2")],
          enqueued: [{ task: "r2.7", tenant: "acme", cost: 1 }],
        }),
      };
      for (const [name, poison] of Object.entries(poisons)) {
        const tx = await client.begin({ rows: ["run/r1", "run/r2", "run/r3"] });
        const answer = await client.commit(tx, [good[0], poison, good[1]]);

        assert.equal(answer.outcome, "failed", name);
        assert.equal(answer.outcome === "failed" ? answer.unit : null, 1, name);
        assert.deepEqual(await client.read("run/r1", "task/r1.0", "run/r2", "run/r3"), [null, null, null, null], name);
      }
      await client.write(...good);

      assert.equal((await client.readOne<RunRow>("run/r3")).id, "r3");
      assert.deepEqual(await client.read("run/r2"), [null]);
    }),
};

const changeSetsKeepToTheirRoots: ContractCase = {
  title:
    "[S4] a store refuses a change set that writes under a root its turn does not hold, and a row that occurs twice in a turn",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const attempts = [
        [changeSet({ puts: [runRow("r1")] }), changeSet({ roots: ["run/r1"], puts: [taskRow("r2.0")] })],
        [changeSet({ puts: [runRow("r1")] }), changeSet({ roots: ["run/r2"], puts: [] })],
        [changeSet({ puts: [runRow("r1")] }), changeSet({ roots: ["run/r1"], deletes: ["key/acme/k1"] })],
        [changeSet({ puts: [runRow("r1")] }), changeSet({ puts: [runRow("r1", { open: 2 })] })],
        [changeSet({ puts: [runRow("r1")] }), changeSet({ puts: [taskRow("r1.0"), taskRow("r1.0")] })],
        [changeSet({ puts: [runRow("r1"), taskRow("r1.0")] }), changeSet({ deletes: ["task/r1.0"] })],
      ];
      for (const [index, units] of attempts.entries()) {
        const tx = await client.begin({ rows: ["run/r1"] });
        const answer = await client.commit(tx, units);

        assert.deepEqual([answer.outcome, answer.outcome === "failed" ? answer.unit : null], ["failed", 1], `attempt ${index}`);
        assert.deepEqual(await client.read("run/r1"), [null], `attempt ${index}`);
      }
    }),
};

const newRowsMustNotExist: ContractCase = {
  title: "[S4] a store writes a row that its change set marks as new, and refuses the change set if the row exists already",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const born = (puts: readonly Row[]) => changeSet({ puts, inserted: new Set(puts.map(keyOf)) });
      await client.write(born([runRow("r1"), taskRow("r1.0"), keyRow("acme/k1")]));
      await client.write(changeSet({ puts: [runRow("r1", { open: 2 })] }), born([runRow("r2")]));

      for (const row of [runRow("r1"), taskRow("r1.0"), keyRow("acme/k1")]) {
        const tx = await client.begin({ rows: ["run/r1", "run/r3", "key/acme/k1"] });
        const answer = await client.commit(tx, [born([runRow("r3")]), born([row])]);
        assert.deepEqual([answer.outcome, answer.outcome === "failed" ? answer.unit : null], ["failed", 1], keyOf(row));
      }
      assert.deepEqual(await client.read("run/r1", "run/r3"), [runRow("r1", { open: 2 }), null]);
    }),
};

const turnsEnd: ContractCase = {
  title: "[S4] a store ends a turn with its commit, whatever the outcome, and with its abort",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const committed = await client.begin({ rows: ["run/r1"] });
      await client.commit(committed, [changeSet({ puts: [runRow("r1")] })]);
      const failed = await client.begin({ rows: ["run/r1"] });
      assert.equal((await client.commit(failed, [changeSet({ puts: [runRow("r2")] })])).outcome, "failed");
      const aborted = await client.begin({ rows: ["run/r1"] });
      await aborted.abort();

      for (const tx of [committed, failed, aborted]) {
        await assert.rejects(client.commit(tx, []), /over/);
        await tx.abort();
      }
      await client.write(changeSet({ puts: [runRow("r1", { open: 3 })] }));
    }),
};

const readersSeeCommittedOnly: ContractCase = {
  title: "[S5] a store shows readers nothing of a turn before it is committed and all of it afterwards",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(changeSet({ puts: [runRow("r1")], logEntries: [logEntry("acme", "run/r1", ["made"])] }));
      const look = async () => {
        const { items, head } = await client.store.page({ page: "runs", tenant: "acme", limit: 10 });
        const log = await client.store.events({ tenant: "acme", after: 0, limit: 10 });
        return { open: items.map((run) => run.open), head, facts: log.items.length, logHead: log.head };
      };
      const next = changeSet({
        puts: [runRow("r1", { open: 9 }), taskRow("r1.0")],
        logEntries: [logEntry("acme", "run/r1", ["grown"])],
      });
      const before = await look();

      const tx = await client.begin({ rows: ["run/r1"] });
      const during = await look();
      await tx.abort();
      const aborted = await look();
      await client.write(next);

      assert.deepEqual(before, { open: [1], head: 1, facts: 1, logHead: 1 });
      assert.deepEqual([during, aborted], [before, before]);
      assert.deepEqual(await look(), { open: [9], head: 2, facts: 2, logHead: 2 });
    }),
};

const reopeningChangesNothing: ContractCase = {
  title: "[S21] a store has the same contents each time it is closed and reopened",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      let client = await StoreClient.open(fixture);
      const rows = sampleRowsOfAllKinds();
      await client.write(
        changeSet({ puts: rows, logEntries: [logEntry("acme", "run/r1", ["one", "two"])] }),
        readyChangeSet("r9", "l"),
      );
      const look = async () => {
        const tx = await client.begin({ rows: rows.map(keyOf), claims: [{ line: "l", limit: 5 }] });
        const seen = { rows: rows.map((row) => tx.row(row.kind, row.id)), claimed: tx.claimed.get("l"), nextDue: tx.nextDue };
        await tx.abort();
        return { ...seen, log: await client.readLog("acme") };
      };
      const before = await look();

      for (let times = 0; times < 3; times++) {
        await client.store.close();
        client = await StoreClient.open(fixture);
        assert.deepEqual(await look(), before);
      }
      const { first } = await client.write(
        changeSet({ puts: [runRow("r8")], logEntries: [logEntry("acme", "run/r8", ["next"])] }),
      );
      assert.deepEqual([...first], [["acme", 3]]);
    }),
};

export const rowCases: readonly ContractCase[] = [
  epochsRise,
  rowsComeBackExactly,
  rowsAreReplaced,
  largeValuesComeBack,
  largeValuesAreReplaced,
  everyChangeSetIsWritten,
  invalidChangeSetIsNamed,
  changeSetsKeepToTheirRoots,
  newRowsMustNotExist,
  turnsEnd,
  readersSeeCommittedOnly,
  reopeningChangesNothing,
];
