// Middlewares and helpers that every installation has a use for: repeat what is inside, leave it out, make values, look at resources.
// Containers are listed in the manifest and carried out by the scheduler; no handler of theirs is here. Each function that this module
// exports is the handler of a node.

import { setTimeout as pause } from "node:timers/promises";
import type { HandlerContext } from "@astraflow/sdk";
import { isObject, type Params, payloadFor, readWholeNumber } from "./chain.ts";

export { cacheMiddleware } from "./cache.ts";
export { logMiddleware } from "./log.ts";
export { retryMiddleware, timeoutMiddleware } from "./retry.ts";

/** Runs what is inside several times, one after the other, and keeps what each gave. */
export async function loopMiddleware(ctx: HandlerContext) {
  const times = readWholeNumber(ctx.params, "times", 1);
  const delayMs = readWholeNumber(ctx.params, "delayMs", 0);
  const stopOnError = ctx.params["stopOnError"] !== false;
  const results: Params[] = [];
  const errors: { iteration: number; message: string }[] = [];
  for (let iteration = 0; iteration < times; iteration++) {
    if (iteration > 0 && delayMs > 0) await pause(delayMs, undefined, { signal: ctx.signal });
    ctx.feedback.send({ stage: "looping", progress: iteration / times, message: `${iteration + 1} of ${times}` });
    try {
      results.push(await ctx.next(payloadFor(ctx), undefined, { iteration, times }));
    } catch (problem) {
      // A task that was stopped must not go on looping.
      ctx.signal.throwIfAborted();
      if (stopOnError) throw problem;
      errors.push({ iteration, message: problem instanceof Error ? problem.message : String(problem) });
    }
  }
  if (results.length === 0 && errors.length > 0) throw new Error(`all ${times} times failed, at last: ${errors.at(-1)?.message}`);
  return { iterations: results.length, results, errors };
}

/** Lets what is inside run, or leaves it out: then the node counts as skipped. */
export async function caseMiddleware(ctx: HandlerContext) {
  if (ctx.params["enabled"] === false) return { status: "skipped", outputs: { enabled: false } };
  await ctx.next(payloadFor(ctx));
  return { enabled: true };
}

const converters: Readonly<Record<string, (value: unknown) => unknown>> = {
  string: (value) => (typeof value === "string" ? value : JSON.stringify(value ?? "")),
  number: (value) => {
    const read = Number(value ?? 0);
    if (!Number.isFinite(read)) throw new Error(`${JSON.stringify(value)} is not a number`);
    return read;
  },
  boolean: (value) => value === true || value === "true",
  json: (value) => (typeof value === "string" ? (JSON.parse(value) as unknown) : (value ?? null)),
};

/** A value of the type that was asked for, from what an editor field holds. */
export function inputGenerator({ params }: HandlerContext) {
  const type = String(params["type"] ?? "string");
  if (!Object.hasOwn(converters, type)) throw new Error(`type must be one of ${Object.keys(converters).join(", ")}, not ${type}`);
  return { value: converters[type]?.(params["value"]), type };
}

/** Says what of its resources arrived: granted by an operator, uploaded, or kept at this worker by an earlier task. */
export function uploadTest({ params, leased }: HandlerContext) {
  const bound = Object.entries(asObject(params["__resourceBindings"])).map(([key, binding]) => ({ key, ...asObject(binding) }));
  const listed = Array.isArray(params["resources"]) ? params["resources"] : [];
  const workerResources = leased.map(({ id, type, sizeBytes }) => ({ resourceId: id, type, sizeBytes }));
  // A value may be a secret: that it came is enough.
  const received = [...bound, ...listed.map(asObject), ...workerResources].map(({ value, ...rest }: Params) => ({
    ...rest,
    hasValue: value !== undefined,
  }));
  return { count: received.length, received, errors: params["__resourceBindingErrors"] ?? [] };
}

const asObject = (value: unknown): Params => (isObject(value) ? value : {});
