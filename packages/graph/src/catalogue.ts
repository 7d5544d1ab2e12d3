// A workflow against the catalogue of packages: what is not there is named, and what the author left out is filled in from it.
// Where the catalogue comes from is the caller's.

import type { Middleware, NodeUi, Workflow, WorkflowNode } from "@astraflow/protocol";
import { type AnyNode, isContainer } from "./container.ts";
import { type Graph, type Graphs, leastVersion, type Place, stepsTo } from "./graphs.ts";
import type { Problems } from "./problem.ts";
import { compareVersions } from "./version.ts";

export interface CatalogueNode {
  readonly schema: { readonly parameters?: unknown; readonly results?: unknown };
  readonly ports?: Pick<NodeUi, "inputPorts" | "outputPorts">;
  readonly role?: "node" | "container" | "middleware";
}

export interface CheckCatalogue {
  /** Null: the version has no such type, or there is no such version. */
  node(packageName: string, version: string, type: string): CatalogueNode | null;
  /** Empty: nobody has ever brought this package. */
  versions(packageName: string): readonly string[];
}

/** The scheduler runs these itself, whatever package they name. */
const isOurs = (node: AnyNode): boolean => node.type === "workflow.container";

export function checkCatalogue(graphs: Graphs, graph: Graph, catalogue: CheckCatalogue, problems: Problems): void {
  for (const place of graph.places) if (!isOurs(place.node)) checkNode(graphs, graph, place, catalogue, problems);
}

function checkNode(graphs: Graphs, graph: Graph, place: Place, catalogue: CheckCatalogue, problems: Problems): void {
  const { node } = place;
  const { name, version } = node.package;
  const at = stepsTo(place);
  const known = catalogue.versions(name);
  if (known.length === 0) {
    const message = `node ${node.id}: no worker has brought package ${name} yet; the node waits until one does`;
    problems.warning(graph, [...at, "package", "name"], message, node.id);
    return;
  }
  const used = usableVersion(version, leastVersion(graphs, graph, node), known);
  if (used === null) {
    const message = `node ${node.id}: package ${name} has no version ${version}; it has ${listed([...known].sort(compareVersions))}`;
    problems.error(graph, [...at, "package", "version"], message, node.id);
    return;
  }
  const found = catalogue.node(name, used, node.type);
  if (found === null) {
    problems.error(graph, [...at, "type"], `node ${node.id}: package ${name} ${used} has no node type ${node.type}`, node.id);
    return;
  }
  const isAround = place.host !== null;
  if (isAround !== (found.role === "middleware")) {
    const message = isAround
      ? `middleware ${node.id}: ${node.type} is no middleware and cannot stand around a node`
      : `node ${node.id}: ${node.type} is a middleware; put it around a node`;
    problems.error(graph, [...at, "type"], message, node.id);
  } else if (!isAround && isContainer(node) !== (found.role === "container")) {
    const message = `node ${node.id}: ${node.type} is ${found.role === "container" ? "a container" : "no container"}; give it the role ${found.role ?? "node"}`;
    problems.error(graph, [...at, "role"], message, node.id);
  }
}

const listed = (versions: readonly string[]): string =>
  versions.length > 10 ? `${versions.slice(-10).join(", ")} and ${versions.length - 10} earlier ones` : versions.join(", ");

/** The version as authored; else, where a least version is enough, the highest that is. */
function usableVersion(version: string, least: string | null, known: readonly string[]): string | null {
  if (known.includes(version) || least === null) return known.includes(version) ? version : null;
  const highest = [...known].sort(compareVersions).at(-1);
  return highest !== undefined && compareVersions(highest, least) >= 0 ? highest : null;
}

/** The workflow with schemas, ports and roles of the catalogue where the author left them out: what runs then needs no catalogue. */
export function resolveWorkflow(workflow: Workflow, catalogue: CheckCatalogue): Workflow {
  return {
    ...workflow,
    nodes: workflow.nodes.map((node) => resolvedNode(node, catalogue)),
    ...(workflow.subgraphs !== undefined && {
      subgraphs: workflow.subgraphs.map((subgraph) => ({
        ...subgraph,
        definition: resolveWorkflow(subgraph.definition, catalogue),
      })),
    }),
  };
}

function resolvedNode(node: WorkflowNode, catalogue: CheckCatalogue): WorkflowNode {
  const resolved = filledIn(node, catalogue);
  if (node.middlewares === undefined) return resolved;
  return { ...resolved, middlewares: node.middlewares.map((middleware) => filledIn<Middleware>(middleware, catalogue)) };
}

function filledIn<N extends AnyNode>(node: N, catalogue: CheckCatalogue): N {
  const { name, version } = node.package;
  const used = usableVersion(version, node.policy?.minVersion ?? null, catalogue.versions(name));
  const found = used === null ? null : catalogue.node(name, used, node.type);
  if (found === null) return node;
  const schema = { ...given(found.schema), ...given(node.schema ?? {}) };
  const ui = { ...given(found.ports ?? {}), ...given(node.ui ?? {}) };
  const isRoleMissing = node.role === undefined && found.role !== undefined && found.role !== "node";
  return {
    ...node,
    ...(Object.keys(schema).length > 0 && { schema }),
    ...(Object.keys(ui).length > 0 && { ui }),
    ...(isRoleMissing && { role: found.role }),
  };
}

const given = <T extends object>(fields: T): Partial<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
