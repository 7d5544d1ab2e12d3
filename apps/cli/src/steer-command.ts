// `astra runs cancel|retry|replay|rebind|skip` and `astra bulk`: changing runs that are under way or over.

import { setTimeout as pause } from "node:timers/promises";
import type { Bulk, BulkFilter, BulkRequest, RunPlan, RunRef, Steered } from "@astraflow/protocol";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "./failure.ts";
import { type RunsWords, runsOfWorker, runsQuery } from "./filtering.ts";
import { findNodeOfRun, findRun } from "./finding.ts";
import { type Place, printOne } from "./place.ts";
import { isEnded } from "./run-picture.ts";
import { layTable, tame } from "./terminal.ts";

export async function cancelRun(id: string, { client, terminal, json, agree }: Place): Promise<ExitCode> {
  const runId = await findRun(id, client);
  const before = await client.getRun({ runId });
  if (!isEnded(before))
    await agree(`stop run ${runId}${before.name === undefined ? "" : ` of "${tame(before.name)}"`}, which is ${before.status}`);
  const ref = await client.cancelRun({ runId });
  // It may also have ended by itself between the two calls; then its state says so.
  const isTooLate = isEnded(before) || ref.status === "succeeded" || ref.status === "failed";
  terminal.print(json ? JSON.stringify(ref) : `${ref.runId} ${ref.status}`);
  if (isTooLate) terminal.say("It had ended already; nothing was done.");
  return exitCodes.ok;
}

/** The run as a whole, or with a node only that node. */
export async function retryRun(
  id: string,
  node: string | undefined,
  reason: string | undefined,
  place: Place,
): Promise<ExitCode> {
  const { client } = place;
  const runId = await findRun(id, client);
  const body = { ...(reason !== undefined && { reason }) };
  if (node === undefined) return reportNew(await client.retryRun({ runId, body }), place);
  const nodeId = await findNodeOfRun(node, runId, client);
  return reportSteered(await client.retryNode({ runId, nodeId, body }), place);
}

export async function replayRun(
  id: string,
  words: { from?: string; version?: string; allowUnknown?: boolean },
  place: Place,
): Promise<ExitCode> {
  const { client } = place;
  const runId = await findRun(id, client);
  const body = {
    ...(words.from !== undefined && { from: await findNodeOfRun(words.from, runId, client) }),
    ...(words.version !== undefined && { version: readVersion(words.version) }),
    ...(words.allowUnknown === true && { allowUnknown: true }),
  };
  return reportNew(await client.replayRun({ runId, body }), place);
}

function readVersion(text: string): number | "same" | "latest" | "draft" {
  if (text === "same" || text === "latest" || text === "draft") return text;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw usageFailure(`--version is a number, same, latest or draft; "${tame(text)}" is none of them.`);
}

export async function rebindRun(
  id: string,
  words: { node?: string; worker?: string; mode: "switch" | "drain" },
  place: Place,
): Promise<ExitCode> {
  const { client } = place;
  const runId = await findRun(id, client);
  const body = {
    mode: words.mode,
    ...(words.node !== undefined && { node: await findNodeOfRun(words.node, runId, client) }),
    ...(words.worker !== undefined && { worker: words.worker }),
  };
  return reportSteered(await client.rebindRun({ runId, body }), place);
}

export async function skipNode(id: string, node: string, reason: string | undefined, place: Place): Promise<ExitCode> {
  const { client } = place;
  const runId = await findRun(id, client);
  const nodeId = await findNodeOfRun(node, runId, client);
  return reportSteered(await client.skipNode({ runId, nodeId, body: { ...(reason !== undefined && { reason }) } }), place);
}

export function reportNew(ref: RunRef | RunPlan, place: Place): ExitCode {
  if ("dryRun" in ref)
    throw new CliFailure(exitCodes.failed, {
      error: "E.INTERNAL",
      message: "A run was asked for, and only its plan was answered.",
    });
  printOne(ref, [ref.runId], place);
  if (!place.json) place.terminal.say(`a new run; next: astra runs watch ${ref.runId}`);
  return exitCodes.ok;
}

function reportSteered(steered: Steered, place: Place): ExitCode {
  const rows = steered.tasks.map((task) => [task.taskId, task.status, task.from ?? "-", task.to ?? "-", task.sent]);
  const { newRun } = steered;
  const lines = [
    ...(rows.length > 0 ? layTable([["TASK", "STATUS", "FROM", "TO", "SENT"], ...rows.map((row) => row.map(tame))]) : []),
    ...(newRun === undefined ? [] : [newRun.runId]),
  ];
  printOne(steered, lines, place);
  if (!place.json && newRun !== undefined) place.terminal.say(`a new run; next: astra runs watch ${newRun.runId}`);
  else if (!place.json && rows.length === 0) place.terminal.say("Nothing was open; nothing was changed.");
  return exitCodes.ok;
}

export interface BulkWords extends RunsWords {
  readonly from?: string;
  readonly version?: string;
  readonly reason?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

const lookMs = 500;

/** Many runs at once: counted first, and done only when somebody has said yes to that number. */
export async function changeRuns(action: string, words: BulkWords, place: Place): Promise<ExitCode> {
  const { client, terminal } = place;
  const request: BulkRequest = {
    action: action as BulkRequest["action"],
    filter: await readFilter(words, place),
    ...(words.from !== undefined && { from: words.from }),
    ...(words.version !== undefined && { version: readVersion(words.version) }),
    ...(words.reason !== undefined && { reason: words.reason }),
  };
  if (words.dryRun === true || words.yes !== true) {
    const plan = await client.changeRuns({ body: { ...request, dryRun: true } });
    const isOne = plan.matched === 1 && plan.isPartial !== true;
    const count = `${plan.matched}${plan.isPartial === true ? " or more" : ""} ${isOne ? "run" : "runs"}`;
    const idle = plan.unchanged === 0 ? "" : `, ${plan.unchanged} of them ${plan.unchanged === 1 ? "needs" : "need"} nothing`;
    if (words.dryRun === true)
      return printOne(plan, [`${count} ${isOne ? "matches" : "match"}${idle}; nothing was changed`], place);
    await place.agree(`${action} ${count}${idle}`);
  }
  let bulk: Bulk = await client.changeRuns({ body: request });
  while (bulk.status === "running") {
    terminal.draw([`${action}: ${bulk.changed} of ${bulk.matched} so far`]);
    await pause(lookMs);
    bulk = await client.getBulk({ bulkId: bulk.bulkId });
  }
  terminal.settle();
  const refusals = bulk.refusals.map(({ runId, code, message }) => `refused ${runId} ${code}: ${tame(message)}`);
  const started = (bulk.started ?? []).map(({ runId, newRun }) => `${runId} runs again as ${newRun}`);
  const counts = `${bulk.changed} changed, ${bulk.unchanged} needed nothing, ${bulk.refused} refused`;
  printOne(bulk, [counts, ...started, ...refusals], place);
  return bulk.refused > 0 ? exitCodes.failed : exitCodes.ok;
}

/** A filter names at most this many runs one by one. */
const runIdsMax = 1_000;

async function readFilter(words: BulkWords, place: Place): Promise<BulkFilter> {
  const { query, worker } = await runsQuery(words, place);
  const { status, ...rest } = query;
  const filter: BulkFilter = {
    ...rest,
    ...(status !== undefined && { status: status.split(",") as NonNullable<BulkFilter["status"]> }),
  } as BulkFilter;
  // A forgotten filter must not become every run there is.
  if (Object.keys(filter).length === 0 && worker === undefined)
    throw usageFailure("Say which runs: --filter, --status, --workflow, --client, --since, --until or --search.");
  if (worker === undefined) return filter;
  const { items } = await runsOfWorker(worker, query, runIdsMax, place);
  if (items.length === 0) throw usageFailure(`No run fits that filter with worker:${tame(worker)}.`);
  return { ...filter, runIds: items.map(({ runId }) => runId) };
}
