// Workers with different manifests of one package version: each task is judged by the manifest of the worker that runs it.
import { type PackageDocument, readTaskState } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";
import { findTaskAt, taskPhasesBySlot } from "../harness/middleware-chains.ts";

const objectSchema = (properties: object, required: readonly string[] = []) => ({ type: "object", properties, required });
/** What the workflow was completed from, and what another worker announced. */
const schemas = {
  first: { parameters: objectSchema({ in: { type: "number" } }), results: objectSchema({}, ["status"]) },
  second: { parameters: objectSchema({ in: { type: "string" } }), results: objectSchema({ out: { type: "number" } }) },
};

const storedManifest = (digest: keyof typeof schemas): PackageDocument =>
  ({ digest, manifest: { adapters: [], nodes: [{ type: "test.step", schema: schemas[digest] }] } }) as unknown as PackageDocument;

/** Workflows of one node that was completed from the first manifest, with both stored. */
async function openFixture(schemaMode: "warn" | "enforce" = "warn") {
  const harness = await new EngineHarness().start();
  const body = JSON.stringify({ ...storedManifest("first"), others: [storedManifest("second")] });
  const puts = [{ collection: "package", name: "test/1.0.0", rev: 0, body }];
  await harness.ask({ type: "docs.write", tenant: "t1", by: "scheduler", puts });
  const join = (name: string, manifest?: string) =>
    harness.joinWorker(name, {
      packages: [{ name: "test", version: "1.0.0", status: "installed", ...(manifest !== undefined && { manifest }) }],
    });
  const start = async (parameters: object) => {
    const workflow = buildChain(1);
    const nodes = (workflow.nodes as { package: object }[]).map((node) => ({
      ...node,
      package: { ...node.package, manifest: "first" },
      schema: schemas.first,
      parameters,
    }));
    const run = await harness.startRun({ ...workflow, nodes, schemaMode });
    await harness.settle();
    return run;
  };
  const warningsOf = async (run: string, slot: string) =>
    (readTaskState(await findTaskAt(harness, run, slot)).warnings ?? []).map(({ field }) => field);
  return { harness, join, start, warningsOf };
}

describe("workers with different manifests of one package version", () => {
  it("[E141] a result is judged by the manifest that its worker announced", async () => {
    const { join, start, warningsOf } = await openFixture();
    const first = await join("a", "first");
    const runOfFirst = await start({});
    await first.succeed({ out: 1 });
    await first.disconnect();
    const second = await join("b", "second");
    const runOfSecond = await start({});
    await second.succeed({ out: "text" });

    expect(await warningsOf(runOfFirst, "0")).toEqual(["/results/status"]);
    expect(await warningsOf(runOfSecond, "0")).toEqual(["/results/out"]);
  });

  it("[E141] parameters are judged by the manifest of the worker that gets the task, and fail it there if schemas are enforced", async () => {
    const { harness, join, start } = await openFixture("enforce");
    const second = await join("b", "second");

    const accepted = await start({ in: "text" });
    await second.succeed({ out: 1 });
    const refused = await start({ in: 7 });

    expect(await taskPhasesBySlot(harness, accepted)).toMatchObject({ "0": "succeeded" });
    expect(await taskPhasesBySlot(harness, refused)).toMatchObject({ "0": "failed" });
    expect(JSON.parse((await harness.runDetail(refused)).run.error ?? "{}")).toMatchObject({
      code: "E.PARAMS.INVALID",
      details: { field: "/parameters/in" },
    });
  });

  it("[E141] a warning of parameters is that of the worker's own manifest, and is recorded once", async () => {
    const { harness, join, start, warningsOf } = await openFixture();
    await join("b", "second");

    const fitting = await start({ in: "text" });
    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000, types: ["task.warning"] });

    expect([await warningsOf(fitting, "0"), items]).toEqual([[], []]);
  });

  it("[E141] a worker that announced no manifest is judged by the workflow's schemas, one whose manifest is not stored by none", async () => {
    const { join, start, warningsOf } = await openFixture();
    const silent = await join("a");
    const runOfSilent = await start({});
    await silent.succeed({ out: 1 });
    await silent.disconnect();
    const unknown = await join("b", "third");
    const runOfUnknown = await start({});
    await unknown.succeed({ out: "text" });

    expect(await warningsOf(runOfSilent, "0")).toEqual(["/results/status"]);
    expect(await warningsOf(runOfUnknown, "0")).toEqual([]);
  });
});
