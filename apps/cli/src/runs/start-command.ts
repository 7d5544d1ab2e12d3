// `astra run FILE|WORKFLOW`: starts a workflow and follows the run. `astra up` uses it for its demo run too.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { checkWorkflow } from "@astraflow/graph";
import {
  Fault,
  type Run,
  type RunPlan,
  type RunRef,
  type RunStartRequest,
  readRunStartRequest,
  type Workflow,
} from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import type { CommandContext } from "../api/command-context.ts";
import { parseJson, readJsonFile } from "../api/input-file.ts";
import { findRunId, findWorkflow } from "../lookup/name-lookup.ts";
import { type CliExitCode, CliFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatTable } from "../output/table.ts";
import { stripControlCharacters, type Terminal } from "../output/terminal.ts";
import { followRun } from "./run-follower.ts";
import { applyInputFlags, type RunInputFlags } from "./run-inputs.ts";
import { parseVersion } from "./run-status.ts";

const submitTriesMax = 10;
const submitPauseMs = 500;

const isError = ({ severity }: { severity: string }): boolean => severity === "error";

export interface StartRunFlags extends RunInputFlags {
  readonly watch?: boolean;
  readonly detach?: boolean;
  readonly priority?: number;
  /** In milliseconds. */
  readonly timeout?: number;
  readonly key?: string;
  /** Of a stored workflow: its number, latest or draft. */
  readonly version?: string;
  readonly reuse?: string;
  readonly dryRun?: boolean;
  /** Start although no worker offers a required package. */
  readonly allowUnknown?: boolean;
}

/** A file with a workflow or with a whole request `{workflow, clientId}`. Validated here with the scheduler's own functions, before it is sent. */
export function readRunRequestFile(file: string): RunStartRequest {
  const { value, source } = readJsonFile(file);
  return toRunRequest(value, source);
}

export function parseRunRequest(text: string, source: string): RunStartRequest {
  return toRunRequest(parseJson(text, source), source);
}

function toRunRequest(value: unknown, source: string): RunStartRequest {
  const clientId = "astra-cli";
  const isRequest = typeof value === "object" && value !== null && "workflow" in value;
  const request = readRunStartRequest(isRequest ? { clientId, ...value } : { workflow: value, clientId });
  if (request instanceof Fault)
    throw new CliFailure(exitCodes.usage, { error: request.code, message: `${source}: ${request.message}` });
  const problems = request.workflow === undefined ? [] : checkWorkflow(request.workflow).filter(isError);
  if (problems.length > 0) {
    const message = `${source} cannot run: ${problems.length} ${problems.length === 1 ? "problem" : "problems"} in its graph.`;
    throw new CliFailure(exitCodes.usage, { error: "E.WORKFLOW.INVALID", message, details: { problems } });
  }
  return request;
}

/**
 * Sends the request again, with the same key, while the scheduler does not answer: perhaps only the response was lost, and a run must not
 * be started twice. That can take minutes, so the reason is logged once.
 */
export async function submitRun(
  client: Client,
  request: RunStartRequest,
  { key, log }: { key: string; log: (line: string) => void },
): Promise<RunRef> {
  for (let tries = 1; ; tries += 1) {
    try {
      return requireRunRef(await client.startRun({ body: request }, { key }));
    } catch (cause) {
      const isAway = cause instanceof CliFailure && cause.exitCode === exitCodes.unreachable;
      // A refused connection at the first try: nothing was sent, so this is reported at once.
      const isAbsent = tries === 1 && isAway && cause.body.details?.["reason"] === "ECONNREFUSED";
      if (!isAway || isAbsent || tries >= submitTriesMax) throw cause;
      if (tries === 1)
        log(`not accepted yet: ${cause.body.message} Trying again with the same key; the run is not started twice.`);
      await pause(submitPauseMs);
    }
  }
}

/** Only a dry run is answered with a plan. */
function requireRunRef(answer: RunRef | RunPlan): RunRef {
  if ("runId" in answer) return answer;
  throw new CliFailure(exitCodes.failed, { error: "E.INTERNAL", message: "The scheduler answered a start with a dry run." });
}

export async function startRun(
  fileOrName: string,
  flags: StartRunFlags,
  context: CommandContext & { signal: AbortSignal },
): Promise<CliExitCode> {
  const { client, terminal, json } = context;
  const { workflow, ...request } = await resolveWorkflowArgument(fileOrName, flags, client);
  const named = workflow ?? (await loadDefinition(request, client));
  const changes = applyInputFlags(named, flags);
  const full: RunStartRequest = {
    // A stored workflow is named, unless inputs have changed it.
    ...(workflow === undefined && changes.workflow === undefined ? request : withoutWorkflowReference(request)),
    ...(workflow !== undefined && { workflow }),
    ...changes,
    ...(flags.reuse !== undefined && { reuse: await findRunId(flags.reuse, client) }),
    ...(flags.priority !== undefined && { priority: flags.priority }),
    ...(flags.timeout !== undefined && { timeoutMs: flags.timeout }),
    ...(flags.allowUnknown && { allowUnknown: true }),
  };
  if (flags.dryRun) return printRunPlan(full, context);
  const key = flags.key ?? randomUUID();
  const ref = await submitRun(client, full, { key, log: (line) => terminal.info(line) }).catch((cause: unknown) => {
    throw isMissingPackagesOnly(cause)
      ? new CliFailure(cause.exitCode, cause.body, `astra run ${fileOrName} --allow-unknown`)
      : cause;
  });
  if (flags.detach) {
    terminal.print(json ? JSON.stringify(ref) : ref.runId);
    terminal.info(`next: astra runs watch ${ref.runId}`);
    return exitCodes.ok;
  }
  if (!json)
    terminal.info(
      `run ${ref.runId} of "${stripControlCharacters(named.metadata.name)}" (${named.nodes.length} ${named.nodes.length === 1 ? "node" : "nodes"})`,
    );
  return followToEnd(ref.runId, flags.watch ?? false, context);
}

/** Refused only because no worker offers a package: then --allow-unknown starts it. */
function isMissingPackagesOnly(cause: unknown): cause is CliFailure {
  const problems = cause instanceof CliFailure ? cause.body.details?.["problems"] : null;
  if (!Array.isArray(problems) || problems.length === 0) return false;
  return (problems as { path?: unknown }[]).every(({ path }) => /\/package\/(name|version)$/.test(String(path)));
}

function withoutWorkflowReference({ workflowId: _id, version: _version, ...rest }: RunStartRequest): RunStartRequest {
  return rest;
}

/** A file if it exists, or else the name or id of a stored workflow. */
async function resolveWorkflowArgument(fileOrName: string, { version }: StartRunFlags, client: Client): Promise<RunStartRequest> {
  if (fileOrName === "-" || existsSync(fileOrName) || /[/\\]|\.json$/.test(fileOrName)) {
    if (version !== undefined) throw usageFailure("--version chooses a version of a stored workflow; a file has only one.");
    return readRunRequestFile(fileOrName);
  }
  const { id } = await findWorkflow(fileOrName, client);
  return {
    clientId: "astra-cli",
    workflowId: id,
    ...(version !== undefined && { version: parseVersion(version, ["latest", "draft"]) }),
  };
}

async function loadDefinition({ workflowId = "", version = "latest" }: RunStartRequest, client: Client): Promise<Workflow> {
  const draft = await client.getDraft({ workflowId });
  const number = version === "latest" ? draft.latestVersion : version;
  if (typeof number !== "number") return draft.workflow;
  return (await client.getVersion({ workflowId, version: number })).workflow;
}

/** Follows a run to its end and prints how it ended; an interrupt leaves the run alone. */
export async function followToEnd(
  runId: string,
  watch: boolean,
  { client, terminal, json, signal }: CommandContext & { signal: AbortSignal },
): Promise<CliExitCode> {
  const view = json ? (watch ? "facts" : "none") : "picture";
  const run = await followRun(runId, { client, terminal, view, signal, now: Date.now }).catch((cause: unknown) => {
    if (!signal.aborted) throw cause;
    terminal.finishDrawing();
    terminal.info(`Stopped watching; the run continues. Cancel it with: astra runs cancel ${runId}`);
    return null;
  });
  if (run === null) return exitCodes.interrupted;
  printRunEnd(run, json, terminal);
  return run.status === "succeeded" ? exitCodes.ok : exitCodes.failed;
}

function printRunEnd(run: Run, isJson: boolean, terminal: Terminal): void {
  if (isJson) terminal.print(JSON.stringify(run));
  else {
    terminal.print(`${run.runId} ${run.status}`);
    if (run.error) terminal.error(`error ${run.error.code}: ${stripControlCharacters(run.error.message)}\n`);
    const why = run.status === "failed" ? `astra why ${run.runId}` : `astra runs logs ${run.runId}`;
    terminal.info(`next: ${why}, astra runs export ${run.runId}`);
  }
}

/** Prints what a start would do, and the problems that prevent it. */
async function printRunPlan(request: RunStartRequest, { client, terminal, json }: CommandContext): Promise<CliExitCode> {
  const plan = await client.startRun({ body: { ...request, dryRun: true } });
  if (!("dryRun" in plan))
    throw new CliFailure(exitCodes.failed, {
      error: "E.INTERNAL",
      message: `The scheduler started run ${plan.runId} instead of a dry run.`,
    });
  const errors = plan.problems.filter(({ severity }) => severity !== "warning");
  if (json) terminal.print(JSON.stringify(plan));
  else {
    const rows = plan.nodes.map((node) => [
      stripControlCharacters(node.label),
      node.action,
      node.action === "run" ? formatWorkerCount(node.workers) : "",
      node.nodeId,
    ]);
    for (const line of formatTable([["NODE", "ACTION", "WORKERS", "ID"], ...rows])) terminal.print(line);
    for (const { path, message, severity } of plan.problems)
      terminal.print(`${severity ?? "error"} ${stripControlCharacters(path)}: ${stripControlCharacters(message)}`);
    terminal.info(errors.length === 0 ? "Dry run: nothing was started." : "The run cannot be started like this.");
  }
  return errors.length === 0 ? exitCodes.ok : exitCodes.failed;
}

const formatWorkerCount = (count: number | undefined): string =>
  count === undefined ? "" : count === 0 ? "none yet" : String(count);
