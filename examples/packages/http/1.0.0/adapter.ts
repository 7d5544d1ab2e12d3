// The nodes of the package: one request, a download into a file, and waiting for a condition. Retries are the policy of the workflow's node.

import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { HandlerContext } from "@astraflow/sdk";
import { failure } from "./failure.ts";
import { buildRequest, type ReceivedResponse, type RequestParams, type SentRequest, sendRequest, showUrl } from "./request.ts";
import { checkStatus, isExpectedStatus, readBytes, saveBytes } from "./response.ts";

interface AnswerParams extends RequestParams {
  readonly timeoutMs?: number;
  readonly maxBytes?: number;
  readonly expectStatus?: readonly string[];
  readonly response?: "auto" | "json" | "text" | "artifact";
  readonly filename?: string;
  readonly sha256?: string;
}

const defaults = {
  timeoutMs: 30_000,
  downloadMs: 600_000,
  bytes: 1024 * 1024,
  downloadBytes: 256 * 1024 * 1024,
  redirects: 5,
  status: ["2xx"],
} as const;
/** `auto` keeps a larger body in a file: results travel with every event of the run. */
const inlineBytesMax = 256 * 1024;

export async function request(ctx: HandlerContext) {
  const params = ctx.params as unknown as AnswerParams;
  const { sent, response, signal } = await sendAndCheck(ctx, params, params.timeoutMs ?? defaults.timeoutMs);
  const limits = { signal, bytesMax: params.maxBytes ?? defaults.bytes };
  const about = describe(response);
  const how = chooseForm(params, response);
  if (how === "artifact") {
    const { file, artifacts } = await keepBody(ctx, sent, response, limits);
    return { outputs: { ...about, body: null, file }, artifacts };
  }
  const text = (await readBytes(sent.method, response, limits)).toString("utf8");
  return { outputs: { ...about, body: how === "json" ? parseJson(text, sent) : text, file: null } };
}

export async function download(ctx: HandlerContext) {
  const params = ctx.params as unknown as AnswerParams;
  const { sent, response, signal } = await sendAndCheck(ctx, params, params.timeoutMs ?? defaults.downloadMs);
  const limits = { signal, bytesMax: params.maxBytes ?? defaults.downloadBytes };
  const { file, sha256, sizeBytes, artifacts } = await keepBody(ctx, sent, response, limits);
  return { outputs: { ...describe(response), file, sha256, sizeBytes }, artifacts };
}

/** Asks again and again; what is refused for good, as an address that is not allowed, ends the waiting at once. */
export async function wait_for(ctx: HandlerContext) {
  const params = ctx.params as unknown as WaitParams;
  const { timeoutMs = 300_000, intervalMs = 5_000, requestTimeoutMs = defaults.timeoutMs } = params;
  const sent = buildRequest(ctx);
  const deadline = limitTime(ctx.signal, timeoutMs, `${showUrl(sent.url)} did not become what was waited for`);
  for (let polls = 1; ; polls++) {
    const seen = await poll(sent, params, limitTime(deadline, requestTimeoutMs, "no answer in time"));
    if (seen.isMet) {
      const { statusCode, body } = seen;
      return { statusCode, body, polls };
    }
    ctx.signal.throwIfAborted();
    ctx.feedback.send({ stage: "waiting", message: `${polls}. answer: ${seen.reason}`, metrics: { polls } });
    if (deadline.aborted) throw outOfTime(deadline, seen.reason);
    await pause(intervalMs, undefined, { signal: deadline }).catch((stopped: unknown) => {
      ctx.signal.throwIfAborted();
      throw deadline.aborted ? outOfTime(deadline, seen.reason) : stopped;
    });
  }
}

const outOfTime = (deadline: AbortSignal, last: string): Error =>
  failure("E.TIMEOUT", `${(deadline.reason as Error).message}; the last answer: ${last}`);

interface WaitParams extends AnswerParams {
  readonly intervalMs?: number;
  readonly requestTimeoutMs?: number;
  readonly path?: string;
  readonly equals?: unknown;
  readonly contains?: string;
}

interface Poll {
  readonly isMet: boolean;
  readonly reason: string;
  readonly statusCode?: number;
  readonly body?: unknown;
}

async function poll(sent: SentRequest, params: WaitParams, signal: AbortSignal): Promise<Poll> {
  try {
    const response = await sendRequest(sent, params.redirects ?? defaults.redirects, signal);
    const bytes = await readBytes(sent.method, response, { signal, bytesMax: params.maxBytes ?? defaults.bytes });
    const { statusCode } = response;
    if (!isExpectedStatus(statusCode, params.expectStatus ?? defaults.status))
      return { isMet: false, reason: `status ${statusCode}` };
    const text = bytes.toString("utf8");
    const body = isJson(response) || params.path ? parseJson(text, sent) : text;
    if (params.path) {
      const value = valueAt(body, params.path);
      const isMet = params.equals === undefined ? value !== undefined && value !== null : isDeepStrictEqual(value, params.equals);
      return { isMet, reason: `${params.path} is ${JSON.stringify(value) ?? "not there"}`, statusCode, body };
    }
    const isMet = params.contains === undefined || text.includes(params.contains);
    return { isMet, reason: "the text is not in it", statusCode, body };
  } catch (problem) {
    const { code, message } = problem as { code?: string; message: string };
    if (code === "E.RUNNER.REFUSED" || code === "E.PARAMS.INVALID") throw problem;
    return { isMet: false, reason: message };
  }
}

/** `a.b.0.c` of nested objects and lists. */
function valueAt(value: unknown, dotted: string): unknown {
  return dotted.split(".").reduce<unknown>((at, key) => {
    const isNested = typeof at === "object" && at !== null && Object.hasOwn(at, key);
    return isNested ? (at as Record<string, unknown>)[key] : undefined;
  }, value);
}

async function sendAndCheck(ctx: HandlerContext, params: AnswerParams, timeoutMs: number) {
  const sent = buildRequest(ctx);
  const signal = limitTime(ctx.signal, timeoutMs, `${sent.method} ${showUrl(sent.url)} took more than ${timeoutMs} ms`);
  ctx.feedback.send({ stage: "requesting", message: `${sent.method} ${showUrl(sent.url)}` });
  const response = await sendRequest(sent, params.redirects ?? defaults.redirects, signal);
  await checkStatus(sent.method, response, params.expectStatus ?? defaults.status);
  return { sent, response, signal };
}

/** Aborted with E.TIMEOUT after the time, or as its parent is. */
function limitTime(parent: AbortSignal, ms: number, message: string): AbortSignal {
  const own = new AbortController();
  const timer = setTimeout(() => own.abort(failure("E.TIMEOUT", message)), ms);
  // The handler may be over long before; its process need not wait for this.
  timer.unref();
  return AbortSignal.any([parent, own.signal]);
}

/** The body as a file: kept at this worker, and stored with the scheduler, where people and other workers find it. */
async function keepBody(
  ctx: HandlerContext,
  sent: SentRequest,
  response: ReceivedResponse,
  limits: { readonly signal: AbortSignal; readonly bytesMax: number },
) {
  const { resources, feedback, taskId, runId, workDir } = ctx;
  const params = ctx.params as unknown as AnswerParams;
  const place = path.join(workDir, "body");
  const { sha256, sizeBytes } = await saveBytes(sent.method, response, place, {
    ...limits,
    progress: createProgress((bytes, share) =>
      feedback.send({ stage: "downloading", metrics: { bytes }, ...(share !== undefined && { progress: share }) }),
    ),
  });
  const wanted = params.sha256?.toLowerCase();
  if (wanted !== undefined && wanted !== "" && wanted !== sha256)
    throw failure("E.RESOURCE.DIGEST", `${showUrl(response.url)} has the SHA-256 ${sha256}, not ${wanted}`);
  // The scheduler stores no empty files.
  if (sizeBytes === 0) return { file: null, sha256, sizeBytes, artifacts: [] };
  const id = `body ${taskId}`;
  resources.registerFile(id, place, { scope: runId });
  const [mimeType] = (response.headers["content-type"] ?? "application/octet-stream").split(";");
  const filename = params.filename || path.posix.basename(response.url.pathname) || "body";
  const file = await resources.upload(id, { filename: path.basename(filename), mimeType: mimeType ?? "" });
  return { file, sha256, sizeBytes, artifacts: [resources.artifact(id)] };
}

/** Some twenty reports of a body of known length, one a mebibyte of others. */
function createProgress(report: (bytes: number, share: number | undefined) => void) {
  let reported = 0;
  return (bytes: number, total: number | undefined): void => {
    const step = total === undefined ? 1024 * 1024 : Math.max(total / 20, 64 * 1024);
    if (bytes - reported < step && bytes !== total) return;
    reported = bytes;
    report(bytes, total === undefined || total === 0 ? undefined : bytes / total);
  };
}

const isJson = ({ headers }: ReceivedResponse): boolean =>
  /^application\/(?:[\w.-]+\+)?json\b/.test(headers["content-type"] ?? "");

function chooseForm({ response: wanted = "auto" }: AnswerParams, response: ReceivedResponse): "json" | "text" | "artifact" {
  if (wanted !== "auto") return wanted;
  if (Number(response.headers["content-length"] ?? 0) > inlineBytesMax) return "artifact";
  if (isJson(response)) return "json";
  const type = response.headers["content-type"] ?? "text/plain";
  return /^(?:text\/|application\/(?:xml|yaml|javascript)\b)/.test(type) ? "text" : "artifact";
}

function parseJson(text: string, sent: SentRequest): unknown {
  if (text === "") return null;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw failure("E.RUNNER.FAILURE", `the answer of ${showUrl(sent.url)} is not JSON: ${(cause as Error).message}`, cause);
  }
}

const describe = ({ statusCode, headers, url, redirects }: ReceivedResponse) => ({
  statusCode,
  headers,
  url: url.href,
  redirects,
});
