import { describe, expect, it } from "vitest";
import { valueOf } from "../value.ts";
import { expect as expectOf } from "./model.ts";
import type { Asked } from "./plans.ts";
import { chainFlow, mapFlow, step } from "./testing/flows.ts";
import { caught, passed, Script } from "./testing/script.ts";

const asked = (workflow: object, more: object = {}) => ({ workflow, clientId: "c", ...more }) as unknown as Asked;
const mood = (kind: string) => ({ parameters: { sim: { moods: [{ kind, ms: 0 }], key: null, limit: 0, name: "n" } } });
const edge = (from: string, to: string) => ({ source: { node: from, port: "out" }, target: { node: to, port: "in0" } });

describe("the model", () => {
  it("[X69] carries values along edges, over lists in their order, and through chains with what the innermost adds", () => {
    const out = valueOf("a", {});
    const line = expectOf(asked({ nodes: [step("a"), step("b")], edges: [edge("a", "b")] }));
    const list = expectOf(asked(mapFlow([1, 2])));
    const chain = expectOf(asked(chainFlow([2, 3])));

    expect(line.get("b")?.results).toEqual({ out: valueOf("b", { in0: out }), n: 1 });
    const items = [1, 2].map((item) => ({ out: valueOf("a", { item }) }));
    expect(list.get("box")).toEqual({ status: "succeeded", results: { items, count: 2 } });
    expect(chain.get("host")).toEqual({ status: "succeeded", results: { out: valueOf("host", { "by-inner": 3 }), n: 1 } });
  });

  it("[X69] fails with what fails, goes on behind what is skipped, and skips what is withheld or left out", () => {
    const failing = expectOf(asked({ nodes: [step("a", mood("throwing")), step("b")], edges: [edge("a", "b")] }));
    const tried = {
      policy: { retry: { maxAttempts: 2 } },
      parameters: {
        sim: {
          moods: [
            { kind: "throwing", ms: 0 },
            { kind: "quick", ms: 0 },
          ],
          name: "a",
        },
      },
    };
    const again = expectOf(asked({ nodes: [step("a", tried)], edges: [] }));
    const skipping = expectOf(asked({ nodes: [step("a", mood("skipping")), step("b")], edges: [edge("a", "b")] }));

    expect([failing.get("a")?.status, failing.get("b")]).toEqual(["failed", null]);
    expect(again.get("a")?.status).toBe("succeeded");
    expect(skipping.get("b")?.results["out"]).toBe(valueOf("b", {}));
    expect(expectOf(asked(chainFlow([1, 0]))).get("host")).toEqual({ status: "skipped", results: {} });
    expect(
      expectOf(asked({ nodes: [step("a", mood("throwing"))], edges: [] }, { pins: { a: { out: 1 } } })).get("a")?.status,
    ).toBe("succeeded");
  });
});

describe("outcome", () => {
  const flow = mapFlow([1, 2]);
  const items = [1, 2].map((item) => ({ out: valueOf("a", { item }) }));
  const shows = (status: string, result: object, script = new Script({}, "workflow")) => {
    const nodes = [{ nodeId: "box", taskId: "r1.0", status, result }];
    const body = { runId: "r1", status, clientId: "r1", nodes };
    return script
      .startFlow("r1", flow)
      .created("r1")
      .read()
      .exchange("getRun", { params: { runId: "r1" }, caller: "auditor" }, { status: 200, body });
  };

  it("[X69] finds a run that ends otherwise than drawn, or returns a list that is not whole or not in order", () => {
    expect(passed(shows("succeeded", { items, count: 2 }), "outcome")).toBe(true);
    expect(caught(shows("failed", {}), "outcome")).toContain("is failed and should be succeeded");
    expect(caught(shows("succeeded", { items: items.toReversed(), count: 2 }), "outcome")).toContain("and should");
    expect(caught(shows("succeeded", { items: items.slice(1), count: 1 }), "outcome")).toContain("and should");
  });

  it("[X69] lets a run fail where something went wrong, and still wants the right values of one that succeeded", () => {
    const troubled = () => new Script({}, "workflow").fault({ name: "cut", target: "w1" });

    expect(shows("failed", {}, troubled()).judge("outcome").violations).toEqual([]);
    expect(caught(shows("succeeded", { items: [], count: 0 }, troubled()), "outcome")).toContain("and should");
  });
});
