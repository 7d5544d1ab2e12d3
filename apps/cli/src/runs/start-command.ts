// `astra run FILE|WORKFLOW`: starts a workflow and follows the run. `astra up` uses it for its demo run too.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { checkWorkflow, compilePlan, withValueAt } from "@astraflow/graph";
import {
  closestMatch,
  Fault,
  type JsonObject,
  type JsonValue,
  omitUndefined,
  type RunStartRequest,
  readRunStartRequest,
  type StartedRunRef,
  type Workflow,
  type WorkflowNode,
} from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { type CommandContext, printItem, type Switches, type TextInput } from "../api/command-context.ts";
import { parsePair, readJsonFile, readTextFile } from "../api/input-file.ts";
import { findNodeId, findRunIdIfGiven, findWorkflow, loadDefinition } from "../lookup/name-lookup.ts";
import { CliFailure, type ExitCode, exitCodes, faultFailure, internalFailure, usageFailure } from "../output/cli-failure.ts";
import { formatTextTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { workflowFailure } from "../workflows/workflow-file.ts";
import { requireRunRef } from "./change-commands.ts";
import { followRun } from "./run-follower.ts";
import { describeResults } from "./run-results.ts";
import { parseVersion } from "./run-status.ts";

const submitTriesMax = 10;
const submitPauseMs = 500;

const isError = ({ severity }: { severity: string }): boolean => severity === "error";

/** `version` is that of a stored workflow: its number, latest or draft. The timeout is in milliseconds. */
interface StartRunInput
  extends RunInputFlags,
    TextInput<"workflow", "key" | "version" | "reuse">,
    Switches<"watch" | "detach" | "dryRun" | "allowUnknown"> {
  readonly priority?: number;
  readonly timeout?: number;
}

/** A file with a workflow or with a whole request `{workflow, clientId}`. Validated here with the scheduler's own functions, before it is sent. */
export function readRunRequestFile(file: string): RunStartRequest {
  const { value, source } = readJsonFile(file);
  return toRunRequest(value, source);
}

export function toRunRequest(value: unknown, source: string): RunStartRequest {
  const clientId = "astra-cli";
  const isRequest = typeof value === "object" && value !== null && "workflow" in value;
  const request = readRunStartRequest(isRequest ? { clientId, ...value } : { workflow: value, clientId });
  if (request instanceof Fault) {
    const workflow = isRequest ? value.workflow : value;
    throw request.code === "E.WORKFLOW.INVALID" ? workflowFailure(workflow, request, source) : faultFailure(request, source);
  }
  const problems = request.workflow === undefined ? [] : checkWorkflow(request.workflow);
  const errors = problems.filter(isError).length;
  if (errors > 0) {
    const message = `${source} cannot run: ${errors} ${errors === 1 ? "problem" : "problems"} in its graph.`;
    throw new CliFailure(exitCodes.usage, { error: "E.WORKFLOW.INVALID", message, details: { problems } });
  }
  return request;
}

/**
 * Sends the request again, with the same key, while the scheduler does not answer: perhaps only the response was lost, and a run must not
 * be started twice. That can take minutes, so the reason is logged once, and a signal to stop ends it.
 */
export async function submitRun(
  client: Client,
  request: RunStartRequest,
  { key, log, signal }: { key: string; log: (line: string) => void; signal?: AbortSignal },
): Promise<StartedRunRef> {
  for (let tries = 1; ; tries += 1) {
    try {
      return requireRunRef(await client.startRun({ body: request }, { key, signal }));
    } catch (cause) {
      if (signal?.aborted) throw interruptedSubmission(key);
      const isAway = cause instanceof CliFailure && cause.exitCode === exitCodes.unreachable;
      // A refused connection at the first try: nothing was sent, so this is reported at once.
      const isAbsent = tries === 1 && isAway && cause.body.details?.["reason"] === "ECONNREFUSED";
      if (!isAway || isAbsent || tries >= submitTriesMax) throw cause;
      if (tries === 1)
        log(`not accepted yet: ${cause.body.message} Trying again with the same key; the run is not started twice.`);
      await pause(submitPauseMs, undefined, omitUndefined({ signal })).catch(() => {
        throw interruptedSubmission(key);
      });
    }
  }
}

const interruptedSubmission = (key: string): CliFailure =>
  new CliFailure(
    exitCodes.interrupted,
    { error: "E.INTERRUPTED", message: "Stopped before the scheduler answered; the run may have been started." },
    `astra run … --key ${key}, which starts it once at most`,
  );

export async function startRun(context: CommandContext, flags: StartRunInput): Promise<ExitCode> {
  const { client, terminal, json } = context;
  const { workflow, ...request } = await resolveWorkflowArgument(flags, client);
  const { workflowId = "", version = "latest", ...rest } = request;
  const named = workflow ?? (await loadDefinition(workflowId, version, client));
  const changes = applyInputFlags(named, flags);
  const full: RunStartRequest = {
    // A stored workflow is named, unless inputs have changed it.
    ...(workflow === undefined && changes.workflow === undefined ? request : rest),
    ...omitUndefined({ workflow }),
    ...changes,
    ...omitUndefined({ reuse: await findRunIdIfGiven(flags.reuse, client), priority: flags.priority, timeoutMs: flags.timeout }),
    ...(flags.allowUnknown && { allowUnknown: true }),
  };
  if (flags.dryRun) return printRunPlan(context, full);
  const key = flags.key ?? randomUUID();
  const ref = await submitRun(client, full, { key, signal: context.signal, log: (line) => terminal.info(line) }).catch(
    (cause: unknown) => {
      throw isMissingPackagesOnly(cause)
        ? new CliFailure(cause.exitCode, cause.body, `astra run ${flags.workflow} --allow-unknown`)
        : cause;
    },
  );
  for (const { path, message } of ref.problems ?? []) terminal.info(stripControlCharacters(`warning ${path}: ${message}`));
  if (flags.detach) {
    terminal.print(json ? JSON.stringify(ref) : ref.runId);
    terminal.info(`next: astra runs watch ${ref.runId}`);
    return exitCodes.ok;
  }
  const size = `${named.nodes.length} ${named.nodes.length === 1 ? "node" : "nodes"}`;
  // Also with --json, whose document comes at the end of the run: whoever stops waiting needs the id.
  terminal.info(`run ${ref.runId} of "${stripControlCharacters(named.metadata.name)}" (${size})`);
  return followToEnd(context, ref.runId, flags.watch ?? false);
}

/** Refused only because no worker offers a package: then --allow-unknown starts it. */
function isMissingPackagesOnly(cause: unknown): cause is CliFailure {
  const problems = cause instanceof CliFailure ? cause.body.details?.["problems"] : null;
  if (!Array.isArray(problems) || problems.length === 0) return false;
  return (problems as { path?: unknown }[]).every(({ path }) => /\/package\/(name|version)$/.test(String(path)));
}

/** A file if it exists, or else the name or id of a stored workflow. */
async function resolveWorkflowArgument(
  { workflow: fileOrName, version }: StartRunInput,
  client: Client,
): Promise<RunStartRequest & { readonly version?: number | "latest" | "draft" }> {
  if (fileOrName === "-" || existsSync(fileOrName) || /[/\\]|\.json$/.test(fileOrName)) {
    if (version !== undefined) throw usageFailure("--version chooses a version of a stored workflow; a file has only one.");
    return readRunRequestFile(fileOrName);
  }
  const { id } = await findWorkflow(fileOrName, client);
  const chosen = version === undefined ? undefined : parseVersion(version, ["latest", "draft"]);
  return { clientId: "astra-cli", workflowId: id, ...omitUndefined({ version: chosen }) };
}

/** Follows a run to its end and prints how it ended; an interrupt leaves the run alone. */
export async function followToEnd(context: CommandContext, runId: string, watch: boolean): Promise<ExitCode> {
  const { client, terminal, json, signal } = context;
  const view = json ? (watch ? "facts" : "none") : "picture";
  const run = await followRun(runId, { client, terminal, view, signal, now: Date.now }).catch((cause: unknown) => {
    if (!signal.aborted) throw cause;
    terminal.finishDrawing();
    terminal.info(`Stopped watching; the run continues. Cancel it with: astra runs cancel ${runId}`);
    return null;
  });
  if (run === null) return exitCodes.interrupted;
  const why = run.status === "failed" ? `astra why ${runId}` : `astra runs logs ${runId}`;
  const results = json ? [] : describeResults(run, await client.getRunDefinition({ runId }));
  printItem(context, run, [`${runId} ${run.status}`, ...results]);
  if (!json && run.error) terminal.error(`error ${run.error.code}: ${stripControlCharacters(run.error.message)}\n`);
  if (!json) terminal.info(`next: ${why}, astra runs export ${runId}`);
  return run.status === "succeeded" ? exitCodes.ok : exitCodes.failed;
}

async function printRunPlan(context: CommandContext, request: RunStartRequest): Promise<ExitCode> {
  const plan = await context.client.startRun({ body: { ...request, dryRun: true } });
  if (!("dryRun" in plan)) throw internalFailure(`The scheduler started run ${plan.runId} instead of a dry run.`);
  const isGood = plan.problems.every(({ severity }) => severity === "warning");
  const rows = plan.nodes.map((node) => [
    node.label,
    node.action,
    node.action === "run" ? formatWorkerCount(node.workers) : "",
    node.nodeId,
  ]);
  const problems = plan.problems.map(({ path, message, severity }) => `${severity ?? "error"} ${path}: ${message}`);
  printItem(
    context,
    plan,
    [...formatTextTable([["NODE", "ACTION", "WORKERS", "ID"], ...rows]), ...problems],
    isGood ? "Dry run: nothing was started." : "The run cannot be started like this.",
  );
  return isGood ? exitCodes.ok : exitCodes.failed;
}

const formatWorkerCount = (count: number | undefined): string =>
  count === undefined ? "" : count === 0 ? "none yet" : String(count);

/** The flags that shape the request: inputs, pins, labels, and where to begin and end. */
type RunInputFlags = Readonly<Record<"input" | "pin" | "label", readonly string[]>> & TextInput<never, "from" | "to">;

/** The parts of a request that the flags add. Inputs change the workflow itself, which is then sent as a whole. */
export function applyInputFlags(workflow: Workflow, flags: RunInputFlags): Partial<RunStartRequest> {
  const changed = flags.input.reduce(applyInput, workflow);
  const pins = flags.pin
    .map((text) => parsePair(text, "--pin"))
    .map(([node, value]) => [findNodeId(node, workflow), parsePin(node, value)]);
  const labels = flags.label.map((text) => parsePair(text, "--label"));
  return {
    ...(changed !== workflow && { workflow: changed }),
    ...(pins.length > 0 && { pins: Object.fromEntries(pins) as Record<string, JsonObject> }),
    ...(flags.from !== undefined && { from: findNodeId(flags.from, workflow) }),
    ...(flags.to !== undefined && { to: findNodeId(flags.to, workflow) }),
    ...(labels.length > 0 && { labels: Object.fromEntries(labels) as Record<string, string> }),
  };
}

/** A value as JSON, or else as text; @FILE stands for the content of the file. */
function parseValue(text: string): JsonValue {
  const content = text.startsWith("@") ? readTextFile(text.slice(1)) : text;
  try {
    return JSON.parse(content) as JsonValue;
  } catch {
    // Text without quotes, so that nobody has to quote twice on a command line.
    return content;
  }
}

function parsePin(node: string, text: string): JsonObject {
  const value = parseValue(text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw usageFailure(`--pin ${stripControlCharacters(node)}=… takes the node's results as a JSON object, or @FILE with one.`);
}

/** `name=value` for the one node that has such a parameter, `node.name=value` for a node by its label or id. */
function applyInput(workflow: Workflow, text: string): Workflow {
  const [key, value] = parsePair(text, "--input");
  const { node, path } = findParameter(workflow, key);
  const parameters = withValueAt(node.parameters ?? {}, path, parseValue(value)) as JsonObject;
  return { ...workflow, nodes: workflow.nodes.map((one) => (one === node ? { ...node, parameters } : one)) };
}

function findParameter(workflow: Workflow, key: string): { node: WorkflowNode; path: string[] } {
  const named = workflow.nodes.find(({ id, label }) =>
    [id, label].some((name) => key.toLowerCase().startsWith(`${name.toLowerCase()}.`)),
  );
  if (named !== undefined) {
    const name = key.toLowerCase().startsWith(`${named.id.toLowerCase()}.`) ? named.id : named.label;
    return { node: named, path: key.slice(name.length + 1).split(".") };
  }
  const [first = ""] = key.split(".");
  const fed = listParametersFromEdges(workflow);
  const having = workflow.nodes.filter((node) => parameterNames(node).includes(first) && !fed.has(`${node.id} ${first}`));
  const [only] = having;
  if (only !== undefined && having.length === 1) return { node: only, path: key.split(".") };
  if (only !== undefined) {
    const labels = having.map(({ label }) => `"${stripControlCharacters(label)}.${first}=…"`).join(", ");
    throw usageFailure(`${having.length} nodes have a parameter ${stripControlCharacters(first)}; choose one: ${labels}.`);
  }
  const suggestion = closestMatch(first, workflow.nodes.flatMap(parameterNames));
  throw usageFailure(
    `No node has a parameter ${stripControlCharacters(first)} that is not set by another node.${suggestion === null ? "" : ` Did you mean ${stripControlCharacters(suggestion)}?`}`,
  );
}

/** Parameters that an edge sets: a value for them would have no effect. */
function listParametersFromEdges(workflow: Workflow): Set<string> {
  const { nodes } = compilePlan(workflow);
  return new Set(nodes.flatMap(({ id, inputs }) => inputs.map(({ to }) => `${id} ${to[0] ?? ""}`)));
}

function parameterNames({ parameters, schema }: WorkflowNode): string[] {
  const properties = (schema?.parameters as { properties?: object } | undefined)?.properties;
  return [...Object.keys(parameters ?? {}), ...Object.keys(properties ?? {})];
}
