// `astra runs cancel|retry|replay|rebind|skip` and `astra bulk`: changing runs.

import { setTimeout as pause } from "node:timers/promises";
import {
  type Bulk,
  type BulkFilter,
  type BulkRequest,
  omitUndefined,
  type RunPlan,
  type RunRef,
  type Steered,
} from "@astraflow/protocol";
import { type CommandContext, printItem, type Switches, type TextInput } from "../api/command-context.ts";
import { buildRunListQuery, listRunsOfWorker, type RunFilterFlags } from "../lookup/list-filters.ts";
import { findNodeOrTaskId, findRunId } from "../lookup/name-lookup.ts";
import { type ExitCode, exitCodes, internalFailure, usageFailure } from "../output/cli-failure.ts";
import { formatTextTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { isRunEnded, parseVersion } from "./run-status.ts";

export async function cancelRun(context: CommandContext, input: TextInput<"run">): Promise<ExitCode> {
  const { client, confirm } = context;
  const runId = await findRunId(input.run, client);
  const before = await client.getRun({ runId });
  const name = before.name === undefined ? "" : ` of "${stripControlCharacters(before.name)}"`;
  // A run that has ended is refused by the scheduler; that needs no confirmation.
  if (!isRunEnded(before)) await confirm(`cancel run ${runId}${name}, which is ${before.status}`);
  const ref = await client.cancelRun({ runId });
  return printItem(context, ref, `${ref.runId} ${ref.status}`);
}

/** Retries the whole run, or one node of it. */
export async function retryRun(context: CommandContext, input: TextInput<"run", "node" | "reason">): Promise<ExitCode> {
  const { client } = context;
  const { node, reason } = input;
  const runId = await findRunId(input.run, client);
  const body = omitUndefined({ reason });
  if (node === undefined) return printNewRun(context, await client.retryRun({ runId, body }));
  const nodeId = await findNodeOrTaskId(node, runId, client);
  return printChangedTasks(context, await client.retryNode({ runId, nodeId, body }));
}

export async function replayRun(
  context: CommandContext,
  { run, from, version, allowUnknown }: TextInput<"run", "from" | "version"> & Switches<"allowUnknown">,
): Promise<ExitCode> {
  const { client } = context;
  const runId = await findRunId(run, client);
  const body = {
    ...(from !== undefined && { from: await findNodeOrTaskId(from, runId, client) }),
    ...(version !== undefined && { version: parseReplayVersion(version) }),
    ...(allowUnknown === true && { allowUnknown: true }),
  };
  return printNewRun(context, await client.replayRun({ runId, body }));
}

const parseReplayVersion = (text: string) => parseVersion(text, ["same", "latest", "draft"]);

export async function rebindRun(
  context: CommandContext,
  { run, node, worker, mode }: TextInput<"run", "node" | "worker"> & { mode: "switch" | "drain" },
): Promise<ExitCode> {
  const { client } = context;
  const runId = await findRunId(run, client);
  const body = {
    mode,
    ...(node !== undefined && { node: await findNodeOrTaskId(node, runId, client) }),
    ...omitUndefined({ worker }),
  };
  return printChangedTasks(context, await client.rebindRun({ runId, body }));
}

export async function skipNode(context: CommandContext, input: TextInput<"run" | "node", "reason">): Promise<ExitCode> {
  const { client } = context;
  const runId = await findRunId(input.run, client);
  const nodeId = await findNodeOrTaskId(input.node, runId, client);
  const body = omitUndefined({ reason: input.reason });
  return printChangedTasks(context, await client.skipNode({ runId, nodeId, body }));
}

const newRunHint = (runId: string): string => `New run started; next: astra runs watch ${runId}`;

export function printNewRun(context: CommandContext, ref: RunRef | RunPlan): ExitCode {
  const { runId } = requireRunRef(ref);
  return printItem(context, ref, runId, newRunHint(runId));
}

/** Only a dry run is answered with a plan. */
export function requireRunRef<R extends RunRef>(answer: R | RunPlan): R {
  if ("runId" in answer) return answer;
  throw internalFailure("The scheduler answered a start with a dry run.");
}

function printChangedTasks(context: CommandContext, steered: Steered): ExitCode {
  const rows = steered.tasks.map((task) => [task.taskId, task.status, task.from ?? "-", task.to ?? "-", task.sent]);
  const { newRun } = steered;
  const table = rows.length > 0 ? formatTextTable([["TASK", "STATUS", "FROM", "TO", "SENT"], ...rows]) : [];
  if (newRun !== undefined) return printItem(context, steered, [...table, newRun.runId], newRunHint(newRun.runId));
  return printItem(context, steered, table, rows.length === 0 && "No task was open; nothing was changed.");
}

type BulkFlags = RunFilterFlags & TextInput<never, "from" | "version" | "reason"> & Switches<"dryRun" | "yes">;

const bulkPollMs = 500;

/** Changes many runs at once: counts them first, and asks for confirmation with that number. */
export async function runBulkChange(
  context: CommandContext,
  { action, ...flags }: BulkFlags & { action: BulkRequest["action"] },
): Promise<ExitCode> {
  const { client, terminal } = context;
  const { from, version, reason, dryRun, yes } = flags;
  const request: BulkRequest = {
    action,
    filter: await buildBulkFilter(flags, context),
    ...omitUndefined({ from, version: version === undefined ? undefined : parseReplayVersion(version), reason }),
  };
  if (dryRun === true || yes !== true) {
    const plan = await client.changeRuns({ body: { ...request, dryRun: true } });
    const isOne = plan.matched === 1 && plan.isPartial !== true;
    const count = `${plan.matched}${plan.isPartial === true ? " or more" : ""} ${isOne ? "run" : "runs"}`;
    const idle = plan.unchanged === 0 ? "" : `, ${plan.unchanged} of them would not change`;
    if (dryRun === true) return printItem(context, plan, `${count} ${isOne ? "matches" : "match"}${idle}; nothing was changed`);
    await context.confirm(`${action} ${count}${idle}`);
  }
  let bulk: Bulk = await client.changeRuns({ body: request });
  while (bulk.status === "running") {
    terminal.draw([`${action}: ${bulk.changed} of ${bulk.matched} so far`]);
    await pause(bulkPollMs);
    bulk = await client.getBulk({ bulkId: bulk.bulkId });
  }
  terminal.finishDrawing();
  const refusals = bulk.refusals.map(({ runId, code, message }) => `refused ${runId} ${code}: ${message}`);
  const started = (bulk.started ?? []).map(({ runId, newRun }) => `${runId} runs again as ${newRun}`);
  const counts = `${bulk.changed} changed, ${bulk.unchanged} unchanged, ${bulk.refused} refused`;
  printItem(context, bulk, [counts, ...started, ...refusals]);
  return bulk.refused > 0 ? exitCodes.failed : exitCodes.ok;
}

/** The API takes at most this many run ids in a filter. */
const runIdsMax = 1_000;

async function buildBulkFilter(flags: BulkFlags, context: CommandContext): Promise<BulkFilter> {
  const { query, worker } = await buildRunListQuery(flags, context);
  const filter = omitUndefined({ ...query, status: query.status?.split(",") }) as BulkFilter;
  // Without a filter the change would apply to every run.
  if (Object.keys(filter).length === 0 && worker === undefined)
    throw usageFailure("Choose runs with --filter, --status, --workflow, --client, --since, --until or --search.");
  if (worker === undefined) return filter;
  const { items } = await listRunsOfWorker(worker, query, runIdsMax, context);
  if (items.length === 0) throw usageFailure(`No run of worker ${stripControlCharacters(worker)} matches the filter.`);
  return { ...filter, runIds: items.map(({ runId }) => runId) };
}
