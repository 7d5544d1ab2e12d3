import type { PlanNode } from "@astraflow/graph";
import { describe, expect, it } from "vitest";
import type { RouteId } from "../../storage/rows.ts";
import { createDefinitionCaches, definitionCacheLimits } from "./definition-caches.ts";

const compiled = (chars: number) => ({ plan: { nodes: [], starts: [] }, routes: new Map<PlanNode, RouteId>(), chars });

describe("caches of definitions", () => {
  it("[U520] compiled plans and schemas of manifests are kept by the length of their definitions too, and the newest stay", () => {
    const { plans, manifests } = createDefinitionCaches();
    const chars = 7 * 1024 * 1024;
    for (let at = 0; at < 250; at++) {
      plans.set(`acme/${at}`, compiled(chars));
      manifests.set(`acme/${at}`, { rules: new Map(), chars });
    }
    const kept = Math.floor(definitionCacheLimits.charsMax / chars);
    expect([plans.size, manifests.size]).toEqual([kept, kept]);
    expect(plans.peek("acme/249")).toBeDefined();

    for (let at = 0; at < 5_000; at++) plans.set(`small/${at}`, compiled(1_000));

    expect(plans.size).toBe(definitionCacheLimits.plansMax);
  });
});
