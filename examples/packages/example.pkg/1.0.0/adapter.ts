// The nodes of the welcome journey and their companions: small, quick, honest. Each handler takes a context and returns its outputs;
// throwing fails the attempt. Nothing here leaves the machine: a notification is only pretended.

import { createHash } from "node:crypto";
import type { HandlerContext } from "@astraflow/sdk";

type Params = HandlerContext["params"];

export function echo(ctx: HandlerContext) {
  return { echo: toText(readParam(ctx, "message")) };
}

/** The config is JSON text, as an editor field holds it, or an object that an edge brought. Its template is filled in here. */
export function loadConfig(ctx: HandlerContext) {
  const config = readConfig(readParam(ctx, "config"));
  const message = toText(config["template"] ?? config["message"]).replace(/\{\{\s*(\w+)\s*\}\}/g, (hole, key: string) =>
    key in config ? toText(config[key]) : hole,
  );
  return {
    config,
    message,
    recipient: toText(config["recipient"]),
    subject: toText(config["subject"]),
    channel: toText(config["channel"] ?? "email"),
    delaySeconds: toNumber(config["delaySeconds"], 0, "delaySeconds"),
    tokenDelayMs: toNumber(config["tokenDelayMs"], 50, "tokenDelayMs"),
  };
}

const modes: Readonly<Record<string, (input: string) => string>> = {
  none: (input) => input,
  uppercase: (input) => input.toUpperCase(),
  lowercase: (input) => input.toLowerCase(),
  title: (input) => input.toLowerCase().replace(/(^|\s)\S/gu, (start) => start.toUpperCase()),
  reverse: (input) => [...input].reverse().join(""),
};

/** Changes the text and hands on what later nodes need to deliver it. */
export function transformText(ctx: HandlerContext) {
  const { params } = ctx;
  const mode = toText(params["mode"] ?? "uppercase");
  if (!Object.hasOwn(modes, mode)) throw new Error(`mode must be one of ${Object.keys(modes).join(", ")}, not ${mode}`);
  const output = modes[mode]?.(toText(readParam(ctx, "text"))) ?? "";
  return { output, message: output, mode, length: output.length, ...passOnFields(params) };
}

const deliveryKeys = ["recipient", "subject", "channel", "delaySeconds", "tokenDelayMs"];

const passOnFields = (params: Params) =>
  Object.fromEntries(deliveryKeys.flatMap((key) => (params[key] === undefined ? [] : [[key, params[key]]])));

/** Takes its time, says how far it is, and stops at once when nobody waits any more. */
export async function delay({ params, feedback, signal }: HandlerContext) {
  const durationSeconds = toNumber(params["durationSeconds"], 1, "durationSeconds");
  const steps = Math.max(1, Math.min(20, Math.round(durationSeconds * 10)));
  for (let step = 0; step < steps; step++) {
    feedback.send({ stage: "waiting", progress: step / steps, message: `${step} of ${steps} parts of ${durationSeconds} s` });
    await pause((durationSeconds * 1_000) / steps, signal);
  }
  feedback.send({ stage: "done", progress: 1 });
  return { done: true, durationSeconds };
}

/** The id is the task's own: a second attempt of the same task sends the same notification and not another. */
export function sendNotification(ctx: HandlerContext) {
  const { params, taskId, feedback } = ctx;
  const recipient = toText(params["recipient"]);
  if (recipient === "") throw new Error("a notification needs a recipient");
  const channel = toText(params["channel"] ?? "email");
  const notificationId = `ntf-${createHash("sha256").update(taskId).digest("hex").slice(0, 16)}`;
  feedback.emitText(`to ${recipient} by ${channel}: ${toText(params["subject"])}\n${toText(readParam(ctx, "message"))}\n`, {
    channel: "stdout",
  });
  return {
    notificationId,
    delivered: true,
    recipient,
    channel,
    summary: `${notificationId} was sent to ${recipient} by ${channel}`,
  };
}

export function auditLog({ params, runId, taskId, feedback }: HandlerContext) {
  const entry = {
    event: toText(params["event"] ?? "delivered"),
    notificationId: toText(params["notificationId"]),
    recipient: toText(params["recipient"]),
    details: toText(params["details"]),
    run: runId,
    task: taskId,
  };
  feedback.emitText(`${JSON.stringify(entry)}\n`);
  return { recorded: true, notificationId: entry.notificationId, entry };
}

/** Says a text word by word, as a language model does: each word as a chunk, and all so far as a result to look at. */
export async function feedbackDemo(ctx: HandlerContext) {
  const { params, feedback, signal } = ctx;
  const tokens = toText(readParam(ctx, "prompt")).match(/\S+\s*/g) ?? [];
  const tokenDelayMs = toNumber(params["tokenDelayMs"], 50, "tokenDelayMs");
  let summary = "";
  feedback.send({ stage: "running", progress: 0, message: `${tokens.length} words to say` });
  for (const [index, token] of tokens.entries()) {
    await pause(tokenDelayMs, signal);
    summary += token;
    feedback.send({
      stage: "streaming",
      progress: (index + 1) / tokens.length,
      chunks: [{ channel: "llm", text: token }],
      metrics: { tokens: index + 1 },
      metadata: { results: { summary } },
    });
  }
  return {
    status: "SUCCEEDED",
    outputs: { summary, tokenCount: tokens.length, done: true },
    metadata: { token_count: tokens.length },
  };
}

/** Numbers as they come, and what they come to. */
export function collectMetrics({ params, feedback }: HandlerContext) {
  const value = params["samples"];
  const samples = (Array.isArray(value) ? value : [1, 2, 3]).map((sample) => toNumber(sample, 0, "samples"));
  const name = toText(params["name"] ?? "sample");
  for (const [index, sample] of samples.entries())
    feedback.send({ stage: "measuring", progress: (index + 1) / samples.length, metrics: { [name]: sample } });
  const sum = samples.reduce((total, sample) => total + sample, 0);
  return { count: samples.length, sum, mean: samples.length === 0 ? 0 : sum / samples.length };
}

/** Lets its payload through or holds it back; both are a success, and say which it was. */
export function debugGate({ params }: HandlerContext) {
  const isAllowed = params["condition"] === true || params["condition"] === "true";
  const payload = isAllowed ? (params["payload"] ?? null) : null;
  return { status: isAllowed ? "allowed" : "blocked", outputs: { allowed: isAllowed, payload } };
}

/** Fails with any code: always, or so many attempts and then no more. Attempts are those of the task, or those that a middleware makes. */
export function fail({ params, attempt }: HandlerContext) {
  const times = toNumber(params["times"], 0, "times");
  const { hostCtx } = (params["__next"] ?? {}) as { hostCtx?: { attempt?: unknown } };
  const current = typeof hostCtx?.attempt === "number" ? hostCtx.attempt : attempt;
  if (times > 0 && current > times) return { attempts: current, done: true };
  const code = toText(params["code"]) || "E.RUNNER.FAILURE";
  const message = toText(params["message"]) || `attempt ${current} fails, as it was asked to`;
  // Thrown errors have only the codes of the scheduler; a returned failure may have any.
  return { status: "failed", outputs: { error: { code, message }, attempts: current } };
}

/** A value that was too large to travel stayed at this worker; a reference stands in its place. */
function readParam({ params, resources }: HandlerContext, key: string): unknown {
  const value = params[key];
  const { resourceRef } = (value ?? {}) as { resourceRef?: { resourceId: string } };
  return resourceRef === undefined ? value : resources.readJson(resourceRef.resourceId);
}

function readConfig(value: unknown): Params {
  const config: unknown = typeof value === "string" ? JSON.parse(value) : value;
  if (typeof config !== "object" || config === null || Array.isArray(config)) throw new Error("config must be a JSON object");
  return config as Params;
}

function toText(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function toNumber(value: unknown, fallback: number, name: string): number {
  const read = value === undefined || value === null || value === "" ? fallback : Number(value);
  if (!Number.isFinite(read) || read < 0) throw new Error(`${name} must be a number from 0 on, not ${JSON.stringify(value)}`);
  return read;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}
