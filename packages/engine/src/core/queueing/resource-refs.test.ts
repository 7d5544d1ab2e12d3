import { compilePlan, type PlanNode } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { refsMax, resourceRefsOf } from "./resource-refs.ts";

const node = (policy: object = {}): PlanNode =>
  compilePlan({
    id: "00000000-0000-4000-8000-000000000999",
    schemaVersion: "2025-10",
    metadata: { name: "n" },
    nodes: [
      {
        id: "00000000-0000-4000-8000-000000000001",
        type: "t",
        package: { name: "p", version: "1" },
        label: "l",
        position: { x: 0, y: 0 },
        policy,
      },
    ],
    edges: [],
  } as unknown as Workflow).nodes[0] as PlanNode;

const found = (params: unknown, policy: object = {}) =>
  resourceRefsOf(node(policy), JSON.stringify(params)).map(({ resource }) => resource);

describe("references to resources", () => {
  it("[P15] references to resources are found anywhere in the parameters, each once, after those in the node's policy", () => {
    const at = (resourceId: string) => ({ resourceRef: { resourceId } });

    expect(found({ a: at("one"), b: [{ c: at("two") }, at("one")] }, { resourceRefs: [{ resourceId: "zero" }] })).toEqual([
      "zero",
      "one",
      "two",
    ]);
    expect(resourceRefsOf(node(), null)).toEqual([]);
    expect(resourceRefsOf(node({ resourceRefs: [{ resourceId: "zero" }] }), null)).toHaveLength(1);
  });

  it("[P15] references to resources are read in both spellings, and malformed ones are ignored", () => {
    const reference = {
      resource_id: "r",
      worker_name: "w",
      type: "file",
      scope: "s",
      expires_at: "2030-01-01T00:00:00Z",
      metadata: { a: 1 },
    };

    expect(resourceRefsOf(node(), JSON.stringify({ resourceRef: reference }))).toEqual([
      { resource: "r", workerName: "w", type: "file", scope: "s", expiresAt: Date.UTC(2030, 0), metadata: { a: 1 } },
    ]);
    for (const odd of [null, 7, "r", [], {}, { resourceId: 7 }, { resourceId: "" }])
      expect(found({ resourceRef: odd })).toEqual([]);
    expect(found({ text: 'says "resourceRef" and means nothing' })).toEqual([]);
  });

  it("[P15] references to resources are limited in number, and are found however deep or far back they are in the parameters", () => {
    const many = Array.from({ length: refsMax + 50 }, (_, at) => ({ resourceRef: { resourceId: `r${at}` } }));
    const deep = `${"[".repeat(5_000)}{"resourceRef":{"resourceId":"deep"}}${"]".repeat(5_000)}`;
    const long = [...Array.from({ length: 300_000 }, () => 0), { resourceRef: { resourceId: "last" } }];

    expect(found(many)).toHaveLength(refsMax);
    expect(resourceRefsOf(node(), deep)).toMatchObject([{ resource: "deep" }]);
    expect(found(long)).toEqual(["last"]);
  });
});
