// Many stored runs for the run list bench, written through the store as the engine would leave them: only rows of runs, because a list reads neither tasks
// nor the log. The same number gives the same runs in every store.

import type { RowKey, RunPhase, RunRow, Store } from "@astraflow/engine";
import { runKey } from "@astraflow/engine";
import { sampleRun } from "@astraflow/engine/testing";
import { showProgress } from "../harness/statistics.ts";

export const tenant = "bench";
/** Runs were started this far apart, so that their ids lie in time as real ones do. */
const runIntervalMs = 500;
const firstRunAt = Date.UTC(2026, 0, 1);
const workflows = 200;
const clients = 20;
const runsPerTurn = 2_000;

/** Every 50th failed, every 200th was cancelled; the newest few still run. */
function phaseOf(at: number, runs: number): RunPhase {
  if (at >= runs - 20) return "running";
  if (at % 50 === 7) return "failed";
  return at % 200 === 11 ? "cancelled" : "succeeded";
}

/** One workflow was run three times, long ago; the others share the rest. */
export const rareWorkflow = "workflow-rare";
const workflowOf = (at: number): string => (at < 3 ? rareWorkflow : `workflow-${at % workflows}`);
export const commonWorkflow = "workflow-17";

/** A word of a single old run, one of every 20th run, and one of many runs of the older half. */
export const rareWord = "zanzibar";
export const commonWord = "invoice";
export const olderRunsWord = "legacy";
const labelOf = (at: number, runs: number): string => {
  if (at === 5) return `Report ${rareWord}`;
  if (at < runs / 2 && at % 20 === 4) return `${olderRunsWord} report ${at % workflows}`;
  return `${at % 20 === 3 ? commonWord : "nightly report"} ${at % workflows}`;
};

export function runAt(at: number, runs: number): RunRow {
  const createdAt = firstRunAt + at * runIntervalMs;
  const phase = phaseOf(at, runs);
  const isOver = phase !== "running";
  const error = { code: "E.RUNNER.FAILED", message: `step ${at % 40} failed with exit code ${at % 7}` };
  return sampleRun(runIdAt(createdAt, at), {
    tenant,
    phase,
    workflow: `${tenant}/0123456789abcdefghijkl`,
    client: `client-${at % clients}`,
    open: isOver ? 0 : 1,
    createdAt,
    startedAt: createdAt + 3,
    endedAt: isOver ? createdAt + 900 : null,
    error: phase === "failed" ? JSON.stringify(error) : null,
    label: labelOf(at, runs),
    source: workflowOf(at),
    about: JSON.stringify({ by: `user-${at % 50}`, version: 3, labels: { team: `team-${at % 10}` } }),
    bindings: JSON.stringify({ demo: { worker: `${tenant}/w${at % 8}`, at: createdAt + 100 } }),
  });
}

function runIdAt(instant: number, at: number): string {
  const time = instant.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${at.toString(16).padStart(12, "0")}`;
}

/** Opens the store as a scheduler would, and writes them, oldest first. */
export async function insertRuns(store: Store, runs: number): Promise<void> {
  let { lastTurn: turn } = await store.open({ replica: "bench", cluster: "bench" });
  for (let from = 0; from < runs; from += runsPerTurn) {
    const puts = Array.from({ length: Math.min(runsPerTurn, runs - from) }, (_, at) => runAt(from + at, runs));
    const roots: RowKey[] = puts.map(({ id }) => runKey(id));
    const tx = await store.begin({ rows: roots, claims: [], lists: [], due: 0, mail: 0, skip: [] });
    turn += 1;
    const done = await tx.commit(turn, [
      { roots, puts, inserted: new Set(roots), deletes: [], enqueued: [], logEntries: [], mail: [] },
    ]);
    if (done.outcome !== "committed") throw new Error(`a turn of runs was ${done.outcome}`);
    showProgress("filling the store", Math.min(runs, from + runsPerTurn), runs);
  }
}
