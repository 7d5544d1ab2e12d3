// How the middlewares of this package call what is inside them, and what they learn of its end.

import type { HandlerContext } from "@astraflow/sdk";

export type Params = HandlerContext["params"];

/** How a call of what is inside ended. `code` is the one that the node inside failed with, also through several middlewares. */
export type InnerOutcome =
  | { readonly type: "succeeded"; readonly result: Params }
  | { readonly type: "skipped" }
  | { readonly type: "failed"; readonly code: string; readonly message: string; readonly isOutOfTime: boolean };

export interface InnerCall {
  /** For the node at the end of the chain; added to what an outer middleware tells it. */
  readonly hostCtx?: Params;
  readonly timeoutMs?: number;
}

/** Runs what is inside. Throws only where the middleware itself is stopped. */
export async function callInside(ctx: HandlerContext, { hostCtx, timeoutMs }: InnerCall = {}): Promise<InnerOutcome> {
  const context = hostCtx === undefined ? undefined : { ...readHostContext(ctx), ...hostCtx };
  try {
    return { type: "succeeded", result: await ctx.next(payloadFor(ctx), context, undefined, timeoutMs) };
  } catch (problem) {
    // A task that was stopped must not handle the failure of what it called.
    ctx.signal.throwIfAborted();
    return readFailure(problem);
  }
}

/**
 * What is handed on to the node inside, over its own parameters: `parameters` of the middleware. Another middleware in between gets it under
 * that name and hands it on.
 */
export function payloadFor({ params, middlewareChain, chainIndex }: HandlerContext): Params | undefined {
  const parameters = params["parameters"];
  if (!isObject(parameters)) return undefined;
  return chainIndex === middlewareChain.length - 1 ? parameters : { parameters };
}

/** What outer middlewares tell the node at the end of the chain. */
function readHostContext({ params }: HandlerContext): Params {
  const { hostCtx } = (params["__next"] ?? {}) as { hostCtx?: Params };
  return hostCtx ?? {};
}

function readFailure(problem: unknown): InnerOutcome {
  const { code = "E.RUNNER.FAILURE", trace = {} } = problem as { code?: string; trace?: { code?: unknown } };
  if (code === "next_skipped") return { type: "skipped" };
  const message = problem instanceof Error ? problem.message : String(problem);
  const isOutOfTime = code === "next_timeout";
  return { type: "failed", code: typeof trace.code === "string" && !isOutOfTime ? trace.code : code, message, isOutOfTime };
}

/** The result of a middleware that fails as what is inside it. Any code can be returned; thrown errors have only those of the scheduler. */
export const failure = (code: string, message: string, more: Params = {}) => ({
  status: "failed",
  outputs: { ...more, error: { code, message } },
});

export const skipped = { status: "skipped", outputs: {} };

export const isObject = (value: unknown): value is Params => typeof value === "object" && value !== null && !Array.isArray(value);

/** A whole number; what an editor field leaves empty is the default. */
export function readWholeNumber(params: Params, name: string, fallback: number, least = 0): number {
  const value = params[name];
  const read = value === undefined || value === null || value === "" ? fallback : Number(value);
  if (!Number.isSafeInteger(read) || read < least) throw invalid(`${name} must be a whole number from ${least} on`);
  return read;
}

/** Another attempt would meet it again, so the task is not repeated. */
export const invalid = (message: string): Error => Object.assign(new Error(message), { code: "E.PARAMS.INVALID" });
