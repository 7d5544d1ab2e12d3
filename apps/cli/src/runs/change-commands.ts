// `astra runs cancel|retry|replay|rebind|skip` and `astra bulk`: changing runs.

import { setTimeout as pause } from "node:timers/promises";
import type { Bulk, BulkFilter, BulkRequest, RunPlan, RunRef, Steered } from "@astraflow/protocol";
import { type CommandContext, printItem } from "../api/command-context.ts";
import { buildRunListQuery, listRunsOfWorker, type RunFilterFlags } from "../lookup/list-filters.ts";
import { findNodeOrTaskId, findRunId } from "../lookup/name-lookup.ts";
import { type CliExitCode, CliFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { isRunEnded, parseVersion } from "./run-status.ts";

export async function cancelRun(id: string, context: CommandContext): Promise<CliExitCode> {
  const { client, terminal, confirm } = context;
  const runId = await findRunId(id, client);
  const before = await client.getRun({ runId });
  if (!isRunEnded(before))
    await confirm(
      `cancel run ${runId}${before.name === undefined ? "" : ` of "${stripControlCharacters(before.name)}"`}, which is ${before.status}`,
    );
  const ref = await client.cancelRun({ runId });
  // The run may also have ended between the two calls; its status says so.
  const isTooLate = isRunEnded(before) || ref.status === "succeeded" || ref.status === "failed";
  printItem(ref, [`${ref.runId} ${ref.status}`], context);
  if (isTooLate) terminal.info("The run had already ended; nothing was changed.");
  return exitCodes.ok;
}

/** Retries the whole run, or one node of it. */
export async function retryRun(
  id: string,
  node: string | undefined,
  reason: string | undefined,
  context: CommandContext,
): Promise<CliExitCode> {
  const { client } = context;
  const runId = await findRunId(id, client);
  const body = { ...(reason !== undefined && { reason }) };
  if (node === undefined) return printNewRun(await client.retryRun({ runId, body }), context);
  const nodeId = await findNodeOrTaskId(node, runId, client);
  return printChangedTasks(await client.retryNode({ runId, nodeId, body }), context);
}

export async function replayRun(
  id: string,
  flags: { from?: string; version?: string; allowUnknown?: boolean },
  context: CommandContext,
): Promise<CliExitCode> {
  const { client } = context;
  const runId = await findRunId(id, client);
  const body = {
    ...(flags.from !== undefined && { from: await findNodeOrTaskId(flags.from, runId, client) }),
    ...(flags.version !== undefined && { version: parseReplayVersion(flags.version) }),
    ...(flags.allowUnknown === true && { allowUnknown: true }),
  };
  return printNewRun(await client.replayRun({ runId, body }), context);
}

const parseReplayVersion = (text: string) => parseVersion(text, ["same", "latest", "draft"]);

export async function rebindRun(
  id: string,
  flags: { node?: string; worker?: string; mode: "switch" | "drain" },
  context: CommandContext,
): Promise<CliExitCode> {
  const { client } = context;
  const runId = await findRunId(id, client);
  const body = {
    mode: flags.mode,
    ...(flags.node !== undefined && { node: await findNodeOrTaskId(flags.node, runId, client) }),
    ...(flags.worker !== undefined && { worker: flags.worker }),
  };
  return printChangedTasks(await client.rebindRun({ runId, body }), context);
}

export async function skipNode(
  id: string,
  node: string,
  reason: string | undefined,
  context: CommandContext,
): Promise<CliExitCode> {
  const { client } = context;
  const runId = await findRunId(id, client);
  const nodeId = await findNodeOrTaskId(node, runId, client);
  return printChangedTasks(await client.skipNode({ runId, nodeId, body: { ...(reason !== undefined && { reason }) } }), context);
}

export function printNewRun(ref: RunRef | RunPlan, context: CommandContext): CliExitCode {
  if ("dryRun" in ref)
    throw new CliFailure(exitCodes.failed, {
      error: "E.INTERNAL",
      message: "The scheduler answered a start with a dry run.",
    });
  printItem(ref, [ref.runId], context);
  if (!context.json) context.terminal.info(`New run started; next: astra runs watch ${ref.runId}`);
  return exitCodes.ok;
}

function printChangedTasks(steered: Steered, context: CommandContext): CliExitCode {
  const rows = steered.tasks.map((task) => [task.taskId, task.status, task.from ?? "-", task.to ?? "-", task.sent]);
  const { newRun } = steered;
  const lines = [
    ...(rows.length > 0
      ? formatTable([["TASK", "STATUS", "FROM", "TO", "SENT"], ...rows.map((row) => row.map(stripControlCharacters))])
      : []),
    ...(newRun === undefined ? [] : [newRun.runId]),
  ];
  printItem(steered, lines, context);
  if (!context.json && newRun !== undefined) context.terminal.info(`New run started; next: astra runs watch ${newRun.runId}`);
  else if (!context.json && rows.length === 0) context.terminal.info("No task was open; nothing was changed.");
  return exitCodes.ok;
}

export interface BulkFlags extends RunFilterFlags {
  readonly from?: string;
  readonly version?: string;
  readonly reason?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

const bulkPollMs = 500;

/** Changes many runs at once: counts them first, and asks for confirmation with that number. */
export async function runBulkChange(action: string, flags: BulkFlags, context: CommandContext): Promise<CliExitCode> {
  const { client, terminal } = context;
  const request: BulkRequest = {
    action: action as BulkRequest["action"],
    filter: await buildBulkFilter(flags, context),
    ...(flags.from !== undefined && { from: flags.from }),
    ...(flags.version !== undefined && { version: parseReplayVersion(flags.version) }),
    ...(flags.reason !== undefined && { reason: flags.reason }),
  };
  if (flags.dryRun === true || flags.yes !== true) {
    const plan = await client.changeRuns({ body: { ...request, dryRun: true } });
    const isOne = plan.matched === 1 && plan.isPartial !== true;
    const count = `${plan.matched}${plan.isPartial === true ? " or more" : ""} ${isOne ? "run" : "runs"}`;
    const idle = plan.unchanged === 0 ? "" : `, ${plan.unchanged} of them would not change`;
    if (flags.dryRun === true)
      return printItem(plan, [`${count} ${isOne ? "matches" : "match"}${idle}; nothing was changed`], context);
    await context.confirm(`${action} ${count}${idle}`);
  }
  let bulk: Bulk = await client.changeRuns({ body: request });
  while (bulk.status === "running") {
    terminal.draw([`${action}: ${bulk.changed} of ${bulk.matched} so far`]);
    await pause(bulkPollMs);
    bulk = await client.getBulk({ bulkId: bulk.bulkId });
  }
  terminal.finishDrawing();
  const refusals = bulk.refusals.map(
    ({ runId, code, message }) => `refused ${runId} ${code}: ${stripControlCharacters(message)}`,
  );
  const started = (bulk.started ?? []).map(({ runId, newRun }) => `${runId} runs again as ${newRun}`);
  const counts = `${bulk.changed} changed, ${bulk.unchanged} unchanged, ${bulk.refused} refused`;
  printItem(bulk, [counts, ...started, ...refusals], context);
  return bulk.refused > 0 ? exitCodes.failed : exitCodes.ok;
}

/** The API takes at most this many run ids in a filter. */
const runIdsMax = 1_000;

async function buildBulkFilter(flags: BulkFlags, context: CommandContext): Promise<BulkFilter> {
  const { query, worker } = await buildRunListQuery(flags, context);
  const { status, ...rest } = query;
  const filter: BulkFilter = {
    ...rest,
    ...(status !== undefined && { status: status.split(",") as NonNullable<BulkFilter["status"]> }),
  } as BulkFilter;
  // Without a filter the change would apply to every run.
  if (Object.keys(filter).length === 0 && worker === undefined)
    throw usageFailure("Choose runs with --filter, --status, --workflow, --client, --since, --until or --search.");
  if (worker === undefined) return filter;
  const { items } = await listRunsOfWorker(worker, query, runIdsMax, context);
  if (items.length === 0) throw usageFailure(`No run of worker ${stripControlCharacters(worker)} matches the filter.`);
  return { ...filter, runIds: items.map(({ runId }) => runId) };
}
