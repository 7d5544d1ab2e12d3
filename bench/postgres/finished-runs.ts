// A database with many finished runs for the postgres bench. The real engine runs one; its rows are then multiplied inside the database, with older ids and
// positions of their own. A million turns would take minutes and write the same rows.

import { openPostgres } from "@astraflow/store";
import type { Client } from "pg";
import { showProgress } from "../harness/statistics.ts";
import { withClient } from "./bench-postgres-server.ts";
import { PostgresLoad } from "./postgres-load.ts";

const schema = "astraflow";
const runsPerStatement = 5_000;

/** Answers how many finished tasks are stored. */
export async function fillFinishedRuns(url: string, tasks: number, chain: number): Promise<number> {
  const run = await runOneChain(url, chain);
  const runs = Math.ceil(tasks / chain);
  return withClient(url, async (client) => {
    await client.query("SET synchronous_commit = off");
    const copy = await createRunCopier(client, run, runs);
    for (let done = 0; done < runs; done += runsPerStatement) {
      for (const sql of copy.statements(done + 1, Math.min(runs, done + runsPerStatement))) await client.query(sql);
      showProgress("filling the database", Math.min(runs, done + runsPerStatement), runs);
    }
    await client.query(`UPDATE ${schema}.tenant SET position = position + ${copy.facts * runs}`);
    await client.query("VACUUM ANALYZE");
    await client.query("CHECKPOINT");
    const { rows } = await client.query<{ count: string }>(`SELECT count(*) FROM ${schema}.task WHERE phase = 'succeeded'`);
    return Number(rows[0]?.count);
  });
}

/** One run from its start to its end; answers its id. */
async function runOneChain(url: string, chain: number): Promise<string> {
  const store = openPostgres({ url, connections: 1 });
  const load = new PostgresLoad(store, "past", { chain, inFlight: 1, workers: 1, turnsInFlight: 1 });
  await load.start();
  await load.runToEnd(chain);
  await load.stop();
  await store.close();
  const rows = await withClient(url, async (client) => (await client.query<{ id: string }>(`SELECT id FROM ${schema}.run`)).rows);
  const [first] = rows;
  if (first === undefined || rows.length !== 1) throw new Error(`expected one run in the database, found ${rows.length}`);
  return first.id;
}

interface RunCopier {
  /** Facts of one run. */
  readonly facts: number;
  statements(from: number, to: number): string[];
}

async function createRunCopier(client: Client, run: string, runs: number): Promise<RunCopier> {
  const one = async (sql: string) => Number(Object.values((await client.query<Record<string, string>>(sql)).rows[0] ?? {})[0]);
  const facts = await one(`SELECT sum(last - first + 1) FROM ${schema}.event WHERE subject = 'run/${run}'`);
  const head = await one(`SELECT position FROM ${schema}.tenant`);
  const born = (await one(`SELECT "createdAt" FROM ${schema}.run`)) - runs - 1_000;
  const time = `lpad(to_hex(${born} + g), 12, '0')`;
  const id = `(substr(${time}, 1, 8) || '-' || substr(${time}, 9) || '-7000-8000-' || lpad(to_hex(g), 12, '0'))`;
  const before = "(sum(t.last - t.first + 1) OVER (PARTITION BY g ORDER BY t.first) - (t.last - t.first + 1))";
  const first = `${head} + (g - 1) * ${facts} + ${before} + 1`;
  /** What differs from the first run, by table; all other columns are copied. */
  const changed: Record<string, Record<string, string>> = {
    run: { id },
    task: { id: `${id} || substr(t.id, ${run.length + 1})` },
    event: {
      first,
      last: `${first} + t.last - t.first`,
      subject: `'run/' || ${id}`,
      facts: `replace(t.facts, '${run}', ${id})`,
    },
  };
  const ofRun: Record<string, string> = {
    run: `t.id = '${run}'`,
    task: `t.id LIKE '${run}.%'`,
    event: `t.subject = 'run/${run}'`,
  };
  const columns = await readColumns(client);
  return {
    facts,
    statements: (from, to) =>
      Object.entries(changed).map(([table, values]) => {
        const names = columns.get(table) ?? [];
        const cells = names.map((name) => values[name] ?? `t."${name}"`).join(", ");
        return `INSERT INTO ${schema}.${table} (${names.map((name) => `"${name}"`).join(", ")})
          SELECT ${cells} FROM ${schema}.${table} t CROSS JOIN generate_series(${from}::bigint, ${to}) g WHERE ${ofRun[table]} ORDER BY g`;
      }),
  };
}

async function readColumns(client: Client): Promise<Map<string, string[]>> {
  const { rows } = await client.query<{ table_name: string; column_name: string }>(
    `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = '${schema}' ORDER BY ordinal_position`,
  );
  const columns = new Map<string, string[]>();
  for (const { table_name: table, column_name: column } of rows) columns.set(table, [...(columns.get(table) ?? []), column]);
  return columns;
}
