// The nodes of the welcome journey and their companions: small, quick, honest. Each handler takes a context and returns its outputs;
// throwing fails the attempt. Nothing here leaves the machine: a notification is only pretended.

import { createHash } from "node:crypto";
import type { HandlerContext } from "@astraflow/runtime";

type Params = HandlerContext["params"];

export function echo(ctx: HandlerContext) {
  return { echo: text(valueOf(ctx, "message")) };
}

/** The config is JSON text, as an editor field holds it, or an object that an edge brought. Its template is filled in here. */
export function loadConfig(ctx: HandlerContext) {
  const config = readConfig(valueOf(ctx, "config"));
  const message = text(config["template"] ?? config["message"]).replace(/\{\{\s*(\w+)\s*\}\}/g, (hole, key: string) =>
    key in config ? text(config[key]) : hole,
  );
  return {
    config,
    message,
    recipient: text(config["recipient"]),
    subject: text(config["subject"]),
    channel: text(config["channel"] ?? "email"),
    delaySeconds: number(config["delaySeconds"], 0, "delaySeconds"),
    tokenDelayMs: number(config["tokenDelayMs"], 50, "tokenDelayMs"),
  };
}

const modes: Readonly<Record<string, (words: string) => string>> = {
  none: (words) => words,
  uppercase: (words) => words.toUpperCase(),
  lowercase: (words) => words.toLowerCase(),
  title: (words) => words.toLowerCase().replace(/(^|\s)\S/gu, (start) => start.toUpperCase()),
  reverse: (words) => [...words].reverse().join(""),
};

/** Changes the text and hands on what later nodes need to deliver it. */
export function transformText(ctx: HandlerContext) {
  const { params } = ctx;
  const mode = text(params["mode"] ?? "uppercase");
  if (!Object.hasOwn(modes, mode)) throw new Error(`mode must be one of ${Object.keys(modes).join(", ")}, not ${mode}`);
  const output = modes[mode]?.(text(valueOf(ctx, "text"))) ?? "";
  return { output, message: output, mode, length: output.length, ...handedOn(params) };
}

const routing = ["recipient", "subject", "channel", "delaySeconds", "tokenDelayMs"];

const handedOn = (params: Params) =>
  Object.fromEntries(routing.flatMap((key) => (params[key] === undefined ? [] : [[key, params[key]]])));

/** Takes its time, says how far it is, and stops at once when nobody waits any more. */
export async function delay({ params, feedback, signal }: HandlerContext) {
  const durationSeconds = number(params["durationSeconds"], 1, "durationSeconds");
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
  const recipient = text(params["recipient"]);
  if (recipient === "") throw new Error("a notification needs a recipient");
  const channel = text(params["channel"] ?? "email");
  const notificationId = `ntf-${createHash("sha256").update(taskId).digest("hex").slice(0, 16)}`;
  feedback.emitText(`to ${recipient} by ${channel}: ${text(params["subject"])}\n${text(valueOf(ctx, "message"))}\n`, {
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
    event: text(params["event"] ?? "delivered"),
    notificationId: text(params["notificationId"]),
    recipient: text(params["recipient"]),
    details: text(params["details"]),
    run: runId,
    task: taskId,
  };
  feedback.emitText(`${JSON.stringify(entry)}\n`);
  return { recorded: true, notificationId: entry.notificationId, entry };
}

/** Says a text word by word, as a language model does: each word as a chunk, and all so far as a result to look at. */
export async function feedbackDemo(ctx: HandlerContext) {
  const { params, feedback, signal } = ctx;
  const tokens = text(valueOf(ctx, "prompt")).match(/\S+\s*/g) ?? [];
  const tokenDelayMs = number(params["tokenDelayMs"], 50, "tokenDelayMs");
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
  const given = params["samples"];
  const samples = (Array.isArray(given) ? given : [1, 2, 3]).map((sample) => number(sample, 0, "samples"));
  const name = text(params["name"] ?? "sample");
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

/** A value that was too large to travel stayed at this worker; a reference stands in its place. */
function valueOf({ params, resources }: HandlerContext, key: string): unknown {
  const value = params[key];
  const { resourceRef } = (value ?? {}) as { resourceRef?: { resourceId: string } };
  return resourceRef === undefined ? value : resources.readJson(resourceRef.resourceId);
}

function readConfig(given: unknown): Params {
  const config: unknown = typeof given === "string" ? JSON.parse(given) : given;
  if (typeof config !== "object" || config === null || Array.isArray(config)) throw new Error("config must be a JSON object");
  return config as Params;
}

function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function number(value: unknown, otherwise: number, name: string): number {
  const read = value === undefined || value === null || value === "" ? otherwise : Number(value);
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
