// What a dispatch contains about its chain, and what is never sent.
import type { Plan, PlanNode } from "@astraflow/graph";
import { describe, expect, it } from "vitest";
import type { RunRow, TaskRow } from "../../storage/rows.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { findChainContradiction, workflowField } from "./dispatch.ts";

const node = (changes: Partial<PlanNode>): PlanNode => ({
  ordinal: 0,
  id: "host",
  type: "test.step",
  label: "",
  packageName: "test",
  packageVersion: "1.0.0",
  minVersion: null,
  params: {},
  policy: {},
  schema: { parameters: true, results: true },
  before: [],
  after: [],
  inputs: [],
  chain: [],
  host: null,
  chainIndex: null,
  container: null,
  ...changes,
});

function contradictionIn(nodes: readonly PlanNode[], ordinal: number): string | null {
  const plan: Plan = { nodes, starts: [0] };
  const work = { planOf: () => plan } as unknown as UnitOfWork;
  const task = { id: `r.${ordinal}`, run: "r" } as TaskRow;
  return findChainContradiction(work, { id: "r" } as RunRow, nodes[ordinal] as PlanNode, task)?.code ?? null;
}

const outer = node({ ordinal: 1, id: "outer", host: 0, chainIndex: 0 });
const inner = node({ ordinal: 2, id: "inner", host: 0, chainIndex: 1 });
const host = node({ chain: [1, 2] });

describe("what a dispatch says of its chain", () => {
  it("[E50] the chain metadata of a dispatch is consistent for hosts, middlewares and nodes without a chain", () => {
    expect([0, 1, 2].map((ordinal) => contradictionIn([host, outer, inner], ordinal))).toEqual([null, null, null]);
    expect(contradictionIn([node({})], 0)).toBeNull();
  });

  it("[E75] a dispatch with contradictory chain metadata is refused: a missing host, a wrong or missing index, a host with an index of its own", () => {
    const flaw = "E.DISPATCH.INVALID_METADATA";

    expect(contradictionIn([node({}), node({ ordinal: 1, id: "outer", host: 7, chainIndex: 0 })], 1)).toBe(flaw);
    expect(contradictionIn([host, { ...outer, chainIndex: 1 }, inner], 1)).toBe(flaw);
    expect(contradictionIn([host, { ...outer, chainIndex: null }, inner], 1)).toBe(flaw);
    expect(contradictionIn([{ ...host, chainIndex: 0 }, outer, inner], 0)).toBe(flaw);
  });
});

describe("whose a run is, as its dispatches say", () => {
  const of = (about: object, source = "w-1"): string | undefined =>
    workflowField({ source, about: JSON.stringify(about) } as RunRow).workflow;

  it("[D130] a dispatch names the workflow its run was started from by version or as a draft, never one that a submitted definition names", () => {
    expect(of({ by: "ann", version: 3 })).toBe("w-1");
    expect(of({ by: "ann", version: "draft" })).toBe("w-1");
    expect(of({ by: "ann" })).toBeUndefined();
    expect(of({ by: "ann", version: null })).toBeUndefined();
    expect(of({ version: 3 }, "")).toBeUndefined();
  });
});
