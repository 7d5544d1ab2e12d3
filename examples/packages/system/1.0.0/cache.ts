// The middleware that remembers results: at this worker, on disk, for a while. A result under a known key is returned without running the
// node inside, which then counts as skipped and has the result all the same.

import { createHash } from "node:crypto";
import type { HandlerContext } from "@astraflow/sdk";
import { callInside, failure, invalid, isObject, type Params, readWholeNumber, skipped } from "./chain.ts";

export async function cacheMiddleware(ctx: HandlerContext) {
  const { feedback } = ctx;
  const ttlSeconds = readWholeNumber(ctx.params, "ttlSeconds", 3_600, 1);
  const id = resourceIdFor(ctx);
  const found = ctx.params["refresh"] === true ? null : readStored(ctx, id);
  if (found !== null) {
    const { result, storedAt } = found;
    const ageSeconds = Math.max(0, Math.round((Date.now() - storedAt) / 1_000));
    const message = `the result was stored ${ageSeconds} s ago at this worker; the node inside is not run`;
    feedback.send({ stage: "cached", progress: 1, message });
    return { ...result, cache: { hit: true, stored: true, ageSeconds } };
  }
  const outcome = await callInside(ctx);
  if (outcome.type === "skipped") return skipped;
  // A failure may be gone the next time.
  if (outcome.type === "failed") return failure(outcome.code, outcome.message);
  const problem = store(ctx, id, outcome.result, ttlSeconds);
  if (problem !== null) feedback.emitText(`the result is not cached: ${problem}\n`);
  return { ...outcome.result, cache: { hit: false, stored: problem === null } };
}

/** One name for the same node, key and handed-on parameters, in every run; other nodes and tenants have others. */
function resourceIdFor({ params, tenant, hostNodeId }: HandlerContext): string {
  const { key, parameters } = params;
  if (key === undefined && !isObject(parameters))
    throw invalid("the cache needs a key, or parameters to hand on: the same ones stand for the same result");
  const exact = JSON.stringify([tenant, hostNodeId, sortKeys(key ?? null), sortKeys(parameters ?? null)]);
  return `cache ${createHash("sha256").update(exact).digest("hex").slice(0, 40)}`;
}

/** The same text for the same object, in whatever order its fields were written. */
function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sortKeys(value[key])]),
  );
}

interface StoredResult {
  readonly storedAt: number;
  readonly result: Params;
}

/** What is kept expires and is evicted by itself, but not while it is leased. */
function readStored({ resources }: HandlerContext, id: string): StoredResult | null {
  try {
    resources.lease(id);
  } catch (problem) {
    if ((problem as { code?: unknown }).code === "E.RESOURCE.MISSING") return null;
    throw problem;
  }
  try {
    return resources.readJson(id) as StoredResult;
  } finally {
    resources.release(id);
  }
}

/** Null, or why the result is not kept: that is no reason to fail. */
function store({ resources }: HandlerContext, id: string, result: Params, ttlSeconds: number): string | null {
  if (refersToResources(result)) return "it refers to resources, which may be gone before it is read";
  const storedAt = Date.now();
  try {
    resources.registerJson(id, JSON.stringify({ storedAt, result } satisfies StoredResult), { scope: "cache" });
    resources.touch(id, storedAt + ttlSeconds * 1_000);
    return null;
  } catch (problem) {
    return problem instanceof Error ? problem.message : String(problem);
  }
}

function refersToResources(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(refersToResources);
  if (!isObject(value)) return false;
  return Object.hasOwn(value, "resourceRef") || Object.values(value).some(refersToResources);
}
