// Pages of the list of runs: milliseconds a page with very many runs beside the same with few, for all filters. On sqlite, and with --postgres also on a
// PostgreSQL server of its own. Uses the store's reader, as the REST API does.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PageQuery, StoreReader } from "@astraflow/engine";
import { openPostgres, openSqlite, PostgresReader, SqliteReader } from "@astraflow/store";
import { loadAverage } from "../harness/child-programs.ts";
import { formatInteger, percentile, percentiles, readNumberOption, recordFigures } from "../harness/statistics.ts";
import { BenchPostgresServer, withClient } from "../postgres/bench-postgres-server.ts";
import { commonWord, commonWorkflow, insertRuns, olderRunsWord, rareWord, rareWorkflow, runAt, tenant } from "./stored-runs.ts";

type RunListQuery = Extract<PageQuery, { page: "runs" }>;
type RunListFilter = Omit<RunListQuery, "page" | "tenant" | "limit">;

interface FilledStore {
  readonly runs: number;
  readonly reader: StoreReader;
}

const limit = 50;
const smallStoreRuns = 1_000;

export async function runListBench(argv: readonly string[]): Promise<void> {
  const runs = readNumberOption(argv, "runs-stored", 1_000_000);
  const times = readNumberOption(argv, "pages", 100);
  await onSqlite(runs, times);
  if (argv.includes("--postgres")) await onPostgres(runs, times);
}

async function onSqlite(runs: number, times: number): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "astra-list-"));
  const contenders: FilledStore[] = [];
  try {
    for (const [name, count] of [
      ["few", smallStoreRuns],
      ["many", runs],
    ] as const) {
      const file = join(dir, name, "astra.db");
      const store = openSqlite({ file, clock: { wall: () => Date.now(), mono: () => performance.now() } });
      await fillAndReport("sqlite", count, () => insertRuns(store, count));
      await store.close();
      contenders.push({ runs: count, reader: new SqliteReader({ file }) });
    }
    await compareStores("sqlite", contenders, times);
  } finally {
    for (const { reader } of contenders) await reader.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function onPostgres(runs: number, times: number): Promise<void> {
  const server = await BenchPostgresServer.start();
  const contenders: FilledStore[] = [];
  try {
    for (const [name, count] of [
      ["few", smallStoreRuns],
      ["many", runs],
    ] as const) {
      const url = await server.createDatabase(name);
      const store = openPostgres({ url, connections: 1 });
      await fillAndReport("postgres", count, () => insertRuns(store, count));
      await store.close();
      await withClient(url, (client) => client.query("VACUUM ANALYZE"));
      contenders.push({ runs: count, reader: new PostgresReader({ url }) });
    }
    await compareStores("postgres", contenders, times);
  } finally {
    for (const { reader } of contenders) await reader.close();
    await server.stop();
  }
}

async function fillAndReport(store: string, runs: number, fill: () => Promise<void>): Promise<void> {
  const from = performance.now();
  await fill();
  const ms = performance.now() - from;
  console.log(
    `${store}: ${formatInteger(runs)} runs written in ${(ms / 1_000).toFixed(1)} s, ${formatInteger((runs / ms) * 1_000)} a second`,
  );
}

/** What is asked of a store with so many runs: from the newest on, by each filter, and deep down in the list. */
function listQueries(runs: number): [string, RunListFilter][] {
  const idOf = (at: number) => runAt(Math.max(0, at), runs).id;
  const day = 86_400_000;
  return [
    ["newest", {}],
    ["middle of the list", { before: idOf(Math.floor(runs / 2)) }],
    ["last page", { before: idOf(limit) }],
    ["status running", { phase: "running" }],
    ["status failed", { phase: "failed" }],
    ["status failed, last page", { phase: "failed", before: idOf(limit * 50) }],
    ["status succeeded", { phase: "succeeded" }],
    ["workflow, common", { source: commonWorkflow }],
    ["workflow, common, last page", { source: commonWorkflow, before: idOf(limit * 200) }],
    ["workflow, rare", { source: rareWorkflow }],
    ["workflow and status failed", { source: "workflow-7", phase: "failed" }],
    ["client", { client: "client-3" }],
    ["a day", { since: runAt(0, runs).createdAt, until: runAt(0, runs).createdAt + day }],
    ["search, common word", { search: commonWord }],
    ["search, two words", { search: `${commonWord} user-3` }],
    ["search, word of an old run", { search: rareWord }],
    ["search, word of many old runs", { search: olderRunsWord }],
    ["search, nothing found", { search: "quagga" }],
    ["search, common word, last page", { search: commonWord, before: idOf(limit * 20) }],
    ["search, words of an error", { search: "exit code 3", phase: "failed" }],
  ];
}

interface PageTimings {
  readonly ms: number[];
  items: number;
  isMore: boolean;
}

/** All sides in turn: what disturbs the machine disturbs both. */
async function compareStores(store: string, contenders: readonly FilledStore[], times: number): Promise<void> {
  console.log(`${store}: pages of ${limit} runs, p50 / p99 ms of ${times} each, interleaved (load ${loadAverage()}):`);
  console.log(
    `  ${"".padEnd(31)} ${contenders.map(({ runs }) => `${formatInteger(runs)} runs`.padStart(18)).join(" ")}   growth   found, more`,
  );
  for (const [at, [name]] of listQueries(smallStoreRuns).entries()) {
    const measured = contenders.map((): PageTimings => ({ ms: [], items: 0, isMore: false }));
    for (let time = -3; time < times; time++)
      for (const [side, { runs, reader }] of contenders.entries()) {
        const [, filter] = listQueries(runs)[at] as [string, RunListFilter];
        const from = performance.now();
        const { items, next } = await reader.page({ page: "runs", tenant, limit, ...filter });
        const one = measured[side] as PageTimings;
        // The first few only warm up.
        if (time >= 0) one.ms.push(performance.now() - from);
        one.items = items.length;
        one.isMore = next !== null;
      }
    showQuery(name, measured);
    recordFigures("pages", {
      store,
      question: name,
      sides: measured.map(({ ms, items, isMore }, side) => ({
        runs: contenders[side]?.runs,
        ms: percentiles(ms),
        items,
        isMore,
      })),
    });
  }
}

function showQuery(name: string, measured: readonly PageTimings[]): void {
  const say = ({ ms }: PageTimings) => `${percentile(ms, 0.5).toFixed(2)} / ${percentile(ms, 0.99).toFixed(2)}`.padStart(18);
  const [few, many] = measured as [PageTimings, PageTimings];
  const growth = percentile(many.ms, 0.5) / percentile(few.ms, 0.5);
  // Where the few have fewer to show, they are quicker for that reason alone.
  const found = few.items === many.items ? `${many.items}` : `${few.items} and ${many.items}`;
  console.log(
    `  ${name.padEnd(31)} ${measured.map(say).join(" ")}   ${growth.toFixed(1).padStart(6)}   ${found}${many.isMore ? ", more follow" : ""}`,
  );
}
