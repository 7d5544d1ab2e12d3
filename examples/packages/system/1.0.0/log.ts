// The middleware that writes down what passes through it: the parameters that it hands on, the result or failure, and how long it took.

import type { HandlerContext } from "@astraflow/sdk";
import { callInside, failure, isObject, readWholeNumber, skipped } from "./chain.ts";

/** Values of fields whose names end like this are never written. */
const secretNames =
  /(password|passwd|passphrase|secret|token|apikey|accesskey|privatekey|authorization|cookie|credential|credentials)$/;

export async function logMiddleware(ctx: HandlerContext) {
  const { params, feedback } = ctx;
  const label = typeof params["label"] === "string" && params["label"] !== "" ? params["label"] : ctx.hostNodeId;
  const charsMax = readWholeNumber(params, "charsMax", 4_000, 100);
  const extraNames = Array.isArray(params["mask"]) ? params["mask"].map((name) => simplify(String(name))) : [];
  const write = (stage: string, entry: object, durationMs?: number): void => {
    const line = JSON.stringify({ stage, node: label, ...entry, ...(durationMs !== undefined && { durationMs }) });
    const text = line.length <= charsMax ? line : `${line.slice(0, charsMax)}… (${line.length} characters)`;
    const metrics = durationMs === undefined ? {} : { metrics: { durationMs } };
    feedback.send({ stage, chunks: [{ channel: "log", text: `${text}\n` }], ...metrics });
  };
  const masked = (name: string, value: unknown): object =>
    value === undefined || params[`with${name}`] === false ? {} : { [name.toLowerCase()]: maskSecrets(value, extraNames) };

  write("started", masked("Parameters", params["parameters"]));
  const startedAt = performance.now();
  const outcome = await callInside(ctx);
  const durationMs = Math.round(performance.now() - startedAt);
  if (outcome.type === "skipped") {
    write("skipped", {}, durationMs);
    return skipped;
  }
  if (outcome.type === "failed") {
    const { code, message } = outcome;
    write("failed", { code, message }, durationMs);
    return failure(code, message, { log: { durationMs } });
  }
  write("succeeded", masked("Result", outcome.result), durationMs);
  return { ...outcome.result, log: { durationMs } };
}

const simplify = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");

function maskSecrets(value: unknown, extraNames: readonly string[]): unknown {
  if (Array.isArray(value)) return value.map((one) => maskSecrets(one, extraNames));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      const simple = simplify(name);
      return [name, secretNames.test(simple) || extraNames.includes(simple) ? "***" : maskSecrets(one, extraNames)];
    }),
  );
}
