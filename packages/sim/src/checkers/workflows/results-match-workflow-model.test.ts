import { describe, expect, it } from "vitest";
import type { StartRunBody } from "../../checking/requested-runs.ts";
import { expectedNodeValue } from "../../plan/simulated-package.ts";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";
import { mapWorkflow, middlewareWorkflow, workflowNode } from "../testing/workflow-bodies.ts";
import { predictOutcomes as expectOf } from "./results-match-workflow-model.ts";

const startRunBody = (workflow: object, more: object = {}) => ({ workflow, clientId: "c", ...more }) as unknown as StartRunBody;
const nodeWithBehaviour = (kind: string) => ({
  parameters: { sim: { behaviours: [{ kind, ms: 0 }], key: null, limit: 0, name: "n" } },
});
const edge = (from: string, to: string) => ({ source: { node: from, port: "out" }, target: { node: to, port: "in0" } });

describe("the model", () => {
  it("[X69] the workflow model carries values along edges, over lists in order, and through chains with what the innermost middleware adds", () => {
    const out = expectedNodeValue("a", {});
    const line = expectOf(startRunBody({ nodes: [workflowNode("a"), workflowNode("b")], edges: [edge("a", "b")] }));
    const list = expectOf(startRunBody(mapWorkflow([1, 2])));
    const chain = expectOf(startRunBody(middlewareWorkflow([2, 3])));

    expect(line.get("b")?.results).toEqual({ out: expectedNodeValue("b", { in0: out }), n: 1 });
    const items = [1, 2].map((item) => ({ out: expectedNodeValue("a", { item }) }));
    expect(list.get("box")).toEqual({ status: "succeeded", results: { items, count: 2 } });
    expect(chain.get("host")).toEqual({
      status: "succeeded",
      results: { out: expectedNodeValue("host", { "by-inner": 3 }), n: 1 },
    });
  });

  it("[X69] the workflow model predicts failures, retries, nodes after a skipped one, hosts whose call is withheld, and pinned results", () => {
    const failing = expectOf(
      startRunBody({ nodes: [workflowNode("a", nodeWithBehaviour("throwing")), workflowNode("b")], edges: [edge("a", "b")] }),
    );
    const tried = {
      policy: { retry: { maxAttempts: 2 } },
      parameters: {
        sim: {
          behaviours: [
            { kind: "throwing", ms: 0 },
            { kind: "quick", ms: 0 },
          ],
          name: "a",
        },
      },
    };
    const again = expectOf(startRunBody({ nodes: [workflowNode("a", tried)], edges: [] }));
    const skipping = expectOf(
      startRunBody({ nodes: [workflowNode("a", nodeWithBehaviour("skipping")), workflowNode("b")], edges: [edge("a", "b")] }),
    );

    expect([failing.get("a")?.status, failing.get("b")]).toEqual(["failed", null]);
    expect(again.get("a")?.status).toBe("succeeded");
    expect(skipping.get("b")?.results["out"]).toBe(expectedNodeValue("b", {}));
    expect(expectOf(startRunBody(middlewareWorkflow([1, 0]))).get("host")).toEqual({ status: "skipped", results: {} });
    expect(
      expectOf(
        startRunBody({ nodes: [workflowNode("a", nodeWithBehaviour("throwing"))], edges: [] }, { pins: { a: { out: 1 } } }),
      ).get("a")?.status,
    ).toBe("succeeded");
  });
});

describe("outcome", () => {
  const flow = mapWorkflow([1, 2]);
  const items = [1, 2].map((item) => ({ out: expectedNodeValue("a", { item }) }));
  const shows = (status: string, result: object, script = new ObservationScript({}, "workflow")) => {
    const nodes = [{ nodeId: "box", taskId: "r1.0", status, result }];
    const body = { runId: "r1", status, clientId: "r1", nodes };
    return script
      .startWorkflow("r1", flow)
      .created("r1")
      .read()
      .exchange("getRun", { params: { runId: "r1" }, caller: "auditor" }, { status: 200, body });
  };

  it("[X69] the outcome checker reports a run that ends otherwise than predicted, or returns an incomplete or unordered list", () => {
    expect(passesChecker(shows("succeeded", { items, count: 2 }), "outcome")).toBe(true);
    expect(violationOf(shows("failed", {}), "outcome")).toContain("is failed and should be succeeded");
    expect(violationOf(shows("succeeded", { items: items.toReversed(), count: 2 }), "outcome")).toContain("and should");
    expect(violationOf(shows("succeeded", { items: items.slice(1), count: 1 }), "outcome")).toContain("and should");
  });

  it("[X69] the outcome checker accepts a failed run after a fault, but still requires the right values of a succeeded one", () => {
    const troubled = () => new ObservationScript({}, "workflow").fault({ name: "cut", target: "w1" });

    expect(shows("failed", {}, troubled()).runChecker("outcome").violations).toEqual([]);
    expect(violationOf(shows("succeeded", { items: [], count: 0 }, troubled()), "outcome")).toContain("and should");
  });
});
