// The workflows of the fan-out bench as request bodies: the same work as nodes, as a map and as a loop. Texts are short: a workflow of 10,000 nodes has to
// fit into one request.

const nodeIdAt = (at: number) => `fa000000-0000-4000-8000-${at.toString(16).padStart(12, "0")}`;
const port = (root: string, key: string) => ({ key, label: key, binding: { path: `${root}.${key}` } });

function noopNode(at: number) {
  return {
    id: nodeIdAt(at),
    type: "demo.noop",
    ...nodeDefaults("n"),
    parameters: {},
    ui: { inputPorts: [port("parameters", "in")], outputPorts: [port("results", "out")] },
  };
}

const nodeDefaults = (label: string) => ({ package: { name: "demo", version: "1.0.0" }, label, position: { x: 0, y: 0 } });

function edge(at: number, source: number, target: number) {
  return { id: `e${at}`, source: { node: nodeIdAt(source), port: "out" }, target: { node: nodeIdAt(target), port: "in" } };
}

function toRequestBody(name: string, rest: Record<string, unknown>): string {
  const workflow = { id: nodeIdAt(0xffffff), schemaVersion: "2025-10", metadata: { name }, ...rest };
  return JSON.stringify({ workflow, clientId: "bench" });
}

/** One node, then all the others but one side by side, then one that waits for all of them: so many nodes altogether. */
export function fanOutRequest(nodes: number): string {
  const last = nodes - 1;
  const side = Array.from({ length: nodes - 2 }, (_, at) => at + 1);
  return toRequestBody(`fan of ${nodes} nodes`, {
    nodes: Array.from({ length: nodes }, (_, at) => noopNode(at)),
    edges: side.flatMap((at) => [edge(2 * at, 0, at), edge(2 * at + 1, at, last)]),
  });
}

/** One container that runs one node for each item: `map` side by side, `forEach` one after the other. */
export function loopRequest(mode: "map" | "forEach", items: number, parallelism: number): string {
  const [container, inner] = [0, 1];
  return toRequestBody(`${mode} over ${items} items`, {
    nodes: [
      {
        id: nodeIdAt(container),
        type: "workflow.container",
        role: "container",
        ...nodeDefaults(mode),
        parameters: {
          items: Array.from({ length: items }, (_, at) => `item ${at}`),
          __container: {
            subgraphId: "each",
            loop: { mode, items: "parameters.items", ...(mode === "map" && { parallelism }) },
            inputs: [{ from: "item", node: nodeIdAt(inner), to: "parameters.in" }],
            outputs: [{ node: nodeIdAt(inner), from: "results.out", to: "results.out" }],
          },
        },
      },
    ],
    edges: [],
    subgraphs: [{ id: "each", definition: { ...subgraphHeader("each"), nodes: [noopNode(inner)], edges: [] } }],
  });
}

const subgraphHeader = (name: string) => ({ id: nodeIdAt(0xfffffe), schemaVersion: "2025-10", metadata: { name } });
