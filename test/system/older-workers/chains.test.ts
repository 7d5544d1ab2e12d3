// Chains on workers of the older dialects, which name a middleware by its run and node alone and know nothing of fences.

import type { Workflow } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { startStandIn } from "./stand-in.ts";

const nodeDefaults = { package: { name: "foreign", version: "1.0.0" }, status: "published", category: "Tests" } as const;

/** Two middlewares around a node; each calls on once and keeps what came back. */
function buildChain(): { workflow: Workflow; ids: readonly string[] } {
  const [host = "", outer = "", inner = ""] = [0, 1, 2].map(() => crypto.randomUUID());
  const middleware = (id: string) => ({
    ...nodeDefaults,
    id,
    type: "foreign.around",
    role: "middleware" as const,
    label: id,
    parameters: {},
  });
  const node = {
    ...nodeDefaults,
    id: host,
    type: "foreign.upper",
    label: "Shout",
    position: { x: 0, y: 0 },
    parameters: { text: "hi" },
    middlewares: [middleware(outer), middleware(inner)],
  };
  const metadata = { name: "Foreign chain" };
  return {
    workflow: { id: crypto.randomUUID(), schemaVersion: "2025-10", metadata, nodes: [node], edges: [] },
    ids: [host, outer, inner],
  };
}

for (const dialect of ["first", "v1"] as const)
  it(`[O82] a chain runs on a worker of the dialect ${dialect} with a single slot, and every caller is answered`, async () => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    const worker = await startStandIn(ws, { dialect, slots: 1 });
    const { workflow, ids } = buildChain();

    const { runId } = await api.startRun(workflow, "k");
    const run = await api.waitForRunEnd(runId);

    const [host, outer] = ids.map((id) => run.nodes?.find(({ nodeId }) => nodeId === id));
    expect(run.status).toBe("succeeded");
    expect(host).toMatchObject({ status: "succeeded", result: { text: "HI" } });
    expect(outer).toMatchObject({ status: "succeeded", result: { answer: { answer: { text: "HI" } } } });
    expect(worker.droppedFrames()).toEqual([]);
  });
