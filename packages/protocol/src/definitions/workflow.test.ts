import { describe, expect, it } from "vitest";
import { change } from "../../fixtures/change.ts";
import refused from "../../fixtures/refused.json" with { type: "json" };
import full from "../../fixtures/workflow.full.json" with { type: "json" };
import sample from "../../fixtures/workflow.sample.json" with { type: "json" };
import { Fault } from "../faults/fault.ts";
import { findUnknownWorkflowFields, readWorkflow, type Workflow } from "./workflow.ts";

const fixtures: Record<string, unknown> = { "workflow.full.json": full, "workflow.sample.json": sample };

describe("workflow", () => {
  it.each([
    ["the specification's shape, without status and category", sample],
    ["every field there is", full],
  ])("[C11] a workflow with %s is read and loses nothing", (_, workflow) => {
    expect(readWorkflow(workflow)).toEqual(workflow);
  });

  const more = change(
    change(change(full, "tenant", "x"), "nodes.0.middlewares.0.paramters", {}),
    "subgraphs.0.definition.nodes.0.tenant",
    "x",
  );

  it("[C11] a workflow keeps unknown fields, also in subgraphs and middlewares, and they are found with the nearest name", () => {
    expect(readWorkflow(more)).toEqual(more);
    expect(findUnknownWorkflowFields(more as Workflow, 10).sort((a, b) => a.path.length - b.path.length)).toEqual([
      { path: ["tenant"], hint: "" },
      { path: ["nodes", 0, "middlewares", 0, "paramters"], hint: "; did you mean parameters?" },
      { path: ["subgraphs", 0, "definition", "nodes", 0, "tenant"], hint: "" },
    ]);
    expect(findUnknownWorkflowFields(full as unknown as Workflow, 10)).toEqual([]);
  });

  it("[C11] a workflow that was read from the API is read without the fields that answers add to it", () => {
    const answered = { ...full, revision: 3, latestVersion: 1, createdAt: "x", updatedAt: "x", asOf: 9, allowUnknown: true };

    expect(readWorkflow(answered)).toEqual(full);
  });

  it.each([
    ["policy", { timeoutMS: 5 }, "timeoutMS", "timeoutMs"],
    ["policy.retry", { maxAttemps: 2 }, "maxAttemps", "maxAttempts"],
    ["policy.concurrency", { key: "k", limt: 2 }, "limt", "limit"],
    ["policy.affinity", { key: "k", modes: "sticky" }, "modes", "mode"],
  ])(
    "[C11] a workflow with an unknown field in the %s of a node is refused with the nearest name",
    (place, value, key, nearest) => {
      expect(readWorkflow(change(change(full, "nodes.0.policy", {}), `nodes.0.${place}`, value))).toMatchObject({
        code: "E.WORKFLOW.INVALID",
        message: `workflow.nodes.0.${place}.${key} is not a known field; did you mean ${nearest}?`,
      });
    },
  );

  it("[C910] an edge of a workflow that says prot, and a node that says tpye, are refused with both names", () => {
    const { port, ...source } = full.edges[0]?.source ?? { port: "" };
    const { type, ...node } = full.nodes[0] ?? { type: "" };

    expect(readWorkflow(change(full, "edges.0.source", { ...source, prot: port }))).toMatchObject({
      message: "workflow.edges.0.source must have port; it has prot, did you mean port?",
    });
    expect(readWorkflow(change(full, "nodes.0", { ...node, tpye: type }))).toMatchObject({
      message: "workflow.nodes.0 must have type; it has tpye, did you mean type?",
    });
  });

  it.each(refused.workflow)("[C11] a workflow is refused with $why", ({ of, at, put, path }) => {
    expect(readWorkflow(change(fixtures[of], at, put))).toMatchObject({ code: "E.WORKFLOW.INVALID", details: { path } });
  });

  it("[C11] a workflow may nest subgraphs 8 deep and no deeper", () => {
    const nest = (depth: number): Workflow => ({
      ...(sample as unknown as Workflow),
      ...(depth > 0 && { subgraphs: [{ id: "s", definition: nest(depth - 1) }] }),
    });

    expect(readWorkflow(nest(8))).not.toBeInstanceOf(Fault);
    expect(readWorkflow(nest(9))).toMatchObject({ code: "E.WORKFLOW.INVALID", details: { path: "workflow.subgraphs" } });
    expect(readWorkflow(nest(1_000))).toBeInstanceOf(Fault);
  });

  it.each([null, undefined, 7, [], { subgraphs: [null] }])("[C11] %j is refused as a workflow", (value) => {
    expect(readWorkflow(value)).toBeInstanceOf(Fault);
  });
});
