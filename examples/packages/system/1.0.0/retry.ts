// Middlewares that decide how often and how long the node inside may run: again after a failure, and no longer than a limit.

import { setTimeout as pause } from "node:timers/promises";
import type { HandlerContext } from "@astraflow/sdk";
import { callInside, failure, invalid, type Params, readWholeNumber, skipped } from "./chain.ts";

/** Failures that another attempt would meet again, or that were somebody's decision. */
const notRetriedCodes: ReadonlySet<string> = new Set([
  "E.PARAMS.INVALID",
  "E.RESULT.INVALID",
  "E.RESULT.TOO_LARGE",
  "E.RESOURCE.MISSING",
  "E.CMD.UNKNOWN",
  "E.RUNNER.CANCELLED",
  "next_cancelled",
  "next_run_finalised",
  "next_no_chain",
  "next_invalid_chain",
]);

const attemptsMax = 1_000;

/** Calls what is inside until it succeeds. The node learns the number of the attempt (`__next.hostCtx.attempt`). */
export async function retryMiddleware(ctx: HandlerContext) {
  const { params, feedback, signal } = ctx;
  const attempts = readWholeNumber(params, "attempts", 3, 1);
  if (attempts > attemptsMax) throw invalid(`attempts must be at most ${attemptsMax}`);
  const pauses = readPauses(params);
  const codes = readCodes(params);
  const failures: { attempt: number; code: string; message: string }[] = [];
  for (let attempt = 1; ; attempt++) {
    const outcome = await callInside(ctx, { hostCtx: { attempt, attempts } });
    if (outcome.type === "skipped") return skipped;
    if (outcome.type === "succeeded") return { ...outcome.result, retry: { attempts: attempt, failures } };
    const { code, message } = outcome;
    failures.push({ attempt, code, message });
    const isOver = attempt === attempts || !(codes === null ? !notRetriedCodes.has(code) : codes.has(code));
    if (isOver)
      return failure(code, `attempt ${attempt} of ${attempts} failed: ${message}`, { retry: { attempts: attempt, failures } });
    const pauseMs = pauses(attempt);
    const note = `attempt ${attempt} of ${attempts} failed with ${code}; the next one begins in ${pauseMs} ms`;
    feedback.send({ stage: "retrying", progress: attempt / attempts, message: note, metrics: { attempt } });
    await pause(pauseMs, undefined, { signal });
  }
}

/** The pause after each attempt: it grows by the factor, up to the longest. */
function readPauses(params: Params): (attempt: number) => number {
  const firstMs = readWholeNumber(params, "delayMs", 1_000);
  const longestMs = readWholeNumber(params, "delayMsMax", 30_000);
  const factor = Number(params["factor"] ?? 2);
  if (!Number.isFinite(factor) || factor < 1) throw invalid("factor must be a number from 1 on");
  return (attempt) => Math.min(longestMs, Math.round(firstMs * factor ** (attempt - 1)));
}

/** Null: every code that another attempt may change. */
function readCodes({ codes }: Params): ReadonlySet<unknown> | null {
  if (codes === undefined || codes === null || (Array.isArray(codes) && codes.length === 0)) return null;
  if (!Array.isArray(codes) || !codes.every((code) => typeof code === "string"))
    throw invalid('codes must be a list of codes, such as ["E.TIMEOUT"]');
  return new Set(codes);
}

/** Stops what is inside when its time is over, and fails with `E.TIMEOUT`. */
export async function timeoutMiddleware(ctx: HandlerContext) {
  const limitMs = readWholeNumber(ctx.params, "timeoutMs", 30_000, 1);
  const startedAt = performance.now();
  const outcome = await callInside(ctx, { timeoutMs: limitMs });
  if (outcome.type === "skipped") return skipped;
  const timeout = { limitMs, durationMs: Math.round(performance.now() - startedAt) };
  if (outcome.type === "succeeded") return { ...outcome.result, timeout };
  if (outcome.isOutOfTime)
    return failure("E.TIMEOUT", `the node inside did not end within ${limitMs} ms and was stopped`, { timeout });
  return failure(outcome.code, outcome.message, { timeout });
}
