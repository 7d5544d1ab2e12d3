// How the API shows nodes beside what a run's own tests look at: chains, artifacts, live state.
import type { TaskState } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { nodeIds, runRow, sampleChain, taskRow } from "../testing/sample-rows.ts";
import { presentNodes } from "./node-view.ts";

const mw = "44444444-4444-4444-8444-444444444444";
const around = { id: mw, type: "demo.around", package: { name: "demo", version: "1.0.0" }, label: "around" };
const workflow = {
  ...sampleChain,
  nodes: sampleChain.nodes.map((node, at) => (at === 1 ? { ...node, middlewares: [around] } : node)),
};
const context = { workers: new Map([["default/w-1", "painter"]]), ackDeadlineMs: 5_000 };
const stateText = (state: TaskState): string => JSON.stringify(state);
const shown = (tasks: Parameters<typeof taskRow>[]) =>
  presentNodes({ run: runRow("r1"), tasks: tasks.map((task) => taskRow(...task)), workflow: JSON.stringify(workflow) }, context);

describe("the nodes of a run as they are shown", () => {
  it("[A6] a host node lists its middlewares, and each middleware names its host and its place, in node and state alike", () => {
    const nodes = shown([
      ["r1.1", { phase: "hosting" }],
      ["r1.3", { phase: "leased", worker: "default/w-1" }],
    ]);

    const host = nodes.find(({ nodeId }) => nodeId === nodeIds[1]);
    expect(host).toMatchObject({ status: "running", middlewares: [mw], host_node_id: null, chain_index: null });
    expect(host?.state).toMatchObject({ middlewares: [mw] });
    const inner = nodes.find(({ nodeId }) => nodeId === mw);
    expect(inner).toMatchObject({ host_node_id: nodeIds[1], chain_index: 0, workerName: "painter" });
    expect(inner?.state).toMatchObject({ host_node_id: nodeIds[1], chain_index: 0 });
    const plain = nodes.find(({ nodeId }) => nodeId === nodeIds[0]);
    expect(plain).not.toHaveProperty("middlewares");
  });

  it("[A382] the metadata of a host node lists its middlewares, before and after the host is reached, beside what its worker sent", () => {
    const hostOf = (nodes: ReturnType<typeof shown>) => nodes.find(({ nodeId }) => nodeId === nodeIds[1]);

    expect(hostOf(shown([]))?.metadata).toEqual({ middlewares: [mw] });
    const state = stateText({ metadata: { model: "m1" } });
    const nodes = shown([["r1.1", { phase: "succeeded", worker: "default/w-1", state }]]);
    expect(hostOf(nodes)?.metadata).toEqual({ model: "m1", middlewares: [mw] });
    expect(nodes.find(({ nodeId }) => nodeId === nodeIds[0])).not.toHaveProperty("metadata");
  });

  it("[A6] a node shows the artifacts it left and with which worker, by that worker's name", () => {
    const artifacts = [{ resource: "res-1", worker: "default/w-1", type: "file", sizeBytes: 12 }];
    const [node] = shown([["r1.0", { phase: "succeeded", worker: "default/w-1", state: stateText({ artifacts }) }]]);

    expect(node).toMatchObject({
      workerName: "painter",
      artifacts: [{ resourceId: "res-1", workerName: "painter", type: "file", sizeBytes: 12 }],
    });
  });

  it("[A345] a node shows its resource references and its worker affinity with the field names of artifacts, and times as text", () => {
    const refs = [{ resource: "res-1", workerName: "painter", type: "file", scope: "run", expiresAt: 3_000, metadata: { a: 1 } }];
    const affinity = { key: "k", mode: "sticky", until: 4_000 } as const;
    const [node] = shown([["r1.0", { phase: "leased", worker: "default/w-1", state: stateText({ refs, affinity }) }]]);

    const { resource: resourceId, expiresAt: _, ...rest } = refs[0] as (typeof refs)[number];
    expect(node?.resourceRefs).toEqual([{ resourceId, ...rest, expiresAt: "1970-01-01T00:00:03.000Z" }]);
    expect(node?.affinity).toEqual({ key: "k", mode: "sticky", expiresAt: "1970-01-01T00:00:04.000Z" });
  });

  it("[A6] the feedback of a running node is shown as its state, and does not set its result", () => {
    const feedback = { stage: "streaming", progress: 0.5, message: "half", at: 3_000 };
    const [node] = shown([
      ["r1.0", { phase: "leased", worker: "default/w-1", attempt: 1, state: stateText({ said: feedback }) }],
    ]);

    expect(node?.state).toMatchObject({ stage: "streaming", progress: 0.5, message: "half", attempt: 1, worker: "painter" });
    expect(node).not.toHaveProperty("result");
  });

  it("[A347] the stage of a node that reported none is why it waits, or its status", () => {
    const stageOf = (phase: "waiting" | "parked" | "ready" | "leased" | "hosting") =>
      shown([["r1.0", { phase, state: stateText({}) }]])[0]?.state?.stage;

    expect((["waiting", "parked", "ready"] as const).map(stageOf)).toEqual(["waiting", "parked", "ready"]);
    expect((["leased", "hosting"] as const).map(stageOf)).toEqual(["running", "running"]);
  });

  it("[A246] the metadata of a node is what its feedback reported, and the metadata of its result is added to it", () => {
    const feedback = { at: 3_000, metadata: { model: "m1", step: 1 } };
    const [node] = shown([["r1.0", { phase: "leased", worker: "default/w-1", state: stateText({ said: feedback }) }]]);
    expect(node?.metadata).toEqual({ model: "m1", step: 1 });

    const [ended] = shown([["r1.0", { phase: "succeeded", state: stateText({ said: feedback, metadata: { step: 2 } }) }]]);
    expect(ended?.metadata).toEqual({ model: "m1", step: 2 });
  });

  it("[A157] the node list of a run leaves out nodes after the last task that was read", () => {
    const detail = { run: runRow("r1"), tasks: [taskRow("r1.0", { phase: "succeeded" })], workflow: JSON.stringify(workflow) };

    expect(presentNodes(detail, context, "r1.0").map(({ taskId }) => taskId)).toEqual(["r1.0"]);
    expect(presentNodes(detail, context)).toHaveLength(4);
  });

  it("[A382] the metadata of a node in a container names its frame as dashboards of the field read it, also in nested containers", () => {
    const containerOf = (at: number, subgraphId: string) => ({
      ...sampleChain.nodes[at],
      role: "container",
      type: "workflow.container",
      parameters: { __container: { subgraphId } },
    });
    const subgraphs = [
      { id: "outer", metadata: { label: "Outer" }, definition: { ...sampleChain, nodes: [containerOf(1, "inner")], edges: [] } },
      { id: "inner", definition: { ...sampleChain, edges: [] } },
    ];
    const nested = { ...sampleChain, nodes: [containerOf(0, "outer")], edges: [], subgraphs };
    const tasks = ["r1.0", "r1.0*0", "r1.0*0/0", "r1.0*0/0*2", "r1.0*0/0*2/2"].map((id) => taskRow(id, { phase: "hosting" }));
    const nodes = presentNodes({ run: runRow("r1"), tasks, workflow: JSON.stringify(nested) }, context);

    const outer = {
      frameId: `${sampleChain.id}::${nodeIds[0]}::outer`,
      containerNodeId: nodeIds[0],
      subgraphId: "outer",
      aliasChain: ["outer"],
      subgraphName: "Outer",
    };
    const inner = {
      frameId: `${outer.frameId}::${nodeIds[1]}::inner#2`,
      containerNodeId: nodeIds[1],
      subgraphId: "inner",
      aliasChain: ["outer", "inner"],
      subgraphName: sampleChain.metadata.name,
    };
    expect(nodes.map(({ metadata }) => metadata?.["__frame"])).toEqual([undefined, outer, outer, inner, inner]);
  });

  it("[A157] nodes of a retried iteration show the number of the iteration and the number of their frame", () => {
    const container = {
      ...sampleChain.nodes[0],
      role: "container",
      type: "workflow.container",
      parameters: { __container: { subgraphId: "s" } },
    };
    const nested = {
      ...sampleChain,
      nodes: [container],
      edges: [],
      subgraphs: [{ id: "s", definition: { ...sampleChain, edges: [] } }],
    };
    const tasks = [
      taskRow("r1.0", { phase: "hosting" }),
      taskRow("r1.0*3", { phase: "hosting", state: stateText({ frame: { index: 1, tries: 2 } }) }),
      taskRow("r1.0*3/2", { phase: "ready" }),
    ];
    const nodes = presentNodes({ run: runRow("r1"), tasks, workflow: JSON.stringify(nested) }, context);

    expect(nodes.slice(1).map(({ frame }) => [frame?.index, frame?.number])).toEqual([
      [1, 3],
      [1, 3],
    ]);
  });
});
