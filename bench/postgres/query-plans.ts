// The plans that PostgreSQL uses for the queries of turns and pages on a database with many finished runs. The server explains every statement as it runs
// it, also inside functions (auto_explain), and sends the plan to the connection. A query that reads more the more runs have finished is a defect.

import type { RowKey, RunId, StoreReader } from "@astraflow/engine";
import { openPostgres, PostgresReader } from "@astraflow/store";
import { Client } from "pg";
import { withClient } from "./bench-postgres-server.ts";
import { insertOverdueTasks, overdueTaskQueue } from "./overdue-tasks.ts";
import { PostgresLoad } from "./postgres-load.ts";

export interface QueryPlan {
  /** Who asked: a turn, or a page. */
  readonly asker: string;
  /** The beginning of the statement. */
  readonly statement: string;
  /** How it touches tables: `Index Scan run_due on run: 1 rows`. */
  readonly scans: readonly string[];
  /** Why its cost grows with the number of finished runs, or null. */
  readonly problem: string | null;
}

/** Tables with more rows than this may not be read from end to end. */
const largeTableRows = 10_000;
/** No statement of a small turn has a reason to look at so many rows of one table. */
const scannedRowsMax = 6_000;
const statementChars = 96;
const autoExplainSettings = {
  session_preload_libraries: "auto_explain",
  "auto_explain.log_min_duration": "0",
  "auto_explain.log_nested_statements": "on",
  "auto_explain.log_analyze": "on",
  "auto_explain.log_timing": "off",
  "auto_explain.log_format": "json",
  "auto_explain.log_level": "notice",
} as const;

interface ExplainNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Actual Rows"?: number;
  readonly "Actual Loops"?: number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Index Recheck"?: number;
  readonly Plans?: readonly ExplainNode[];
}

/** Plans of everything that a load and one call of each kind ask of this database. */
export async function collectQueryPlans(url: string): Promise<QueryPlan[]> {
  const sizes = await withClient(url, async (client) => {
    const name = new URL(url).pathname.slice(1);
    for (const [setting, value] of Object.entries(autoExplainSettings))
      await client.query(`ALTER DATABASE "${name}" SET ${setting} = '${value}'`);
    const { rows } = await client.query<{ relname: string; reltuples: number }>(
      "SELECT relname, reltuples FROM pg_class WHERE relkind = 'r' AND relnamespace = 'astraflow'::regnamespace",
    );
    return new Map(rows.map(({ relname, reltuples }) => [relname, reltuples]));
  });
  const plans = new Map<string, QueryPlan>();
  let asker = "";
  const stop = captureExplains((statement, plan) => {
    const figure = { asker, ...evaluatePlan(statement, plan, sizes) };
    const name = `${asker} ${figure.statement} ${figure.scans.map((scan) => scan.split(":")[0]).join()}`;
    // The last plan of its kind is shown, unless an earlier one had a problem.
    if (figure.scans.length > 0 && (plans.get(name)?.problem ?? null) === null) plans.set(name, figure);
  });
  try {
    await runEveryQuery(url, (name) => {
      asker = name;
    });
  } finally {
    stop();
  }
  return [...plans.values()];
}

/** Hears what the server says to any connection of this process from now on. */
function captureExplains(onPlan: (statement: string, plan: ExplainNode) => void): () => void {
  const { connect } = Client.prototype as unknown as { connect: (...args: unknown[]) => unknown };
  const listen = function (this: Client, ...args: unknown[]): unknown {
    this.on("notice", ({ message = "" }) => {
      const at = message.indexOf("{");
      if (!message.startsWith("duration:") || at < 0) return;
      const explained = JSON.parse(message.slice(at)) as { "Query Text": string; Plan: ExplainNode };
      onPlan(explained["Query Text"], explained.Plan);
    });
    return connect.apply(this, args);
  };
  Object.assign(Client.prototype, { connect: listen });
  return () => Object.assign(Client.prototype, { connect });
}

function evaluatePlan(text: string, plan: ExplainNode, sizes: ReadonlyMap<string, number>): Omit<QueryPlan, "asker"> {
  const statement = text
    .replace(/^BEGIN.*?; (?=WITH|SELECT \()/s, "")
    .replace(/\$q[0-9a-f]+\$/g, "'")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, statementChars);
  const scans: string[] = [];
  let problem: string | null = null;
  const walk = (node: ExplainNode): void => {
    const table = node["Relation Name"];
    if (table !== undefined && node["Node Type"].includes("Scan")) {
      const rows = scannedRows(node);
      const type = node["Node Type"];
      scans.push(`${[type, node["Index Name"]].filter(Boolean).join(" ")} on ${table}: ${rows} rows`);
      const isLarge = (sizes.get(table) ?? 0) > largeTableRows;
      if (isLarge && type === "Seq Scan") problem = `reads ${table} from end to end`;
      else if (isLarge && rows > scannedRowsMax) problem = `looks at ${rows} rows of ${table}`;
    }
    for (const child of node.Plans ?? []) walk(child);
  };
  walk(plan);
  return { statement, scans, problem };
}

function scannedRows(node: ExplainNode): number {
  const each = (node["Actual Rows"] ?? 0) + (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Index Recheck"] ?? 0);
  return Math.round(each * (node["Actual Loops"] ?? 1));
}

/** A little load for begin and commit as they are, then what it does not ask for: lists, waiting lines, pages, the log. */
async function runEveryQuery(url: string, setCaller: (asker: string) => void): Promise<void> {
  setCaller("open");
  const store = openPostgres({ url, connections: 1 });
  const load = new PostgresLoad(store, "plans", { chain: 4, inFlight: 40, workers: 4, turnsInFlight: 1 });
  await load.start();
  setCaller("turn");
  await load.runToEnd(400);
  await load.stop();
  const reader = new PostgresReader({ url });
  try {
    const runs = await readEveryPage(reader, setCaller);
    setCaller("turn");
    await insertOverdueTasks(store);
    const rows: RowKey[] = runs.flatMap((id): RowKey[] => [`run/${id}`, `task/${id}.0`]);
    const tx = await store.begin({
      rows: [...rows, "worker/bench/plans-w0", "key/bench/none", "ask/bench/none"],
      claims: [{ line: overdueTaskQueue, limit: 20 }],
      lists: [
        { of: "open", run: runs.at(-1) ?? "", after: "", limit: 100 },
        { of: "held", worker: "bench/plans-w0", limit: 100 },
        { of: "line", line: overdueTaskQueue, limit: 20 },
      ],
      due: 20,
      mail: 100,
      skip: [],
    });
    const claimed = tx.claimed.get(overdueTaskQueue)?.length ?? 0;
    const due = tx.due.length;
    await tx.abort();
    // Else the plans would be those of looking at nothing.
    if (claimed < 20 || due < 20) throw new Error(`of 100 waiting tasks ${claimed} were claimed and ${due} due`);
  } finally {
    await reader.close();
    await store.close();
  }
}

/** Every page and the log, from the front, the middle and for somebody who has nothing; answers the newest runs. */
async function readEveryPage(reader: StoreReader, setCaller: (asker: string) => void): Promise<RunId[]> {
  const tenant = "bench";
  const limit = 100;
  setCaller("page of runs");
  const { items } = await reader.page({ page: "runs", tenant, limit });
  const runs = items.map(({ id }) => id);
  const run = runs.at(-1) ?? "";
  for (const wish of [{ before: run }, { phase: "failed" }, { client: "nobody" }, { tenant: "nobody" }] as const)
    await reader.page({ page: "runs", tenant, limit, ...wish });
  setCaller("page of a run");
  await reader.page({ page: "run", tenant, run });
  setCaller("page of workers");
  await reader.page({ page: "workers", tenant });
  setCaller("page of depths");
  await reader.page({ page: "depth" });
  setCaller("page of the log");
  const { head } = await reader.events({ tenant, after: 0, limit });
  await reader.events({ tenant, after: Math.floor(head / 2), limit });
  setCaller("log of a run");
  await reader.events({ tenant, after: 0, subject: `run/${run}`, limit });
  return runs;
}
