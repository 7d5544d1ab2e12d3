// How an attempt ended: read from what its handler returned or threw, and written as the frame that reports it.

import { createHash } from "node:crypto";
import {
  Fault,
  type FaultCode,
  fault,
  isFaultCode,
  isRecord,
  type JsonObject,
  limits,
  type ResultArtifact,
  stringifyWithoutBindings,
} from "@astraflow/protocol";
import { type ResultStatus, readResultStatus } from "@astraflow/sdk";
import { checkReportPayload, checkReportText } from "./report-limits.ts";

export type AttemptOutcome =
  | HandlerOutcome
  /** Written where the handler ran: only text crosses from its thread. */
  | ({ readonly type: "written" } & EncodedOutcome);

export type HandlerOutcome =
  | {
      readonly type: "result";
      readonly status: ResultStatus;
      readonly result: JsonObject;
      readonly durationMs: number;
      readonly metadata?: JsonObject;
      readonly artifacts?: ResultArtifact[];
      readonly error?: { code: string; message: string };
    }
  | {
      readonly type: "error";
      readonly code: FaultCode;
      readonly message: string;
      readonly where: string;
      /** Where in its package the handler failed. */
      readonly stack?: string;
    };

/** An outcome as it travels: the frame's type and the text of its payload. */
export interface EncodedOutcome {
  readonly frameType: "biz.exec.result" | "biz.exec.error";
  readonly payload: string;
}

export type ErrorOutcome = Extract<HandlerOutcome, { type: "error" }>;

/** Where a handler ran: how its worker is called in artifacts, and what that keeps under a name. */
export interface OutcomeContext {
  readonly workerName: string;
  isKeptResource(resource: string): boolean;
}

const defaultOutcomeContext: OutcomeContext = { workerName: "", isKeptResource: () => true };

export function readReturnedOutcome(
  returned: unknown,
  durationMs: number,
  context: OutcomeContext = defaultOutcomeContext,
): HandlerOutcome {
  if (!isRecord(returned)) {
    return errorOutcome(`the handler returned ${describeValue(returned)}; it must return an object`, "worker.runner");
  }
  const { status, outputs, metadata, artifacts, ...others } = returned;
  const word = readResultStatus(status);
  const result = (isRecord(outputs) ? outputs : others) as JsonObject;
  const listed = readArtifacts(artifacts, context);
  if (listed instanceof Fault) return errorOutcome(listed.message, "worker.runner", listed.code);
  return {
    type: "result",
    status: word,
    result,
    durationMs,
    ...(isRecord(metadata) && { metadata: metadata as JsonObject }),
    ...(listed.length > 0 && { artifacts: listed }),
    ...(word === "FAILED" && { error: readFailureReason(status, result) }),
  };
}

export function readThrownOutcome(thrown: unknown): ErrorOutcome {
  if (thrown instanceof Fault && isId(String(thrown.code)))
    return { type: "error", code: thrown.code, message: limitMessage(thrown.message), where: "worker.runner" };
  const isError = thrown instanceof Error;
  // Packages have no class for faults: an error says by its code which one it is.
  const code =
    isError && "code" in thrown && typeof thrown.code === "string" && isFaultCode(thrown.code) ? thrown.code : undefined;
  const message = isError ? String(thrown.message) || String(thrown.name) : `the handler threw ${describeValue(thrown)}`;
  return errorOutcome(message, "worker.runner", code);
}

export function errorOutcome(message: string, where: string, code: FaultCode = "E.RUNNER.FAILURE"): ErrorOutcome {
  return { type: "error", code, message: limitMessage(message), where };
}

export interface AttemptIdentity {
  readonly run: string;
  readonly task: string;
  readonly fence: number;
  readonly dispatch: { readonly node_id: string };
}

/** Stores a large value and gives the artifact that refers to it. */
export interface ResultSpill {
  readonly inlineBytesMax: number;
  /** May throw a Fault: then nothing was put aside. */
  keep(id: string, text: string, scope: string): ResultArtifact;
}

/** The frame's type and payload text. An outcome that cannot be written, or is too large to travel, becomes an error that can. */
export function encodeOutcome(
  attempt: AttemptIdentity,
  outcome: AttemptOutcome,
  spill: ResultSpill | null = null,
): EncodedOutcome {
  if (outcome.type === "written") return outcome;
  if (outcome.type === "error") return { frameType: "biz.exec.error", payload: encodeError(attempt, outcome) };
  try {
    const payload = stringifyWithoutBindings({
      run_id: attempt.run,
      task_id: attempt.task,
      fence: attempt.fence,
      status: outcome.status,
      result: outcome.result,
      duration_ms: Math.max(0, Math.round(outcome.durationMs)),
      metadata: outcome.metadata,
      artifacts: outcome.artifacts,
      error: outcome.error,
    });
    // A character may take three bytes; measured exactly only when that could matter.
    if (spill !== null && payload.length * 3 > spill.inlineBytesMax && Buffer.byteLength(payload) > spill.inlineBytesMax)
      return encodeOutcome(attempt, spillLargeValues(attempt, outcome, spill));
    const problem = checkResult(outcome, payload);
    if (problem === null) return { frameType: "biz.exec.result", payload };
    return encodeOutcome(attempt, errorOutcome(problem.message, "worker.runner", problem.code));
  } catch (thrown) {
    const message = `the result cannot be written as JSON: ${readThrownOutcome(thrown).message}`;
    return encodeOutcome(attempt, errorOutcome(message, "worker.runner"));
  }
}

/** How an attempt ended, for people: the status in small letters, and its code, which is OK where nothing went wrong. */
export function summarizeOutcome(outcome: AttemptOutcome): { readonly status: string; readonly code: string } {
  if (outcome.type === "error") return { status: "failed", code: outcome.code };
  const written = outcome.type === "written" ? outcome : null;
  if (written?.frameType === "biz.exec.error") return { status: "failed", code: wordAfter(written.payload, codeKey) };
  const word = outcome.type === "result" ? outcome.status : wordAfter(outcome.payload, statusKey);
  const status = word.toLowerCase();
  if (word !== "FAILED") return { status, code: "OK" };
  const code = outcome.type === "result" ? outcome.error?.code : wordAfter(outcome.payload, errorKey, true);
  return { status, code: code || "E.RUNNER.FAILURE" };
}

const statusKey = '"status":"';
const codeKey = '"code":"';
const errorKey = '"error":{"code":"';

/** What is written behind a key that stands near the beginning of the text, or near its end. */
function wordAfter(text: string, key: string, isLast = false): string {
  const at = isLast ? text.lastIndexOf(key) : text.indexOf(key);
  return at < 0 ? "" : text.slice(at + key.length, text.indexOf('"', at + key.length));
}

/** Names and numbers are written before it; none of them can contain it. */
const resultKey = '"result":';

/** Only what a handler says beside its outputs needs the scheduler's reader; outputs are any object within the limits. */
function checkResult({ metadata, artifacts, error }: ResultOutcome, payload: string): Fault | null {
  const isPlain = metadata === undefined && artifacts === undefined && error === undefined;
  if (!isPlain) return checkReportPayload("the result", "biz.exec.result", payload);
  // An object may write itself as something else (toJSON).
  if (payload[payload.indexOf(resultKey) + resultKey.length] !== "{")
    return fault("E.FRAME.INVALID", "the result cannot be sent: its outputs are not written as an object");
  return checkReportText("the result", payload);
}

type ResultOutcome = Extract<HandlerOutcome, { type: "result" }>;

/** The largest values of the result stay at this worker, one by one, until the rest may travel; edges then carry where they are. */
function spillLargeValues(attempt: AttemptIdentity, outcome: ResultOutcome, spill: ResultSpill): HandlerOutcome {
  const result = { ...outcome.result };
  const artifacts = [...(outcome.artifacts ?? [])];
  const texts = Object.entries(result).flatMap(([key, value]) => {
    const text = stringifyWithoutBindings(value) as string | undefined;
    return text === undefined ? [] : [{ key, text, bytes: Buffer.byteLength(text) }];
  });
  let bytes = texts.reduce((sum, one) => sum + one.bytes, 0);
  try {
    for (const { key, text, bytes: size } of texts.sort((a, b) => b.bytes - a.bytes)) {
      // The reference to a small value would be larger than the value.
      if (bytes <= spill.inlineBytesMax - spillReserveBytes || size < spillValueBytesMin) break;
      const kept = spill.keep(spillResourceId(attempt, key), text, attempt.run);
      artifacts.push(kept);
      result[key] = { resourceRef: { resourceId: kept.resource_id, workerName: kept.worker_name, type: kept.type } };
      bytes -= size;
    }
  } catch (thrown) {
    const { code, message } = readThrownOutcome(thrown);
    return errorOutcome(`the result is too large to travel and could not be kept here: ${message}`, "worker.resources", code);
  }
  return { ...outcome, result, artifacts };
}

const spillReserveBytes = 4_096;
const spillValueBytesMin = 200;

function spillResourceId({ task, fence }: AttemptIdentity, key: string): string {
  const exact = `${task}#${fence}/results.${key}`;
  return /^[\w./#*~-]{1,200}$/.test(exact) ? exact : `${createHash("sha256").update(exact).digest("hex").slice(0, 32)}#${fence}`;
}

function encodeError(attempt: AttemptIdentity, outcome: ErrorOutcome): string {
  const { stack } = outcome;
  const names = { run_id: attempt.run, task_id: attempt.task, node_id: attempt.dispatch.node_id };
  const details = stack === undefined ? names : { ...names, stack };
  return JSON.stringify({
    run_id: attempt.run,
    task_id: attempt.task,
    fence: attempt.fence,
    code: outcome.code,
    message: outcome.message,
    context: { where: outcome.where, details },
  });
}

/** Why a result failed: packages in the field put the reason into `result.error`. */
function readFailureReason(status: unknown, result: JsonObject): { code: string; message: string } {
  const stated = result["error"];
  if (typeof stated === "string" && stated !== "") return { code: "E.RUNNER.FAILURE", message: limitMessage(stated) };
  if (isRecord(stated) && typeof stated["message"] === "string" && stated["message"] !== "") {
    const code = typeof stated["code"] === "string" && isId(stated["code"]) ? stated["code"] : "E.RUNNER.FAILURE";
    return { code, message: limitMessage(stated["message"]) };
  }
  return { code: "E.RUNNER.FAILURE", message: `the handler returned status ${JSON.stringify(status)}` };
}

const isId = (code: string): boolean => code !== "" && code.length <= limits.idCharsMax && !/\p{Cc}/u.test(code);

/** A message that may travel: never empty, never endless. */
function limitMessage(message: string): string {
  return message === "" ? "no reason was given" : message.slice(0, limits.textCharsMax);
}

function describeValue(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (value === undefined) return "nothing";
  return typeof value === "string" ? JSON.stringify(value.slice(0, 200)) : `a ${typeof value}`;
}

/** As they will be written. Checked here because what a result names is remembered and named again when the worker registers. */
function readArtifacts(artifacts: unknown, context: OutcomeContext): ResultArtifact[] | Fault {
  const listed = Array.isArray(artifacts) ? artifacts.flatMap((one) => readArtifact(one, context)) : [];
  if (listed.length === 0) return listed;
  const text = stringifyWithoutBindings({ run_id: "r", task_id: "t", status: "SUCCEEDED", result: {}, artifacts: listed });
  const problem = checkReportPayload("the result", "biz.exec.result", text);
  return problem ?? (JSON.parse(text) as { artifacts: ResultArtifact[] }).artifacts;
}

/** Leaves out invalid entries; the worker's name and, for data that is not kept here, `inline` are filled in. */
function readArtifact(value: unknown, { workerName, isKeptResource: isKept }: OutcomeContext): ResultArtifact[] {
  if (!isRecord(value)) return [];
  const { resource_id: id, worker_name: owner = workerName, inline } = value;
  // The payload is all there is of it.
  const isInline = inline === undefined && owner === workerName && typeof id === "string" && !isKept(id);
  const named = { worker_name: workerName, ...value, ...(isInline && { inline: true }) };
  const { resource_id, worker_name, type } = named as Record<string, unknown>;
  const isWhole = [resource_id, worker_name, type].every((field) => typeof field === "string" && field !== "");
  return isWhole ? [named as unknown as ResultArtifact] : [];
}
