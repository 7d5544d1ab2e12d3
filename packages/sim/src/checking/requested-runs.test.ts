import { describe, expect, it } from "vitest";
import { mapWorkflow, middlewareWorkflow } from "../checkers/testing/workflow-bodies.ts";
import { isRunByOtherTasks, nodeOfTask, parseTaskId, RequestedRuns } from "./requested-runs.ts";

const requestedRunOf = (workflow: object) => {
  const requestedRuns = new RequestedRuns();
  const body = JSON.stringify({ workflow, clientId: "c" });
  const call = { call: 1, caller: "starter", scheduler: "s1", tenant: "t1", params: {}, query: {}, idempotencyKey: null };
  requestedRuns.recordCall({ kind: "call", route: "startRun", ...call, body });
  const requested = requestedRuns.find("t1", "c");
  if (requested === null) throw new Error("no plan");
  return requested;
};

describe("places", () => {
  it("[X71] parseTaskId reads scope, node, call and iteration from a task id", () => {
    expect(parseTaskId("r1.4")).toEqual({ scope: "", ordinal: 4, call: null, iteration: null });
    expect(parseTaskId("r1.4*2/7~3")).toEqual({ scope: "4*2", ordinal: 7, call: 3, iteration: null });
    expect(parseTaskId("r1.5~1*0")).toEqual({ scope: "", ordinal: 5, call: 1, iteration: 0 });
  });

  it("[X71] a task id leads to its authored node, in containers and middleware chains, and shows whether other tasks carry it out", () => {
    const [map, chain] = [requestedRunOf(mapWorkflow([1])), requestedRunOf(middlewareWorkflow())];

    expect(nodeOfTask(map, "r1.0*0/1")?.id).toBe("b");
    expect(nodeOfTask(map, "r1.0*0/2")).toBeNull();
    expect(nodeOfTask(map, "r1.0/0")?.id).toBe("a");
    expect(chain.nodes.map(({ id, host, chainIndex }) => [id, host, chainIndex])).toEqual([
      ["host", null, null],
      ["outer", 0, 0],
      ["inner", 0, 1],
    ]);
    const carried = (task: string) => isRunByOtherTasks(nodeOfTask(chain, task), task);
    expect(["r1.0", "r1.0~1", "r1.1", "r1.2", "r1.2~1"].map(carried)).toEqual([true, false, false, true, false]);
    expect(isRunByOtherTasks(nodeOfTask(map, "r1.0*0"), "r1.0*0")).toBe(true);
  });
});
