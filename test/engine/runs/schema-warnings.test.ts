// Parameters and results that do not match the schema of their node: warnings, or failures where the schema is enforced.
import { readTaskState } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";
import { findTaskAt, taskPhasesBySlot } from "../harness/middleware-chains.ts";

const outSchema = { type: "object", properties: { out: { type: "number" } }, required: ["out"] };
const inSchema = { type: "object", properties: { in: { type: "number" } } };

/** A chain of two whose nodes have these schemas. */
function typedChain(schemas: readonly object[], rest: object = {}): Record<string, unknown> {
  const workflow = buildChain(2);
  const nodes = (workflow.nodes as readonly object[]).map((node, at) => ({ ...node, schema: schemas[at] ?? {} }));
  return { ...workflow, nodes, ...rest };
}

async function startTyped(workflow: Record<string, unknown>) {
  const harness = await new EngineHarness().start();
  const worker = await harness.joinWorker("w");
  const run = await harness.startRun(workflow);
  await harness.settle();
  const warningsOf = async (slot: string) => readTaskState(await findTaskAt(harness, run, slot)).warnings;
  const warningFacts = async () => {
    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000, types: ["task.warning"] });
    return items.map(({ data }) => data);
  };
  return { harness, worker, run, warningsOf, warningFacts };
}

describe("values that do not match their schema", () => {
  it("[E140] a result that does not match its schema stands, its run goes on, and row and log have the warning", async () => {
    const { harness, worker, run, warningsOf, warningFacts } = await startTyped(typedChain([{ results: outSchema }]));

    await worker.succeed({ out: "text" });
    await worker.succeed({ out: 1 });

    const warning = { code: "E.RESULT.INVALID", field: "/results/out" };
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
    expect((await findTaskAt(harness, run, "0")).result).toBe('{"out":"text"}');
    expect(await warningsOf("0")).toEqual([{ ...warning, message: expect.stringContaining("results.out must be a number") }]);
    expect(await warningFacts()).toEqual([expect.objectContaining({ ...warning, task: `${run}.0`, worker: "t1/w" })]);
    expect(await warningsOf("1")).toBeUndefined();
  });

  it("[E140] a task whose parameters do not match their schema once its edges are applied is dispatched, with a warning", async () => {
    const { harness, worker, run, warningsOf, warningFacts } = await startTyped(typedChain([{}, { parameters: inSchema }]));

    await worker.succeed({ out: "text" });

    expect(await taskPhasesBySlot(harness, run)).toEqual({ "0": "succeeded", "1": "leased" });
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ in: "text" });
    expect(await warningsOf("1")).toEqual([
      { code: "E.PARAMS.INVALID", field: "/parameters/in", message: expect.stringContaining("parameters.in must be a number") },
    ]);
    expect(await warningFacts()).toEqual([expect.objectContaining({ task: `${run}.1`, field: "/parameters/in" })]);
  });

  it("[E140] the message and the field of a warning are cut, however long the names of a schema are", async () => {
    const name = "n".repeat(2_000);
    const results = { type: "object", required: [name] };
    const { worker, warningsOf } = await startTyped(typedChain([{ results }]));

    await worker.succeed({ out: 1 });

    const [warning] = (await warningsOf("0")) ?? [];
    expect(warning?.message.length).toBeLessThanOrEqual(501);
    expect(warning?.field.length).toBeLessThanOrEqual(201);
  });

  it("[E140] parameters and results whose names begin with two underscores are neither missing nor unknown", async () => {
    const schema = { type: "object", required: ["__container"], properties: { out: {}, in: {} }, additionalProperties: false };
    const strict = typedChain([{ parameters: schema, results: schema }], { schemaMode: "enforce" });
    const { worker, run, harness } = await startTyped(strict);

    await worker.succeed({ out: 1, __trace: "x" });

    expect(await taskPhasesBySlot(harness, run)).toMatchObject({ "0": "succeeded" });
  });
});

describe("schemas that are enforced", () => {
  const enforced = (schemas: readonly object[]) => typedChain(schemas, { schemaMode: "enforce" });

  it("[E69] an attempt whose result violates a schema that is enforced fails with an error that names the field, and is not retried", async () => {
    const { harness, worker, run } = await startTyped(enforced([{ results: outSchema }]));

    await worker.succeed({ out: "text" });

    const { run: row } = await harness.runDetail(run);
    const error = JSON.parse(row.error ?? "{}") as { code: string; message: string; details: object };
    expect(row.phase).toBe("failed");
    expect(error).toMatchObject({ code: "E.RESULT.INVALID", details: { field: "/results/out" } });
    expect(error.message).toContain("results.out");
    expect(worker.dispatchesSent).toHaveLength(1);
  });

  it("[E69] a result that matches a schema that is enforced is accepted, without a warning", async () => {
    const { harness, worker, run, warningsOf } = await startTyped(enforced([{ results: outSchema }]));

    await worker.succeed({ out: 3 });

    expect(await taskPhasesBySlot(harness, run)).toMatchObject({ "0": "succeeded" });
    expect(await warningsOf("0")).toBeUndefined();
  });

  it("[E70] a task whose parameters violate a schema that is enforced after its edges are applied fails before it is dispatched", async () => {
    const { harness, worker, run } = await startTyped(enforced([{}, { parameters: inSchema }]));

    await worker.succeed({ out: "text" });

    expect(await taskPhasesBySlot(harness, run)).toEqual({ "0": "succeeded", "1": "failed" });
    expect(JSON.parse((await harness.runDetail(run)).run.error ?? "{}")).toMatchObject({
      code: "E.PARAMS.INVALID",
      details: { field: "/parameters/in" },
    });
    expect(worker.dispatchesSent).toHaveLength(1);
  });
});
