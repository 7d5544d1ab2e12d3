// The contract on documents and on what tasks print: names, order, search, locks, deadlines, age.

import assert from "node:assert/strict";
import { type DocRow, docKey, keyOf, type PageQuery, type Row, rootOf, runKey } from "@astraflow/engine";
import { changeSet, chunkRow, docRow, logEntry, runRow, taskRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

type DocsFilter = Partial<Omit<Extract<PageQuery, { page: "docs" }>, "page" | "limit">>;

/** All pages of a list, by names. */
async function listAllPages(client: StoreClient, filter: DocsFilter, limit: number): Promise<string[]> {
  const ids: string[] = [];
  for (let after: string | undefined; ; ) {
    const page = await client.store.page({
      page: "docs",
      tenant: "acme",
      collection: "workflow",
      limit,
      ...filter,
      ...(after === undefined ? {} : { after }),
    });
    assert.ok(page.items.length <= limit);
    ids.push(...page.items.map((doc) => doc.id));
    if (page.next === null) return ids;
    after = page.next;
  }
}

const collectionsAreListed: ContractCase = {
  title:
    "[S70] a store lists a collection by sort key, then name, both ways and by cursor, with nothing of another collection or tenant",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const docs = ["d", "a", "c", "b", "e"].map((name, at) =>
        docRow("workflow", name, { sort: at < 3 ? "same" : `later ${name}` }),
      );
      const others = [
        docRow("workflows", "a"),
        docRow("workflo", "w/a"),
        docRow("workflow", "a", { tenant: "acme2" }),
        docRow("version", "a/1"),
      ];
      await client.write(
        changeSet({ puts: [...docs, ...others], logEntries: [logEntry("acme", "doc/acme/workflow/a", ["made"])] }),
      );
      const expected = ["later b", "later e", "same a", "same c", "same d"].map((name) => `acme/workflow/${name.split(" ")[1]}`);

      for (const limit of [1, 2, 5, 9]) {
        assert.deepEqual(await listAllPages(client, {}, limit), expected, `limit ${limit}`);
        assert.deepEqual(await listAllPages(client, { order: "desc" }, limit), [...expected].reverse(), `limit ${limit}, desc`);
      }
      assert.deepEqual(await listAllPages(client, { tenant: "acme2" }, 9), ["acme2/workflow/a"]);
      assert.deepEqual(await listAllPages(client, { tenant: "none" }, 9), []);
      const page = await client.store.page({ page: "docs", tenant: "acme", collection: "workflow", limit: 1 });
      assert.deepEqual([page.items, page.head], [[docs[3]], 1]);
      await assert.rejects(listAllPages(client, { after: "nonsense" }, 9), { code: "E.REQUEST.INVALID" });
    }),
};

const documentsAreFoundByPrefixAndWords: ContractCase = {
  title: "[S70] a store finds documents by a prefix of their name and by prefixes of words that must all match, in list order",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const puts = [
        docRow("workflow", "w1/1", { sort: "3", terms: "nightly report über" }),
        docRow("workflow", "w1/2", { sort: "2", terms: "nightly-build" }),
        docRow("workflow", "w10/1", { sort: "1", terms: "report" }),
        docRow("workflow", "w2", { sort: "0", terms: "anightly" }),
        docRow("workflow", "w%", { sort: "9", terms: "100% a_b" }),
      ];
      await client.write(changeSet({ puts }));
      const names = async (filter: DocsFilter, limit = 9) =>
        (await listAllPages(client, filter, limit)).map((id) => id.slice(14));

      assert.deepEqual(await names({ prefix: "w1/" }), ["w1/2", "w1/1"]);
      assert.deepEqual(await names({ prefix: "w1/" }, 1), ["w1/2", "w1/1"]);
      assert.deepEqual(await names({ prefix: "w1", order: "desc" }, 2), ["w1/1", "w1/2", "w10/1"]);
      assert.deepEqual(await names({ prefix: "w%" }), ["w%"]);
      assert.deepEqual(await names({ search: "night" }, 1), ["w1/2", "w1/1"]);
      assert.deepEqual(await names({ search: "REPORT, night" }), ["w1/1"]);
      assert.deepEqual(await names({ search: "build" }), ["w1/2"]);
      assert.deepEqual(await names({ search: "üb" }), ["w1/1"]);
      assert.deepEqual(await names({ search: "b" }), ["w1/2", "w%"]);
      assert.deepEqual(await names({ search: "report", prefix: "w10" }), ["w10/1"]);
      assert.deepEqual(await names({ search: "nothing" }), []);
      assert.equal((await names({ search: " .*% " })).length, puts.length);
      await client.write(
        changeSet({
          puts: [
            { ...(puts[0] as DocRow), terms: "weekly über" },
            { ...(puts[1] as DocRow), sort: "8" },
          ],
        }),
        changeSet({ deletes: [keyOf(puts[2] as DocRow)] }),
      );
      assert.deepEqual(await names({ search: "report" }), []);
      assert.deepEqual(await names({ search: "week üb" }, 1), ["w1/1"]);
      assert.deepEqual(await names({ search: "night" }, 1), ["w1/2"]);
    }),
};

const documentsAreReadByName: ContractCase = {
  title: "[S71] a store returns documents by name in the requested order, null for absent ones, and none to another tenant",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const [a, b] = [docRow("user", "a"), docRow("user", "b/c", { body: '{"x":1}' })];
      await client.write(changeSet({ puts: [a, b] }));
      const ask = async (tenant: string, ...names: string[]) =>
        (await client.store.page({ page: "doc", tenant, collection: "user", names })).items;

      assert.deepEqual(await ask("acme", "b/c", "none", "a", "a"), [b, null, a, a]);
      assert.deepEqual(await ask("beta", "a"), [null]);
      assert.deepEqual(await ask("acme"), []);
    }),
};

const documentsAreRoots: ContractCase = {
  title: "[S72] a store locks a document by its own key, even before it exists: of two turns that create it, one succeeds",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const one = await StoreClient.open(fixture, "a");
      const two = fixture.hasConcurrentTurns ? await StoreClient.open(fixture, fixture.handlesMax > 1 ? "b" : "a") : null;
      const key = docKey("acme", "workflow", "w1");
      const make1 = changeSet({ puts: [docRow("workflow", "w1", { body: '"one"' })], inserted: new Set([key]) });
      if (fixture.hasConcurrentTurns && two !== null) {
        const first = await one.begin({ rows: [key] });
        const second = await two.begin({ rows: [key] });
        assert.deepEqual([first.row("doc", "acme/workflow/w1"), second.row("doc", "acme/workflow/w1")], [null, "busy"]);
        const refused = await two.commit(second, [changeSet({ puts: [docRow("workflow", "w1", { body: '"two"' })] })]);
        assert.equal(refused.outcome, "failed");
        assert.equal((await one.commit(first, [make1])).outcome, "committed");
        assert.deepEqual(await two.read(key), make1.puts);
      } else await one.write(make1);

      const tx = await one.begin({ rows: [key] });
      const again = await one.commit(tx, [make1]);
      assert.deepEqual([again.outcome, again.outcome === "failed" ? again.unit : null], ["failed", 0]);
      const free = await one.begin({ rows: ["run/r1"] });
      assert.equal(
        (await one.commit(free, [changeSet({ roots: ["run/r1"], puts: [docRow("workflow", "w1")] })])).outcome,
        "failed",
      );
      assert.deepEqual(await one.read(key), make1.puts);
      await one.write(changeSet({ deletes: [key] }));
      assert.deepEqual(await one.read(key), [null]);
    }),
};

const deadLettersBelongToRuns: ContractCase = {
  title:
    "[S72] a store locks a dead letter by its task's run: a turn that holds the run may read and write it, others find it busy",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const one = await StoreClient.open(fixture, "a");
      const deadLetter = docRow("letter", "r1.4*2/7", { body: '{"code":"E.X"}' });
      const key = keyOf(deadLetter);
      assert.equal(rootOf(key), "run/r1");
      await one.write(
        changeSet({ roots: ["run/r1"], puts: [runRow("r1"), taskRow("r1.4*2/7"), deadLetter], inserted: new Set([key]) }),
      );

      assert.deepEqual(await one.read(key, "run/r1"), [deadLetter, runRow("r1")]);
      const next: DocRow = { ...deadLetter, rev: 2, body: "{}" };
      // Only the dead letter is requested; its run is loaded with it.
      const bare = await one.begin();
      await bare.loadMore([key], []);
      assert.deepEqual(bare.row("doc", deadLetter.id), deadLetter);
      assert.equal((await one.commit(bare, [changeSet({ roots: ["run/r1"], puts: [next] })])).outcome, "committed");
      const tx = await one.begin({ rows: ["run/r1"] });
      await tx.loadMore([key], []);
      assert.deepEqual(tx.row("doc", deadLetter.id), next);
      if (fixture.hasConcurrentTurns) {
        const two = await StoreClient.open(fixture, "b");
        assert.deepEqual(await two.read(key, docKey("acme", "letter", "r2.0")), ["busy", null]);
      }
      await tx.abort();
      await one.write(changeSet({ roots: ["run/r1"], deletes: [key] }));
      assert.deepEqual(await one.read(key), [null]);
    }),
};

const documentsHaveDeadlines: ContractCase = {
  title: "[S73] a store hands out due documents among all other due rows, with their roots locked, and returns the next due time",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const { now } = await client.begin().then(async (tx) => (await tx.abort(), tx));
      const rows: Row[] = [
        runRow("r1", { due: now - 30 }),
        docRow("upload", "u1", { due: now - 20 }),
        docRow("letter", "r1.0", { due: now - 10 }),
        docRow("letter", "r2.0", { due: now - 5 }),
        docRow("upload", "u2", { due: now + 1_000 }),
        docRow("upload", "u3"),
        runRow("r2"),
      ];
      await client.write(changeSet({ puts: rows }));

      const tx = await client.begin({ due: 9 });
      assert.deepEqual(tx.due, rows.slice(0, 4));
      assert.equal(tx.nextDue, now + 1_000);
      const ended = rows.slice(0, 4).map((row) => ({ ...row, due: null }) as Row);
      assert.equal((await client.commit(tx, [changeSet({ puts: ended })])).outcome, "committed");
      const after = await client.begin({ due: 9 });
      assert.deepEqual([after.due, after.nextDue], [[], now + 1_000]);
      await after.abort();
      fixture.advance(2_000);
      const skipping = await client.begin({ due: 9, skip: [docKey("acme", "upload", "u2")] });
      assert.deepEqual(skipping.due, []);
      await skipping.abort();
      const last = await client.begin({ due: 9 });
      assert.deepEqual(last.due, [rows[4]]);
      await last.abort();
    }),
};

const skippedRunsKeepTheirDeadLetters: ContractCase = {
  title: "[S73] a store hands out no due dead letter of a run that the turn skips",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const deadLetter = docRow("letter", "r1.0", { due: 5 });
      await client.write(changeSet({ puts: [runRow("r1"), deadLetter] }));
      const due = async (skip: readonly ReturnType<typeof runKey>[]) => {
        const tx = await client.begin({ due: 9, skip });
        await tx.abort();
        return tx.due;
      };

      assert.deepEqual(await due([runKey("r1")]), []);
      assert.deepEqual(await due([]), [deadLetter]);
    }),
};

const outputChunksAreStored: ContractCase = {
  title:
    "[S74] a store keeps an attempt's output chunks once, in order from any chunk or line, and returns the newest attempt by default",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const task = "r1.4*2/7";
      const print = (...chunks: ReturnType<typeof chunkRow>[]) => client.write(changeSet({ roots: ["run/r1"], chunks }));
      await client.write(
        changeSet({ puts: [runRow("r1"), taskRow(task)], logEntries: [logEntry("acme", "run/r1", ["made"])] }),
        changeSet({ puts: [runRow("q1", { tenant: "beta" })] }),
      );
      const rows = [
        chunkRow(task, 1, 0, { count: 3, line: 0, lines: 2 }),
        chunkRow(task, 1, 3, { count: 1, line: 2, lines: 0 }),
        chunkRow(task, 1, 4, { count: 2, line: 2, lines: 5, body: '["ü"]' }),
      ];
      await print(rows[2] as (typeof rows)[0], rows[0] as (typeof rows)[0]);
      await print(rows[1] as (typeof rows)[0], chunkRow(task, 1, 0, { body: '["another"]' }), chunkRow("r1.4", 9, 0));
      const ask = async (over: object) =>
        (await client.store.page({ page: "chunks", tenant: "acme", task, limit: 9, ...over })).items;

      assert.deepEqual(await client.store.page({ page: "chunks", tenant: "acme", task, limit: 9 }), { items: rows, head: 1 });
      assert.deepEqual(await ask({ limit: 2 }), rows.slice(0, 2));
      for (const [fromChunk, first] of [
        [0, 0],
        [2, 0],
        [3, 1],
        [4, 2],
        [5, 2],
        [6, 3],
      ] as const)
        assert.deepEqual(await ask({ fromChunk }), rows.slice(first), `from chunk ${fromChunk}`);
      for (const [fromLine, first] of [
        [0, 0],
        [1, 0],
        [2, 2],
        [6, 2],
        [7, 3],
      ] as const)
        assert.deepEqual(await ask({ fromLine }), rows.slice(first), `from line ${fromLine}`);
      assert.deepEqual(await ask({ tenant: "beta" }), []);
      assert.deepEqual(await ask({ task: "r9.0" }), []);
      const newer = chunkRow(task, 2, 0);
      await print(newer);
      assert.deepEqual([await ask({}), await ask({ fence: 1 }), await ask({ fence: 3 })], [[newer], rows, []]);
    }),
};

const outputChunksNeedTheirRun: ContractCase = {
  title: "[S74] a store refuses output chunks in a change set that does not hold their run, and chunks with invalid values",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.write(changeSet({ puts: [runRow("r1"), runRow("r2")] }));
      const bad = [
        changeSet({ roots: ["run/r1"], chunks: [chunkRow("r2.0", 1, 0)] }),
        changeSet({ roots: ["run/r2"], chunks: [chunkRow("r2.0", 1.5, 0)] }),
        changeSet({ roots: ["run/r2"], chunks: [chunkRow("r2.0", 1, 0, { body: null as unknown as string })] }),
      ];
      for (const one of bad) {
        const tx = await client.begin({ rows: ["run/r1", "run/r2"] });
        const answer = await client.commit(tx, [changeSet({ roots: ["run/r1"], chunks: [chunkRow("r1.0", 1, 0)] }), one]);
        assert.deepEqual([answer.outcome, answer.outcome === "failed" ? answer.unit : null], ["failed", 1]);
      }
      assert.deepEqual((await client.store.page({ page: "chunks", tenant: "acme", task: "r1.0", limit: 9 })).items, []);
    }),
};

const outputChunksAreTrimmedByAge: ContractCase = {
  title: "[S75] a store removes output chunks from before an instant, and none from that instant or later",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const chunks = Array.from({ length: 30 }, (_, at) => chunkRow(`r1.${at % 3}`, 1, at * 2, { at: 100 + at }));
      await client.write(changeSet({ puts: [runRow("r1")], chunks }));

      await fixture.trimChunks(115);

      for (const slot of [0, 1, 2]) {
        const { items } = await client.store.page({ page: "chunks", tenant: "acme", task: `r1.${slot}`, limit: 99 });
        assert.deepEqual(
          items,
          chunks.filter((chunk) => chunk.task === `r1.${slot}` && chunk.at >= 115),
        );
      }
    }),
};

export const documentCases: readonly ContractCase[] = [
  collectionsAreListed,
  documentsAreFoundByPrefixAndWords,
  documentsAreReadByName,
  documentsAreRoots,
  deadLettersBelongToRuns,
  documentsHaveDeadlines,
  skippedRunsKeepTheirDeadLetters,
  outputChunksAreStored,
  outputChunksNeedTheirRun,
  outputChunksAreTrimmedByAge,
];
