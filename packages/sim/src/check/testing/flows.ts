// Small workflows with a container or a chain, as callers write them, for the checkers' own tests.

type Data = Readonly<Record<string, unknown>>;

const usual = { type: "sim.step", package: { name: "sim", version: "1.0.0" } };
const steady = { sim: { moods: [{ kind: "quick", ms: 0 }], key: null, limit: 0 } };
export const step = (id: string, more: Data = {}): Data => ({
  id,
  ...usual,
  parameters: { sim: { ...steady.sim, name: id } },
  ui: { outputPorts: [{ key: "out", binding: { path: "results.out" } }] },
  ...more,
});

/** Node 0 is a container over a list, whose body has two nodes side by side. */
export function mapFlow(items: readonly unknown[], loop: Data = {}, box: Data = {}): Data {
  const inputs = [{ from: "item", node: "a", to: "parameters.item" }];
  const outputs = [{ node: "a", from: "results.out", to: "results.out" }];
  const __container = { subgraphId: "body", loop: { mode: "map", items, ...loop }, inputs, outputs, ...box };
  return {
    nodes: [step("box", { type: "workflow.container", parameters: { __container } })],
    edges: [],
    subgraphs: [{ id: "body", definition: { nodes: [step("a"), step("b")], edges: [] } }],
  };
}

/** Node 0 is behind two middlewares, 1 outside of 2; each calls the next so often. */
export function chainFlow(calls: readonly [number, number] = [1, 1]): Data {
  const wrap = (id: string, count: number) =>
    step(id, {
      parameters: {
        sim: { ...steady.sim, name: id, wrap: { calls: count, mark: `by-${id}`, timeoutMs: null, isForgiving: false } },
      },
      ui: {},
    });
  return { nodes: [step("host", { middlewares: [wrap("outer", calls[0]), wrap("inner", calls[1])] })], edges: [] };
}
