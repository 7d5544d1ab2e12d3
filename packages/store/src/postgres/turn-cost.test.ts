import type { RowKey, TaskRow } from "@astraflow/engine";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { changeSet, docRow, logEntry, readyChangeSet, runRow, taskRow, workerRow } from "../contract/fixtures/sample-rows.ts";
import { StoreClient } from "../contract/fixtures/store-client.ts";
import { type PostgresServer, startPostgres } from "../contract/servers/postgres-server.ts";
import {
  boundedTaskCountsSql,
  chunksSql,
  heldByOwnWorkerSql as heldByWorkerSql,
  logRowsSql,
  openTaskCountsSql,
  routesSql,
  searchDocumentsSql,
  searchRunsSql,
  taskQueueDepthsSql,
  tasksSql,
  walkDocumentsSql,
  walkRunsSql,
} from "./reader/queries.ts";
import { readSettings, searchSettings } from "./reader/reader.ts";
import {
  dueIdsSql,
  dueRunDocumentIdsSql,
  earliestDueSql,
  functionSettings,
  heldTasksSql,
  openTasksSql,
  queueHeadSql,
  queuePreviewSql,
  taskRangeSql,
} from "./sql/begin-function.ts";
import { openPostgres, type PostgresStore } from "./store.ts";

let server: PostgresServer;
const opened: PostgresStore[] = [];

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => await server.stop());
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

async function openClient(url: string): Promise<{ hand: StoreClient; store: PostgresStore }> {
  const store = openPostgres({ url });
  opened.push(store);
  return { hand: await StoreClient.open({ createHandle: () => store }), store };
}

describe("what a turn costs", () => {
  it("[S46] a PostgreSQL turn costs one round trip to begin, one to commit, however much it carries, and one per load of more rows", async () => {
    const { hand: client, store } = await openClient(await server.createDatabase());
    await client.write(changeSet({ puts: [runRow("r1"), taskRow("r1.0")] }));
    const before = store.stats();
    const units = Array.from({ length: 50 }, (_, at) => readyChangeSet(`x${at}`, "l"));
    const rows: RowKey[] = [...units.flatMap((one) => one.roots), "run/r1"];
    const tx = await client.begin({ rows, claims: [{ line: "l", limit: 9 }], due: 9, mail: 9 });
    const begun = store.stats();
    await tx.loadMore(["task/r1.0", "run/x1"], [{ of: "open", run: "r1", after: "", limit: 9 }]);
    const more = store.stats();
    await tx.loadMore(["task/r1.0", "run/r1"], []);
    expect((await client.commit(tx, units)).outcome).toBe("committed");
    const after = store.stats();

    const trips = [before, begun, more, after].map((one) => one.roundTrips);
    expect(trips.map((one) => one - before.roundTrips)).toEqual([0, 1, 2, 3]);
    expect([after.statements - before.statements, after.commits - before.commits, after.turns - before.turns]).toEqual([5, 1, 1]);
  });

  it("[S46] a PostgreSQL turn writes no row that it did not change", async () => {
    const url = await server.createDatabase();
    const { hand: client } = await openClient(url);
    await client.write(changeSet({ puts: [runRow("r1"), workerRow("acme/w1")] }));
    const versions = () =>
      queryValue(
        url,
        "SELECT json_agg(t) FROM (SELECT xmin::text FROM astraflow.run UNION ALL SELECT xmin::text FROM astraflow.worker) t",
      );
    const before = await versions();
    await client.write(
      changeSet({ puts: [runRow("r1"), workerRow("acme/w1")], logEntries: [logEntry("acme", "run/r1", ["looked"])] }),
    );

    expect(await versions()).toEqual(before);
  });
});

describe("texts and numbers that no column takes", () => {
  it("[S47] the PostgreSQL store refuses a change set with a NUL, a lone surrogate, an invalid number or an overlong name, and names it", async () => {
    const { hand: client } = await openClient(await server.createDatabase());
    const poisons = {
      "a NUL in a text": changeSet({ puts: [runRow("r2", { client: "a\0b" })] }),
      "a NUL in a result": changeSet({ roots: ["run/r2"], puts: [taskRow("r2.0", { result: '"\0"' })] }),
      "half a pair": changeSet({ puts: [runRow("r2", { client: "\ud83d" })] }),
      "a NUL in a tenant": changeSet({ puts: [runRow("r2")], logEntries: [logEntry("a\0", "run/r2", ["x"])] }),
      "a NUL in mail": changeSet({ puts: [runRow("r2")], mail: [{ replica: "b", epoch: 1, id: "m", body: "\0" }] }),
      "a fraction": changeSet({ puts: [runRow("r2", { open: 1.5 })] }),
      "a number beyond counting": changeSet({ puts: [runRow("r2", { createdAt: 1e300 })] }),
      "a long line": changeSet({ puts: [runRow("r2"), taskRow("r2.0", { phase: "ready", line: "x".repeat(2_000), rank: 1 })] }),
      "a long subject": changeSet({ puts: [runRow("r2")], logEntries: [logEntry("acme", `run/${randomText(9_000)}`, ["x"])] }),
    };
    for (const [name, poison] of Object.entries(poisons)) {
      const tx = await client.begin({ rows: ["run/r1", "run/r2", "run/r3"] });
      const answer = await client.commit(tx, [changeSet({ puts: [runRow("r1")] }), poison, changeSet({ puts: [runRow("r3")] })]);

      expect({ name, answer }).toMatchObject({ name, answer: { outcome: "failed", unit: 1 } });
      expect([name, ...(await client.read("run/r1", "run/r2"))]).toEqual([name, null, null]);
    }
    await client.write(changeSet({ puts: [runRow("r1"), runRow("r3")] }));
    expect(await client.read("run/a\0b")).toEqual([null]);
    expect((await client.store.page({ page: "run", tenant: "acme", run: "a\0b" })).detail).toBeNull();
  });

  it("[S47] the PostgreSQL store keeps texts that look like quotes, escapes and statements as they are", async () => {
    const { hand } = await openClient(await server.createDatabase());
    const texts = ["$$", "$q$", "'; DROP TABLE x; --", '\\"', "\\u0000", "{}", "NULL", "a\nb\tc\u0001", "\u{1f600}", "%s", ""];
    const puts = texts.map((client, at) => runRow(`r${at}-${client}`, { client, error: JSON.stringify(client) }));
    await hand.write(changeSet({ puts, logEntries: texts.map((text) => logEntry(`t${text}`, `run/${text}`, [text])) }));

    expect(await hand.read(...puts.map((row): RowKey => `run/${row.id}`))).toEqual(puts);
    for (const text of texts) expect((await hand.readLog(`t${text}`))[0]).toMatchObject({ subject: `run/${text}`, type: text });
  });
});

/** Text that no compression makes short enough for an index. */
function randomText(length: number): string {
  let state = 7;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 16).toString(36).slice(-1);
  }).join("");
}

async function queryValue(url: string, text: string): Promise<unknown> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query({ text, rowMode: "array" })).rows[0]?.[0];
  } finally {
    await client.end();
  }
}

interface ExplainedPlan {
  readonly "Node Type": string;
  readonly "Index Name"?: string;
  readonly "Shared Hit Blocks": number;
  readonly "Shared Read Blocks": number;
  readonly Plans?: readonly ExplainedPlan[];
}

const planNodes = (plan: ExplainedPlan): ExplainedPlan[] => [plan, ...(plan.Plans ?? []).flatMap(planNodes)];

describe("plans with history", () => {
  const history = 30_000;
  const blocksMax = 60;

  it("[S14] [S80] the PostgreSQL store finds queues, held tasks, deadlines, open tasks, the log and pages by index, at a cost that history does not raise", {
    timeout: 60_000,
  }, async () => {
    const url = await server.createDatabase();
    const { hand } = await openClient(url);
    const client = new Client({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    const now = 1_800_000_000_000;
    await hand.write(...["live1", "live2", "live3"].map((run) => readyChangeSet(run, "r|x")));
    await hand.write(
      changeSet({ puts: [taskRow("live1.1", { phase: "leased", worker: "acme/w1", due: 5 } as Partial<TaskRow>)] }),
    );
    const [task, run] = [taskRow("ID.0", { phase: "succeeded", worker: "acme/w1" }), runRow("ID", { phase: "succeeded" })];
    for (const [table, row] of [
      ["task", task],
      ["run", run],
    ] as const)
      await client.query(
        `INSERT INTO astraflow.${table} SELECT r.* FROM generate_series(1, ${history}) n,
         json_populate_record(NULL::astraflow.${table}, replace($$${JSON.stringify({ ...row, terms: "old nightly" })}$$, 'ID', 'old' || n)::json) r`,
      );
    await client.query(
      `INSERT INTO astraflow.event SELECT 'acme', n, n, 1, 'run/old' || n, '[]' FROM generate_series(100, ${history}) n`,
    );
    await client.query(
      `INSERT INTO astraflow.chunk SELECT 'old' || n || '.0', 1, 0, 1, n, 0, 1, '[]' FROM generate_series(1, ${history}) n`,
    );
    await client.query(
      `INSERT INTO astraflow.doc SELECT 'acme/letter/old' || n || '.0', 'acme', 'letter', 1, 1, NULL, n::text, 'old', '{}', 'old'
       FROM generate_series(1, ${history}) n`,
    );
    await hand.write(
      changeSet({ puts: [runRow("rare", { label: "Rarity", source: "w1" }), docRow("letter", "live1.0", { due: 5 })] }),
    );
    // The newest entries wait beside an index of words, in a list of bounded length, until it is cleaned.
    await client.query("SELECT gin_clean_pending_list('astraflow.run_words'), gin_clean_pending_list('astraflow.doc_words')");
    const explain = async (
      text: string,
      isTurn: boolean,
      of: object = readSettings,
    ): Promise<{ indexes: string[]; blocks: number; bad: string[] }> => {
      await client.query("BEGIN");
      const settings = isTurn
        ? functionSettings.split("SET ").slice(1)
        : Object.entries(of).map(([name, value]) => `${name} = ${value}`);
      for (const setting of settings) await client.query(`SET LOCAL ${setting}`);
      const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`);
      await client.query("ROLLBACK");
      const plan = (rows[0] as { "QUERY PLAN": { Plan: ExplainedPlan }[] })["QUERY PLAN"][0]?.Plan as ExplainedPlan;
      const nodes = planNodes(plan);
      return {
        indexes: nodes.flatMap((node) => node["Index Name"] ?? []).sort(),
        blocks: plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
        bad: nodes.map((node) => node["Node Type"]).filter((type) => /Seq Scan|Hash Join|Merge Join|Bitmap/.test(type)),
      };
    };
    const at = String(now);
    const page = { page: "runs", tenant: "acme", limit: 20 } as const;
    const deadLetters = { page: "docs", tenant: "acme", collection: "letter", limit: 20 } as const;
    const printed = { page: "chunks", tenant: "acme", task: "old77.0", limit: 9 } as const;
    const query = { tenant: "acme", after: history - 50, limit: 20 };
    const statements: [string, string, boolean, string[]][] = [
      ["claim", queueHeadSql("'r|x'", "2", "'{}'::text[]"), true, ["run_pkey", "task_line"]],
      ["look", queuePreviewSql("'r|x'", "2"), true, ["task_line"]],
      ["held", heldTasksSql("'acme/w1'", "9"), true, ["task_held"]],
      ["open", openTasksSql("'live1.'", "'live1'", "9"), true, ["task_pkey"]],
      ["due tasks", dueIdsSql("task", at, "9", "'{}'::text[]"), true, ["run_pkey", "task_due"]],
      ["due runs", dueIdsSql("run", at, "9", "'{}'::text[]"), true, ["run_due"]],
      ["due workers", dueIdsSql("worker", at, "9", "'{}'::text[]"), true, ["worker_due"]],
      ["next due", earliestDueSql("task", at), true, ["task_due"]],
      ["events", logRowsSql(query), false, ["event_pkey", "event_pkey"]],
      ["history of a run", logRowsSql({ ...query, after: 0, subject: "run/old77" }), false, ["event_of", "event_of"]],
      ["runs", walkRunsSql({ page: "runs", tenant: "acme", limit: 20 }, 21), false, ["run_of"]],
      ["a worker's attempts", heldByWorkerSql("acme", "acme/w1", 9), false, ["task_held", "worker_pkey"]],
      ["routes", routesSql, false, ["route_pkey"]],
      ["failed runs", walkRunsSql({ page: "runs", tenant: "acme", limit: 20, phase: "failed" }, 21), false, ["run_phase"]],
    ];
    statements.push(
      ["range", taskRangeSql("'old5.'", "'old5.9'", "'old5'", "9"), true, ["task_pkey"]],
      ["due documents", dueIdsSql("doc", at, "9", "'{}'::text[]"), true, ["doc_due"]],
      ["due letters", dueRunDocumentIdsSql(at, "9", "'{}'::text[]"), true, ["doc_due", "run_pkey"]],
      ["runs of a workflow", walkRunsSql({ ...page, source: "w1", phase: "failed" }, 21), false, ["run_source"]],
      ["runs since", walkRunsSql({ ...page, since: now, until: now + 1 }, 21), false, ["run_of"]],
      ["tasks", tasksSql({ tenant: "acme", run: "old7", limit: 9 }), false, ["run_pkey", "task_pkey"]],
      ["documents", walkDocumentsSql({ ...deadLetters, after: '["7","x"]' }, 21), false, ["doc_list"]],
      ["documents back", walkDocumentsSql({ ...deadLetters, order: "desc", after: '["7","x"]' }, 21), false, ["doc_list"]],
      ["documents by name", walkDocumentsSql({ ...deadLetters, prefix: "old77." }, 21), false, ["doc_pkey"]],
      ["chunks", chunksSql(printed), false, ["chunk_pkey", "chunk_pkey", "chunk_pkey", "chunk_pkey", "run_pkey"]],
      [
        "lines",
        taskQueueDepthsSql({ page: "lines", tenant: "acme", max: 9 }),
        false,
        ["route_pkey", "task_line", "task_line", "task_line"],
      ],
      ["events back", logRowsSql({ ...query, before: 5_000 }), false, ["event_pkey"]],
      ["history back", logRowsSql({ ...query, before: 99_999, subject: "run/old77" }), false, ["event_of"]],
    );
    for (const isAnalyzed of [false, true]) {
      if (isAnalyzed) await client.query("ANALYZE");
      for (const [name, text, isTurn, indexes] of statements) {
        const plan = await explain(text, isTurn);
        const what = `${name}, ${isAnalyzed ? "analyzed" : "never analyzed"}`;
        expect({ what, ...plan, blocks: Math.max(plan.blocks, blocksMax) }).toEqual({
          what,
          indexes,
          bad: [],
          blocks: blocksMax,
        });
      }
      for (const text of [openTaskCountsSql, boundedTaskCountsSql(undefined, 2), boundedTaskCountsSql("acme", undefined)]) {
        const depth = await explain(text, false);
        expect(depth.indexes).toContain("run_phase");
        expect(depth.blocks).toBeLessThan(blocksMax);
      }
      const search = await explain(searchRunsSql({ ...page, search: "rari" }, 21), false, searchSettings);
      expect(search.indexes).toEqual(["run_words"]);
      expect(search.blocks).toBeLessThan(blocksMax);
      const docs = await explain(searchDocumentsSql({ ...deadLetters, search: "rari" }, 21), false, searchSettings);
      expect(docs.indexes).toEqual(["doc_words"]);
      expect(docs.blocks).toBeLessThan(blocksMax);
    }
    await client.end();
  });
});
