// Small workflows with a container or a middleware chain, for the checkers' own tests.

type Data = Readonly<Record<string, unknown>>;

const defaultNode = { type: "sim.step", package: { name: "sim", version: "1.0.0" } };
const succeedingBehaviour = { sim: { behaviours: [{ kind: "quick", ms: 0 }], key: null, limit: 0 } };
export const workflowNode = (id: string, more: Data = {}): Data => ({
  id,
  ...defaultNode,
  parameters: { sim: { ...succeedingBehaviour.sim, name: id } },
  ui: { outputPorts: [{ key: "out", binding: { path: "results.out" } }] },
  ...more,
});

/** Node 0 is a container over a list, whose body has two nodes side by side. */
export function mapWorkflow(items: readonly unknown[], loop: Data = {}, box: Data = {}): Data {
  const inputs = [{ from: "item", node: "a", to: "parameters.item" }];
  const outputs = [{ node: "a", from: "results.out", to: "results.out" }];
  const __container = { subgraphId: "body", loop: { mode: "map", items, ...loop }, inputs, outputs, ...box };
  return {
    nodes: [workflowNode("box", { type: "workflow.container", parameters: { __container } })],
    edges: [],
    subgraphs: [{ id: "body", definition: { nodes: [workflowNode("a"), workflowNode("b")], edges: [] } }],
  };
}

/** Node 0 is behind two middlewares, 1 outside of 2; each calls the next so often. */
export function middlewareWorkflow(calls: readonly [number, number] = [1, 1]): Data {
  const wrap = (id: string, count: number) =>
    workflowNode(id, {
      parameters: {
        sim: {
          ...succeedingBehaviour.sim,
          name: id,
          wrap: { calls: count, mark: `by-${id}`, timeoutMs: null, isForgiving: false },
        },
      },
      ui: {},
    });
  return { nodes: [workflowNode("host", { middlewares: [wrap("outer", calls[0]), wrap("inner", calls[1])] })], edges: [] };
}
