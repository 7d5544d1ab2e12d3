// `astra run FILE|WORKFLOW`: starts a workflow and follows the run. `astra up` uses it for its demo run too.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { checkWorkflow } from "@astraflow/graph";
import {
  Fault,
  omitUndefined,
  type RunPlan,
  type RunStartRequest,
  readRunStartRequest,
  type StartedRunRef,
} from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { type CommandContext, printItem, type Switches, type TextInput } from "../api/command-context.ts";
import { readJsonFile } from "../api/input-file.ts";
import { findRunIdIfGiven, findWorkflow, loadDefinition } from "../lookup/name-lookup.ts";
import {
  CliFailure,
  type ExitCode,
  exitCodes,
  faultFailure,
  internalFailure,
  nameFlags,
  usageFailure,
} from "../output/cli-failure.ts";
import { formatTextTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { workflowFailure } from "../workflows/workflow-file.ts";
import { requireRunRef } from "./change-commands.ts";
import { followRun } from "./run-follower.ts";
import { applyInputFlags, loadParameterSchemas, type RunInputFlags } from "./run-inputs.ts";
import { describeResults } from "./run-results.ts";
import { describeRunError } from "./run-view.ts";
import { parseVersion } from "./run-status.ts";

const submitTriesMax = 10;
const submitPauseMs = 500;

const isError = ({ severity = "error" }: { readonly severity?: string }): boolean => severity === "error";

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
  const schemas = flags.input.length === 0 ? new Map() : await loadParameterSchemas(named, client);
  const changes = applyInputFlags(named, flags, schemas);
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
  const manner = { key, signal: context.signal, log: (line: string) => terminal.info(line) };
  const ref = await submitRun(client, full, manner).catch(async (cause: unknown) => {
    throw await withAllProblems(cause, full, context, flags.workflow);
  });
  for (const { path, message } of await findWarnings(ref, full, context))
    terminal.info(stripControlCharacters(`warning ${path}: ${message}`));
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

/**
 * Warnings about the workflow as it runs now. The answer to a start with a key has only those that never change, so that it can be repeated;
 * a dry run lists them all. The run has started by then, so a scheduler that does not answer is only mentioned. Scripts can
 * ask for the dry run themselves.
 */
async function findWarnings(ref: StartedRunRef, request: RunStartRequest, { client, terminal, json }: CommandContext) {
  const own = ref.problems ?? [];
  if (json) return own;
  try {
    return (await rehearseRun(client, request)).problems.filter((problem) => !isError(problem));
  } catch (cause) {
    if (!(cause instanceof CliFailure)) throw cause;
    terminal.info(`warnings about the workflow could not be read: ${cause.message}`);
    return own;
  }
}

/** A refused workflow with its warnings too. If no worker offers a package, and that is all, --allow-unknown starts it. */
async function withAllProblems(cause: unknown, request: RunStartRequest, { client }: CommandContext, file: string) {
  if (!(cause instanceof CliFailure) || cause.body.error !== "E.WORKFLOW.INVALID") return cause;
  const next = isMissingPackagesOnly(cause) ? `astra run ${file} --allow-unknown` : cause.suggestedCommand;
  const problems = await rehearseRun(client, request).then(
    (plan) => plan.problems,
    () => cause.body.details?.["problems"], // the refusal itself is what matters
  );
  return new CliFailure(cause.exitCode, { ...cause.body, details: { ...cause.body.details, problems } }, next);
}

/** Refused only because no worker offers a package. */
function isMissingPackagesOnly(cause: CliFailure): boolean {
  const problems = cause.body.details?.["problems"];
  if (!Array.isArray(problems) || problems.length === 0) return false;
  return (problems as { path?: unknown }[]).every(({ path }) => String(path).endsWith("/package/name"));
}

/** What a start would do, and all that is wrong or doubtful with its workflow. */
async function rehearseRun(client: Client, request: RunStartRequest): Promise<RunPlan> {
  const plan = await client.startRun({ body: { ...request, dryRun: true } });
  if (!("dryRun" in plan)) throw internalFailure(`The scheduler started run ${plan.runId} instead of a dry run.`);
  return plan;
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
  const why = run.status === "failed" ? [`astra why ${runId}`] : [];
  const results = json ? [] : describeResults(run, await client.getRunDefinition({ runId }));
  printItem(context, run, [`${runId} ${run.status}`, ...results]);
  if (!json && run.error) terminal.error(`error ${describeRunError(run).join("\n")}\n`);
  if (!json) terminal.info(`next: ${[...why, `astra runs logs ${runId}`, `astra runs export ${runId}`].join(", ")}`);
  return run.status === "succeeded" ? exitCodes.ok : exitCodes.failed;
}

async function printRunPlan(context: CommandContext, request: RunStartRequest): Promise<ExitCode> {
  const plan = await rehearseRun(context.client, request);
  const isGood = plan.problems.every(({ severity }) => severity === "warning");
  const rows = plan.nodes.map((node) => [
    node.label,
    node.action,
    node.action === "run" ? formatWorkerCount(node.workers) : "",
    node.nodeId,
  ]);
  const problems = plan.problems.map(({ path, message, severity }) => `${severity ?? "error"} ${path}: ${nameFlags(message)}`);
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
