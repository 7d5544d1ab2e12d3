// A workflow against the catalogue of packages: what is not there is named, and what the author left out is filled in from it.
// Where the catalogue comes from is the caller's.

import { type Middleware, type NodeUi, nearest, type Workflow, type WorkflowNode } from "@astraflow/protocol";
import { type AnyNode, isContainer } from "./container.ts";
import { type Graph, type Graphs, graphsOf, leastVersion, type Place, stepsTo } from "./graphs.ts";
import { type Problem, Problems } from "./problem.ts";
import { compareVersions } from "./version.ts";

export interface CatalogueNode {
  readonly schema: { readonly parameters?: unknown; readonly results?: unknown };
  readonly ports?: Pick<NodeUi, "inputPorts" | "outputPorts">;
  readonly role?: "node" | "container" | "middleware";
}

export interface CheckCatalogue {
  /** Null: the version has no such type, or there is no such version. */
  node(packageName: string, version: string, type: string): CatalogueNode | null;
  /** Empty: nobody has ever shown a manifest of this package. */
  versions(packageName: string): readonly string[];
  /** Packages with manifests. While there are none, a package that is not known refuses nothing: no worker has been here yet. */
  readonly names: readonly string[];
  /** Some worker lists this package, or this version of it, without a manifest; or its manifest is not kept yet. */
  isListed(packageName: string, version?: string): boolean;
}

export interface CheckOptions {
  /** A package that nobody has brought is a warning: its node waits for a worker that brings it. */
  readonly allowUnknown?: boolean;
}

/** So much is looked at for the name that was meant; a definition made of unknown names costs no more. */
const nearLimits = { wordsMax: 3, namesMax: 1_000, charsMax: 64 } as const;
/** Of a name in a sentence. */
const shownCharsMax = 80;

/** The scheduler runs these itself, whatever package they name. */
const isOurs = (node: AnyNode): boolean => node.type === "workflow.container";

/** One look at a workflow: what it is held against, and where what is wrong is written. */
interface Look {
  readonly graphs: Graphs;
  readonly catalogue: CheckCatalogue;
  readonly problems: Problems;
  readonly allowUnknown: boolean;
  /** By unknown name, the known one that was perhaps meant; null: none is alike, or enough were looked for. */
  readonly meant: Map<string, string | null>;
}

export const lookAt = (graphs: Graphs, catalogue: CheckCatalogue, problems: Problems, options: CheckOptions): Look => ({
  graphs,
  catalogue,
  problems,
  allowUnknown: options.allowUnknown ?? false,
  meant: new Map(),
});

export function checkCatalogue(look: Look, graph: Graph): void {
  for (const place of graph.places) if (!isOurs(place.node) && isThere(look, graph, place)) checkNode(look, graph, place);
}

/** Whether somebody has brought the packages of a workflow, and nothing else about it: for what was judged when it was published. */
export function checkPackages(workflow: Workflow, catalogue: CheckCatalogue, options: CheckOptions = {}): Problem[] {
  const graphs = graphsOf(workflow);
  const look = lookAt(graphs, catalogue, new Problems(), options);
  for (const graph of [graphs.root, ...graphs.byName.values()])
    for (const place of graph.places) if (!isOurs(place.node)) isThere(look, graph, place);
  return look.problems.list;
}

/** False where the package has no manifest that the node could be held against; what that means is written down. */
function isThere(look: Look, graph: Graph, place: Place): boolean {
  const { catalogue, problems, allowUnknown } = look;
  const { id, package: wanted } = place.node;
  if (catalogue.versions(wanted.name).length > 0) return true;
  const at = [...stepsTo(place), "package", "name"];
  const name = shown(wanted.name);
  if (catalogue.isListed(wanted.name))
    problems.warning(graph, at, `node ${id}: nobody has shown a manifest of package ${name}, so the node is not checked`, id);
  else if (allowUnknown || catalogue.names.length === 0)
    problems.warning(graph, at, `node ${id}: no worker has brought package ${name} yet; the node waits until one does`, id);
  else {
    const meant = meantBy(look, wanted.name);
    const hint = meant === null ? "" : ` (did you mean ${shown(meant)}?)`;
    const wayOut = "start a worker that brings it, or send allowUnknown: true and the node waits for one";
    problems.error(graph, at, `node ${id}: no worker has brought package ${name}${hint}; ${wayOut}`, id);
  }
  return false;
}

const shown = (name: string): string => (name.length > shownCharsMax ? `${name.slice(0, shownCharsMax)}…` : name);

function meantBy({ catalogue, meant }: Look, name: string): string | null {
  const { wordsMax, namesMax, charsMax } = nearLimits;
  const found = meant.get(name);
  if (found !== undefined) return found;
  if (name.length > charsMax || meant.size >= wordsMax) return null;
  const near = nearest(
    name,
    catalogue.names.slice(0, namesMax).filter((one) => one.length <= charsMax),
  );
  meant.set(name, near);
  return near;
}

function checkNode({ graphs, catalogue, problems }: Look, graph: Graph, place: Place): void {
  const { node } = place;
  const { name, version } = node.package;
  const at = stepsTo(place);
  const known = catalogue.versions(name);
  if (!known.includes(version) && catalogue.isListed(name, version)) {
    const message = `node ${node.id}: nobody has shown a manifest of package ${shown(name)} ${version}, so the node is not checked`;
    problems.warning(graph, [...at, "package", "version"], message, node.id);
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
