import { describe, expect, it } from "vitest";
import { change } from "../../fixtures/change.ts";
import refused from "../../fixtures/refused.json" with { type: "json" };
import full from "../../fixtures/workflow.full.json" with { type: "json" };
import sample from "../../fixtures/workflow.sample.json" with { type: "json" };
import { Fault } from "../faults/fault.ts";
import { readWorkflow, type Workflow } from "./workflow.ts";

const fixtures: Record<string, unknown> = { "workflow.full.json": full, "workflow.sample.json": sample };

describe("workflow", () => {
  it.each([
    ["the specification's shape, without status and category", sample],
    ["every field there is", full],
  ])("[C11] a workflow with %s is read and loses nothing", (_, workflow) => {
    expect(readWorkflow(workflow)).toEqual(workflow);
  });

  it("[C11] a workflow loses unknown keys, also in subgraphs and middlewares", () => {
    const more = change(
      change(change(full, "tenant", "x"), "nodes.0.middlewares.0.tenant", "x"),
      "subgraphs.0.definition.nodes.0.tenant",
      "x",
    );

    expect(readWorkflow(more)).toEqual(full);
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
