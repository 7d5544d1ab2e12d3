// `astra why RUN [NODE]`: explains in English what a node waits for, and what keeps each worker from running it.

import type { JsonObject, Placement, Run } from "@astraflow/protocol";
import { type CommandContext, printItem, type TextInput } from "../api/command-context.ts";
import { findNodeOrTaskId, findRunId } from "../lookup/name-lookup.ts";
import { type ExitCode, exitCodes } from "../output/cli-failure.ts";
import { formatInstant, formatPairs, formatTimeSpan } from "../output/format.ts";
import { formatTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { isRunEnded } from "./run-status.ts";
import { describeWarnings } from "./run-view.ts";

/** Without a node, at most this many waiting nodes are explained. */
const explainedMax = 10;

export async function explainRun(context: CommandContext, input: TextInput<"run", "node">): Promise<ExitCode> {
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

function explainEnd(context: CommandContext, run: Run): ExitCode {
  const { runId, status, error: runError, nodes = [] } = run;
  const failed = nodes.filter(({ error }) => error !== undefined);
  const noted = nodes.filter(({ error, warnings }) => error !== undefined || warnings !== undefined);
  const lines = [
    `run ${runId} ${status}${runError ? `: ${runError.code}: ${runError.message}` : ""}`,
    ...failed.map(({ label, nodeId, error }) => `  ${label ?? nodeId}: ${error?.code}: ${error?.message ?? ""}`),
    ...describeWarnings(run).map((line) => `  ${line}`),
  ];
  const hint = status === "failed" && `next: astra runs retry ${runId}`;
  return printItem(context, { runId, status, error: runError, nodes: noted }, lines, hint);
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

export function suggestCommand(fix: string, { runId, nodeId, workers, reasons }: Placement): string {
  const blocked = (...codes: string[]): string =>
    stripControlCharacters(workers.find(({ code }) => codes.includes(code))?.workerName ?? "WORKER");
  const neededBy = (rule: string): string =>
    stripControlCharacters(toText(workers.find(({ code }) => code === rule)?.facts["needs"]));
  const startWorkerWith = (what: string): string =>
    `start a worker whose --packages-dir has ${what}, or astra runs cancel ${runId}`;
  const [holder] = reasons.flatMap(({ facts }) => (Array.isArray(facts["holders"]) ? facts["holders"] : [])) as {
    run?: string;
  }[];
  const commands: Readonly<Record<string, string>> = {
    "undrain-worker": `astra workers undrain ${blocked("draining")}`,
    "look-at-worker": `astra workers diagnose ${blocked("unhealthy")}`,
    "reconnect-worker": `astra workers diagnose ${blocked("away")}`,
    "start-worker": "astra worker",
    "install-package": startWorkerWith(neededBy("package-missing") || "the package"),
    "install-version": startWorkerWith(`version ${neededBy("package-version")} of the package`),
    "change-pool": "set policy.pool of the node to a pool that has a worker, or start a worker with that --pool",
    "raise-key-limit": "raise policy.concurrency.limit of the node in its workflow",
    ...(holder?.run !== undefined && { "wait-for-key": `astra runs watch ${stripControlCharacters(holder.run)}` }),
    "retry-now": `astra runs retry ${runId} ${nodeId}`,
    skip: `astra runs skip ${runId} ${nodeId}`,
  };
  return commands[fix] ?? fix.replaceAll("-", " ");
}

interface ExplanationContext {
  readonly labels: ReadonlyMap<string, string>;
  readonly now: number;
  /** When nodes of the run started, by id. */
  readonly startTimes?: ReadonlyMap<string, string>;
}

type ExplainFacts = (facts: JsonObject, context: ExplanationContext) => string;

const explainMismatch: ExplainFacts = ({ has, needs }) => `needs ${toText(needs)}, has ${toText(has) || "none"}`;

/** The explanations by code; other codes explain themselves. */
const explanations: Readonly<Record<string, ExplainFacts>> = {
  "not-reached": explainPredecessors,
  predecessors: explainPredecessors,
  key: explainConcurrencyKey,
  queued: ({ sinceMs, priority, until, runUntil }, context) =>
    joinParts(
      sinceMs === undefined ? null : `in line for ${formatTimeSpan(Number(sinceMs))}`,
      priority === undefined ? null : `priority ${toText(priority)}`,
      formatRelativeInstant("looked at again or given up", until, context),
      formatRelativeInstant("its run ends", runUntil, context),
    ),
  retry: ({ failures, until }, context) =>
    joinParts(
      `failed ${formatTimes(Number(failures ?? 0))}`,
      formatRelativeInstant("tries again", until, context) ?? "tries again soon",
    ),
  resource: ({ worker, key }) =>
    joinParts(`only ${toText(worker)} has what it needs`, key === undefined ? null : `affinity ${toText(key)}`),
  preference: ({ worker, key }) =>
    joinParts(`waits a while for ${toText(worker)}`, key === undefined ? null : `affinity ${toText(key)}`),
  running: ({ worker, attempt, since }, context) =>
    joinParts(`runs at ${toText(worker)}`, `attempt ${toText(attempt)}`, formatRelativeInstant("since", since, context)),
  "run-over": ({ phase }) => `its run is ${toText(phase)}`,
  ended: ({ phase }) => `it is ${toText(phase)}`,
  slots: ({ busy, slots, unstopped }) => {
    if (busy === null || busy === undefined) return `${toText(slots)} slots`;
    const rest = unstopped === undefined ? "" : ` (${toText(unstopped)} by cancelled tasks that it cannot stop)`;
    return `${toText(busy)} of ${toText(slots)} slots busy${rest}`;
  },
  "node-limit": ({ nodeType, limit, busy }) => `${toText(busy)} of ${toText(limit)} ${toText(nodeType)} at once`,
  pinned: ({ to }) => `it belongs to ${toText(to)}`,
  strained: ({ lacks }) => `lacks ${Array.isArray(lacks) ? lacks.map(toText).join(" and ") : toText(lacks)}`,
  "package-missing": explainMismatch,
  "package-version": explainMismatch,
  "package-status": explainMismatch,
  pool: explainMismatch,
  tag: explainMismatch,
};

export function explainReason(code: string, facts: JsonObject, context: ExplanationContext): string {
  const explain = Object.hasOwn(explanations, code) ? explanations[code] : undefined;
  return stripControlCharacters(explain === undefined ? formatPairs(facts) : explain(facts, context));
}

const toText = (value: unknown): string =>
  value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
const joinParts = (...parts: readonly (string | null)[]): string =>
  parts.filter((part) => part !== null && part !== "").join(", ");
const formatTimes = (count: number): string => (count === 1 ? "once" : `${count} times`);
const asObjects = (value: unknown): readonly JsonObject[] => (Array.isArray(value) ? (value as JsonObject[]) : []);

/** An instant is in milliseconds, or a text of the API. */
function formatRelativeInstant(before: string, value: unknown, { now }: ExplanationContext): string | null {
  const at = typeof value === "string" ? Date.parse(value) : Number(value ?? Number.NaN);
  if (!Number.isFinite(at)) return null;
  const how = at > now ? `in ${formatTimeSpan(at - now)}` : `${formatTimeSpan(now - at)} ago`;
  return `${before} ${formatInstant(new Date(at).toISOString())} (${how})`;
}

/** Phases of the engine, by the statuses that users know. */
const phaseLabels: Readonly<Record<string, string>> = { leased: "running", ready: "queued", parked: "waiting" };

function explainPredecessors({ waitsFor }: JsonObject, context: ExplanationContext): string {
  const open = asObjects(waitsFor).map(({ node, phase }) => {
    const id = toText(node);
    const state = phaseLabels[toText(phase)] ?? (toText(phase) || "not reached");
    const since = formatRelativeInstant(" since", context.startTimes?.get(id), context) ?? "";
    return `${context.labels.get(id) ?? id}, ${state}${since}`;
  });
  return open.length === 0 ? "" : `waits for ${open.join("; ")}`;
}

function explainConcurrencyKey({ key, limit, held, holders }: JsonObject, context: ExplanationContext): string {
  const named = asObjects(holders).map(({ run, node, label, workflow, worker, phase, since }) => {
    const where = toText(worker) === "" ? ` (${toText(phase)})` : ` at ${toText(worker)}`;
    return joinParts(
      // Labels of the run that waits say nothing about the holder's.
      `${toText(label ?? node)} of run ${toText(run)}${toText(workflow) === "" ? "" : ` (${toText(workflow)})`}${where}`,
      formatRelativeInstant("since", since, context),
    );
  });
  const more = Number(held ?? named.length) - named.length;
  const all = more > 0 ? [...named, `${more} more`] : named;
  const usage = limit === undefined || limit === 1 ? "" : ` (${toText(held)} of ${toText(limit)})`;
  return `key ${toText(key)}${all.length === 0 ? "" : ` held${usage} by ${all.join("; ")}`}`;
}
