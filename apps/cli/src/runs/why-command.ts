// `astra why RUN [NODE]`: explains what a node waits for, and what keeps each worker from running it.

import type { Placement, Run } from "@astraflow/protocol";
import { type CommandContext, printItem, type TextInput } from "../api/command-context.ts";
import { findNodeOrTaskId, findRunId } from "../lookup/name-lookup.ts";
import { type CliExitCode, exitCodes } from "../output/cli-failure.ts";
import { formatTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { isRunEnded } from "./run-status.ts";
import { type ExplanationContext, explainReason } from "./why-explanations.ts";

/** Without a node, at most this many waiting nodes are explained. */
const explainedMax = 10;

export async function explainRun(context: CommandContext, input: TextInput<"run", "node">): Promise<CliExitCode> {
  const { client, terminal, json, now } = context;
  const { node } = input;
  const runId = await findRunId(input.run, client);
  const run = await client.getRun({ runId });
  const { nodes = [] } = run;
  if (node === undefined && isRunEnded(run)) return explainEnd(context, run);
  const open = nodes.filter(({ status, pendingAck }) => status === "queued" || pendingAck === true);
  // Nodes that are not reached yet wait for these, so they are explained only where there are no others.
  const reached = open.filter(({ state }) => state !== undefined && state.stage !== "waiting");
  const waiting = reached.length > 0 ? reached : open;
  const asked = node === undefined ? waiting.map(({ taskId }) => taskId) : [await findNodeOrTaskId(node, runId, client)];
  const labels = new Map(nodes.map(({ nodeId, label }) => [nodeId, label ?? nodeId]));
  const startTimes = new Map(nodes.flatMap(({ nodeId, startedAt }) => (startedAt ? [[nodeId, startedAt] as const] : [])));
  const found: Placement[] = [];
  for (const nodeId of asked.slice(0, explainedMax)) found.push(await client.getPlacement({ runId, nodeId }));
  const explanation: ExplanationContext = { labels, startTimes, now: now() };
  printItem(context, node === undefined ? { runId, items: found } : found[0], () =>
    found.flatMap((placement) => formatPlacement(placement, explanation)),
  );
  if (json) return exitCodes.ok;
  if (found.length === 0) terminal.info("No node is waiting: every open task has a worker.");
  else if (node === undefined && open.length > waiting.length) terminal.info(moreWaitingMessage(open.length - waiting.length));
  if (asked.length > found.length)
    terminal.info(`${asked.length - found.length} more nodes wait; explain one with: astra why ${runId} NODE`);
  return exitCodes.ok;
}

/** Why a run that has ended failed. */
function explainEnd(context: CommandContext, { runId, status, error: runError, nodes = [] }: Run): CliExitCode {
  const failed = nodes.filter(({ error }) => error !== undefined);
  const lines = [
    `run ${runId} ${status}${runError ? `: ${runError.code}: ${runError.message}` : ""}`,
    ...failed.map(({ label, nodeId, error }) => `  ${label ?? nodeId}: ${error?.code}: ${error?.message ?? ""}`),
  ];
  const hint = status === "failed" && `next: astra runs retry ${runId}`;
  return printItem(context, { runId, status, error: runError, nodes: failed }, lines, hint);
}

const moreWaitingMessage = (count: number): string =>
  count === 1 ? "1 more node waits for these." : `${count} more nodes wait for these.`;

function formatPlacement(placement: Placement, context: ExplanationContext): string[] {
  const { labels } = context;
  const label = labels.get(placement.nodeId) ?? placement.nodeId;
  const named = (text: string): string => stripControlCharacters(text.replace(uuidAnywhere, (id) => labels.get(id) ?? id));
  const reasons = placement.reasons.map(({ code, facts }) => [`  ${code}`, explainReason(code, facts, context)]);
  const workers = placement.workers.map(({ workerName, code, facts }) => [
    `  ${stripControlCharacters(workerName)}`,
    code,
    explainReason(code, facts, context),
  ]);
  return [
    `${stripControlCharacters(label)} (${placement.status}): ${named(placement.summary)}`,
    ...formatTable(reasons),
    ...(workers.length > 0 ? formatTable([["  WORKER", "RULE", "WHY"], ...workers]) : []),
    ...placement.fixes.map((fix) => `  try: ${suggestCommand(fix, placement)}`),
  ];
}

const uuidAnywhere = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

/** The command that applies a fix, where there is one. */
function suggestCommand(fix: string, { runId, nodeId, workers, reasons }: Placement): string {
  const blocked = (...codes: string[]): string =>
    stripControlCharacters(workers.find(({ code }) => codes.includes(code))?.workerName ?? "WORKER");
  const [holder] = reasons.flatMap(({ facts }) => (Array.isArray(facts["holders"]) ? facts["holders"] : [])) as {
    run?: string;
  }[];
  const commands: Readonly<Record<string, string>> = {
    "undrain-worker": `astra workers undrain ${blocked("draining")}`,
    "look-at-worker": `astra workers diagnose ${blocked("unhealthy")}`,
    "reconnect-worker": `astra workers diagnose ${blocked("away")}`,
    "start-worker": "astra worker",
    ...(holder?.run !== undefined && { "wait-for-key": `astra runs watch ${stripControlCharacters(holder.run)}` }),
    "retry-now": `astra runs retry ${runId} ${nodeId}`,
    skip: `astra runs skip ${runId} ${nodeId}`,
  };
  return commands[fix] ?? fix.replaceAll("-", " ");
}
