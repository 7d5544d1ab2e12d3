// The contract on the log: positions without gaps in commit order, pages cut inside packed rows, floors, histories of one subject.

import assert from "node:assert/strict";
import { changeSet, logEntry, runRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

const runCreated = (run: string, types: readonly string[], tenant = "acme") =>
  changeSet({ puts: [runRow(run, { tenant })], logEntries: [logEntry(tenant, `run/${run}`, types)] });

const positionsHaveNoGaps: ContractCase = {
  title: "[S6] a store numbers the facts of each tenant from 1 without gaps, in the order of commits and change sets",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const first = await client.write(runCreated("r1", ["a", "b"]), runCreated("q1", ["x"], "beta"), runCreated("r2", ["c"]));
      const second = await client.write(
        runCreated("r3", ["d", "e"]),
        changeSet({ puts: [runRow("r4")], logEntries: [logEntry("acme", "run/r4", [])] }),
      );
      const third = await client.write(changeSet({ puts: [runRow("r5")] }));

      assert.deepEqual(
        first.first,
        new Map([
          ["acme", 1],
          ["beta", 1],
        ]),
      );
      assert.deepEqual([...second.first], [["acme", 4]]);
      assert.deepEqual([...third.first], []);
      const log = await client.readLog("acme");
      assert.deepEqual(
        log.map((entry) => `${entry.position} ${entry.subject} ${entry.type} ${JSON.stringify(entry.data)}`),
        [
          '1 run/r1 a {"index":0}',
          '2 run/r1 b {"index":1}',
          '3 run/r2 c {"index":0}',
          '4 run/r3 d {"index":0}',
          '5 run/r3 e {"index":1}',
        ],
      );
      assert.equal((await client.readLog("beta")).length, 1);
      assert.deepEqual(await client.store.events({ tenant: "nobody", after: 0, limit: 5 }), {
        items: [],
        next: 0,
        head: 0,
        floor: 0,
      });
    }),
};

export const pollingReadersMissNothing: ContractCase = {
  title:
    "[S6] a store never shows a lower log position after a higher one, though commits of several schedulers finish out of order",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const clients = [await StoreClient.open(fixture, "a")];
      while (clients.length < fixture.handlesMax) clients.push(await StoreClient.open(fixture, `h${clients.length}`));
      const reader = clients[0] as StoreClient;
      const seen: string[] = [];
      let cursor = 0;
      const poll = async () => {
        for (;;) {
          const page = await reader.store.events({ tenant: "acme", after: cursor, limit: 2 });
          if (page.items.length === 0) return;
          for (const entry of page.items) {
            assert.equal(entry.position, seen.length + 1, `position ${entry.position} came after ${seen.length} facts`);
            seen.push(entry.type);
          }
          assert.ok(page.next > cursor, `the page after ${cursor} leads to ${page.next}`);
          cursor = page.next;
        }
      };
      const expected: string[] = [];
      for (let round = 0; round < 6; round++) {
        const releases: (() => Promise<void>)[] = [];
        for (const [at, client] of clients.entries()) {
          const run = `r${round}-${at}`;
          const types = [`${run} one`, `${run} two`];
          expected.push(...types);
          const tx = await client.begin({ rows: [`run/${run}`] });
          const release = fixture.hasConcurrentTurns ? fixture.delayCommit(client.replica, client.nextTurn) : () => undefined;
          const commit = client.commit(tx, [runCreated(run, types)]);
          const finish = async () => {
            release();
            assert.equal((await commit).outcome, "committed");
          };
          // A store that takes one turn at a time has nothing to finish out of order.
          if (fixture.hasConcurrentTurns) releases.push(finish);
          else await finish();
        }
        const order = round % 2 === 0 ? releases.reverse() : releases;
        for (const finish of order) {
          await finish();
          await poll();
        }
      }
      await poll();

      assert.deepEqual([...seen].sort(), expected.sort());
    }),
};

const packedFactsAreCutAtThePage: ContractCase = {
  title:
    "[S7] a store cuts log pages inside the facts of one turn and continues exactly after the cut, from any cursor and at any limit",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(runCreated("r1", ["1", "2", "3", "4", "5"]), runCreated("r2", ["6"]));
      await client.write(runCreated("r3", ["7", "8", "9"]));
      const whole = await client.readLog("acme");

      for (let after = 0; after <= 9; after++)
        for (let limit = 1; limit <= 10; limit++) {
          const page = await client.store.events({ tenant: "acme", after, limit });
          assert.deepEqual(page.items, whole.slice(after, after + limit), `after ${after}, limit ${limit}`);
          assert.deepEqual(
            [page.next, page.head, page.floor],
            [Math.min(9, after + limit), 9, 0],
            `after ${after}, limit ${limit}`,
          );
        }
      assert.deepEqual(
        whole.map((entry) => entry.type),
        ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
      );
      assert.deepEqual(await client.store.events({ tenant: "acme", after: 99, limit: 5 }), {
        items: [],
        next: 99,
        head: 9,
        floor: 0,
      });
    }),
};

const subjectsHaveHistories: ContractCase = {
  title: "[S7] a store returns the history of one subject by the same cursor, and nothing of it to another tenant",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(runCreated("r1", ["1", "2"]), runCreated("r2", ["3"]));
      await client.write(runCreated("r2", ["4"]), runCreated("r1", ["5", "6"]));
      const read = async (tenant: string, after: number, limit: number) => {
        const page = await client.store.events({ tenant, after, limit, subject: "run/r1" });
        return [page.items.map((entry) => entry.type), page.next];
      };

      assert.deepEqual(await read("acme", 0, 9), [["1", "2", "5", "6"], 6]);
      assert.deepEqual(await read("acme", 1, 2), [["2", "5"], 5]);
      assert.deepEqual(await read("acme", 3, 9), [["5", "6"], 6]);
      assert.deepEqual(await read("acme", 5, 9), [["6"], 6]);
      assert.deepEqual(await read("acme", 6, 9), [[], 6]);
      assert.deepEqual(await read("beta", 0, 9), [[], 0]);
    }),
};

const cursorsBelowTheFloorGetTheFloor: ContractCase = {
  title:
    "[S8] a store answers a cursor below the log's floor with the floor and no facts, and one at the floor with all facts after it",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(runCreated("r1", ["1", "2", "3"]));
      await client.write(runCreated("r2", ["4", "5"]));
      await client.write(runCreated("r3", ["6"]));
      await fixture.trimLog("acme", 4);

      const below = await client.store.events({ tenant: "acme", after: 3, limit: 9 });
      const at = await client.store.events({ tenant: "acme", after: 4, limit: 9 });
      assert.deepEqual(below, { items: [], next: 3, head: 6, floor: 4 });
      assert.deepEqual([at.items.map((entry) => entry.type), at.floor], [["5", "6"], 4]);
      const { first } = await client.write(runCreated("r4", ["7"]));
      assert.deepEqual([...first], [["acme", 7]]);
      await fixture.trimLog("acme", 999);
      const after = await client.store.events({ tenant: "acme", after: 7, limit: 9 });
      assert.deepEqual(after, { items: [], next: 7, head: 7, floor: 7 });
    }),
};

const logsAreReadBackwards: ContractCase = {
  title: "[S81] a store reads the log backwards, cut anywhere, also for one subject, down to a cursor and to the floor",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(runCreated("r1", ["1", "2", "3", "4", "5"]), runCreated("r2", ["6"]));
      await client.write(runCreated("r3", ["7", "8", "9"]));
      await client.write(runCreated("r1", ["10", "11"]), runCreated("q1", ["x"], "beta"));
      const whole = await client.readLog("acme");
      const back = (before: number, over: object = {}) =>
        client.store.events({ tenant: "acme", after: 0, limit: 99, before, ...over });

      for (const before of [1, 2, 4, 6, 7, 9, 11, 12, 99, Number.MAX_SAFE_INTEGER])
        for (const limit of [1, 3, 99]) {
          const page = await back(before, { limit });
          const items = whole
            .filter((entry) => entry.position < before)
            .reverse()
            .slice(0, limit);
          assert.deepEqual(
            page,
            { items, next: items.at(-1)?.position ?? before, head: 11, floor: 0 },
            `before ${before}, ${limit}`,
          );
        }
      const types = async (query: Promise<{ items: readonly { type: string }[] }>) => (await query).items.map(({ type }) => type);
      assert.deepEqual(await types(back(99, { subject: "run/r1" })), ["11", "10", "5", "4", "3", "2", "1"]);
      assert.deepEqual(await types(back(11, { subject: "run/r1", limit: 3 })), ["10", "5", "4"]);
      assert.deepEqual(await types(back(99, { subject: "run/r1", after: 3 })), ["11", "10", "5", "4"]);
      assert.deepEqual(await types(back(99, { subject: "run/r1", tenant: "beta" })), []);
      assert.deepEqual(await types(back(99, { after: 8 })), ["11", "10", "9"]);
      await fixture.trimLog("acme", 4);
      const rest = await back(99);
      assert.deepEqual([rest.items.length, rest.next, rest.floor], [7, 5, 4]);
      assert.deepEqual(await types(back(7, { subject: "run/r1" })), ["5"]);
      assert.deepEqual(await back(5), { items: [], next: 5, head: 11, floor: 4 });
    }),
};

const typesAreFiltered: ContractCase = {
  title: "[S81] a store selects facts by type prefix, both ways, scans a bounded stretch per page and skips none",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const filler = Array.from({ length: 1_500 }, () => "task.granted");
      for (let turn = 0; turn < 4; turn++)
        await client.write(runCreated("r1", ["audit.start", ...filler]), runCreated("r2", ["audit.stop", "auditor"]));
      const head = 4 * 1_503;
      const pick = async (step: (cursor: number) => object, first: number) => {
        const found: number[] = [];
        let pages = 0;
        for (let cursor = first; ; pages++) {
          const page = await client.store.events({
            tenant: "acme",
            after: 0,
            limit: 3,
            types: ["audit.", "run"],
            ...step(cursor),
          });
          assert.ok(page.items.every((entry) => entry.type.startsWith("audit.")));
          found.push(...page.items.map((entry) => entry.position));
          if (page.next === cursor) return { found, pages };
          cursor = page.next;
        }
      };
      const expected = [0, 1, 2, 3].flatMap((turn) => [turn * 1_503 + 1, turn * 1_503 + 1_502]);

      const ahead = await pick((after) => ({ after }), 0);
      const back = await pick((before) => ({ before }), head + 1);
      assert.deepEqual([ahead.found, back.found], [expected, [...expected].reverse()]);
      const mine = await pick((before) => ({ before, subject: "run/r2" }), head + 1);
      assert.deepEqual(mine.found, expected.filter((_, at) => at % 2 === 1).reverse());
      const none = await client.store.events({ tenant: "acme", after: 0, limit: 9, types: ["none"] });
      assert.deepEqual([none.items, none.next], [[], 5_000]);
      const noneBack = await client.store.events({ tenant: "acme", after: 0, limit: 9, types: ["none"], before: head + 1 });
      assert.deepEqual([noneBack.items, noneBack.next], [[], head + 1 - 5_000]);
    }),
};

export const logCases: readonly ContractCase[] = [
  positionsHaveNoGaps,
  pollingReadersMissNothing,
  packedFactsAreCutAtThePage,
  subjectsHaveHistories,
  cursorsBelowTheFloorGetTheFloor,
  logsAreReadBackwards,
  typesAreFiltered,
];
