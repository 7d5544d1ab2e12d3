// `astra run FILE`: submits a workflow and follows it. Also what `astra up` uses for its demo run.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { checkWorkflow } from "@astraflow/graph";
import { Fault, type Run, type RunRef, type RunStartRequest, readRunStartRequest } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "./failure.ts";
import { followRun } from "./run-following.ts";
import type { Terminal } from "./terminal.ts";

const submitTriesMax = 10;
const submitPauseMs = 500;

export interface RunWords {
  readonly json: boolean;
  readonly watch: boolean;
  readonly detach: boolean;
  readonly priority: number | undefined;
  readonly timeoutMs: number | undefined;
  readonly key: string | undefined;
}

/** A workflow, or a whole request `{workflow, clientId}`. Checked here with the scheduler's own functions, so that it is refused before it is sent. */
export function readRequest(text: string, source: string): RunStartRequest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw usageFailure(`${source} is not JSON (${cause instanceof Error ? cause.message : String(cause)}).`);
  }
  const clientId = "astra-cli";
  const given =
    typeof value === "object" && value !== null && "workflow" in value ? { clientId, ...value } : { workflow: value, clientId };
  const request = readRunStartRequest(given);
  if (request instanceof Fault)
    throw new CliFailure(exitCodes.usage, { error: request.code, message: `${source}: ${request.message}` });
  const problems = checkWorkflow(request.workflow);
  if (problems.length > 0) {
    const message = `${source} cannot run: ${problems.length} ${problems.length === 1 ? "problem" : "problems"} in its graph.`;
    throw new CliFailure(exitCodes.usage, { error: "E.WORKFLOW.INVALID", message, details: { problems } });
  }
  return request;
}

export function readRequestFile(file: string): RunStartRequest {
  const source = file === "-" ? "stdin" : file;
  let text: string;
  try {
    text = readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (cause) {
    throw usageFailure(`${source} cannot be read (${cause instanceof Error ? cause.message : String(cause)}).`);
  }
  return readRequest(text, source);
}

/**
 * Sent again under one key while nobody answers: the reply may be what was lost, and a run is never made twice. That can take minutes,
 * so `tell` hears why, once.
 */
export async function submitRun(
  client: Client,
  request: RunStartRequest,
  { key, tell }: { key: string; tell: (line: string) => void },
): Promise<RunRef> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await client.startRun(request, key);
    } catch (cause) {
      const isAway = cause instanceof CliFailure && cause.exitCode === exitCodes.unreachable;
      // Nobody there at the first try: nothing was sent, and the person should hear of it now.
      const isAbsent = tries === 1 && isAway && cause.body.details?.["reason"] === "ECONNREFUSED";
      if (!isAway || isAbsent || tries >= submitTriesMax) throw cause;
      if (tries === 1)
        tell(`not accepted yet: ${cause.body.message} Trying again under the same key; the run is never made twice.`);
      await pause(submitPauseMs);
    }
  }
}

export async function runFile(
  file: string,
  words: RunWords,
  { client, terminal, signal }: { client: Client; terminal: Terminal; signal: AbortSignal },
): Promise<ExitCode> {
  const request = readRequestFile(file);
  const full: RunStartRequest = {
    ...request,
    ...(words.priority !== undefined && { priority: words.priority }),
    ...(words.timeoutMs !== undefined && { timeoutMs: words.timeoutMs }),
  };
  const ref = await submitRun(client, full, { key: words.key ?? randomUUID(), tell: (line) => terminal.say(line) });
  if (words.detach) {
    terminal.print(words.json ? JSON.stringify(ref) : ref.runId);
    terminal.say(`next: astra runs show ${ref.runId}`);
    return exitCodes.ok;
  }
  if (!words.json) terminal.say(`run ${ref.runId} of "${full.workflow.metadata.name}" (${full.workflow.nodes.length} nodes)`);
  const view = words.json ? (words.watch ? "facts" : "none") : "picture";
  const run = await followRun(ref.runId, { client, terminal, view, signal, now: Date.now }).catch((cause: unknown) => {
    if (!signal.aborted) throw cause;
    terminal.settle();
    terminal.say(`left; the run goes on. Stop it with: astra runs cancel ${ref.runId}`);
    return null;
  });
  if (run === null) return exitCodes.interrupted;
  reportEnd(run, words.json, terminal);
  return run.status === "succeeded" ? exitCodes.ok : exitCodes.failed;
}

function reportEnd(run: Run, isJson: boolean, terminal: Terminal): void {
  if (isJson) terminal.print(JSON.stringify(run));
  else {
    terminal.print(`${run.runId} ${run.status}`);
    if (run.error) terminal.complain(`error ${run.error.code}: ${run.error.message}\n`);
    terminal.say(`next: astra runs export ${run.runId}`);
  }
}
