// Values against schemas, before anything runs: an edge between ports whose types cannot fit, and parameters that were authored wrongly.
// What edges and frames bring is only known at run time and left to it.

import { type Graph, type Graphs, type Place, stepsTo } from "./graphs.ts";
import type { Link } from "./links.ts";
import { isObject } from "./path.ts";
import { defaultsStepsMax } from "./plan.ts";
import type { Problems } from "./problem.ts";
import { schemaProblem, withDefaults } from "./schema.ts";
import type { Budget } from "./schema-judge.ts";
import { odditiesOf } from "./schema-oddities.ts";
import { schemaAt, typesOf } from "./schema-parts.ts";

/** Steps for all schemas of one workflow together: a definition has thousands of nodes. */
const stepsMax = 2_000_000;

type Links = ReadonlyMap<Graph, readonly Link[]>;
/** First steps under `parameters` that something other than the author writes; `*` stands for all of them. */
type Fed = ReadonlyMap<Place, ReadonlySet<string>>;

export function checkValues(links: Links, fed: Fed, problems: Problems): void {
  const budget = { stepsLeft: stepsMax };
  checkDefaults(links, problems);
  for (const [graph, ofGraph] of links) {
    for (const [index, link] of ofGraph.entries()) checkFit(graph, index, link, problems);
    for (const place of graph.places) {
      checkAuthored(graph, place, fed.get(place), budget, problems);
      if (budget.stepsLeft < 0) return; // said once, of the node whose schema went on and on
    }
  }
}

/** A plan fills in defaults within a budget; here it is seen whether that is enough. */
function checkDefaults(links: Links, problems: Problems): void {
  const budget = { stepsLeft: defaultsStepsMax };
  for (const graph of links.keys())
    for (const place of graph.places) {
      withDefaults(place.node.schema?.parameters, place.node.parameters ?? {}, budget);
      if (budget.stepsLeft > 0) continue;
      const message = `node ${place.node.id}: the schemas of the workflow up to this one have too many defaults to fill in; make them simpler`;
      problems.error(graph, [...stepsTo(place), "schema", "parameters"], message, place.node.id);
      return;
    }
}

/** Warnings: what a node's schemas say and nobody will heed. */
export function checkSchemas(graph: Graph, budget: Budget, problems: Problems): void {
  for (const place of graph.places)
    for (const root of ["parameters", "results"] as const) {
      const schema = place.node.schema?.[root];
      if (!isObject(schema)) continue;
      for (const { path, message } of odditiesOf(schema, budget)) {
        const steps = path.split("/").slice(1).map(unescaped);
        const said = `node ${place.node.id} (${place.node.label}): its schema of ${root} ${message}`;
        problems.warning(graph, [...stepsTo(place), "schema", root, ...steps], said, place.node.id);
      }
    }
}

function checkFit(graph: Graph, index: number, link: Link, problems: Problems): void {
  if (link.carries === null || link.crossings.length > 0) return;
  const { input, target, source, into } = link.carries;
  const from = graph.places[input.source]?.node;
  const to = graph.places[target]?.node;
  const fromSchema = from?.schema?.[input.from.root];
  const toSchema = to?.schema?.parameters;
  const given = typesOf(fromSchema, schemaAt(fromSchema, input.from.steps));
  const taken = typesOf(toSchema, schemaAt(toSchema, input.to));
  if (given === null || taken === null || [...given].some((type) => taken.has(type))) return;
  const words = (types: ReadonlySet<string>) => [...types].join(" or ");
  const message = `Port \`${source.key}\` (${words(given)}) of node ${from?.id} does not fit \`${into.key}\` (${words(taken)}) of node ${to?.id}.`;
  problems.error(graph, ["edges", index], message, to?.id ?? null);
}

function checkAuthored(
  graph: Graph,
  place: Place,
  fed: ReadonlySet<string> | undefined,
  budget: Budget,
  problems: Problems,
): void {
  const schema = place.node.schema?.parameters;
  if (!isObject(schema) || fed?.has("*")) return;
  // Rules over several properties are left to the run: an edge may bring the one that is missing.
  const { type, properties, patternProperties, additionalProperties, $defs, definitions } = schema;
  const alone = { type, properties, patternProperties, additionalProperties, $defs, definitions };
  for (const [key, value] of Object.entries(place.node.parameters ?? {})) {
    if (fed?.has(key) || key.startsWith("__")) continue;
    const problem = schemaProblem(alone, { [key]: value }, budget);
    if (problem === null) continue;
    const steps = problem.path.split("/").slice(1);
    const field = ["parameters", ...steps].join(".");
    const message = `node ${place.node.id} (${place.node.label}): ${field} ${problem.message}`;
    problems.error(graph, [...stepsTo(place), "parameters", ...steps.map(unescaped)], message, place.node.id);
    if (budget.stepsLeft < 0) return;
  }
}

const unescaped = (step: string): string => step.replaceAll("~1", "/").replaceAll("~0", "~");

/** Which parameters edges and frames write, by place. */
export function fedKeys(graphs: Graphs, links: Links): Fed {
  const fed = new Map<Place, Set<string>>();
  const feed = (place: Place | undefined, to: readonly string[]) => {
    if (place === undefined) return;
    const keys = fed.get(place) ?? new Set();
    fed.set(place, keys.add(to[0] ?? "*"));
  };
  for (const [graph, ofGraph] of links) {
    for (const { container } of graph.places)
      for (const input of container?.inputs ?? [])
        feed(graphs.byName.get(container?.subgraph ?? "")?.byId.get(input.node), input.to);
    for (const link of ofGraph) {
      if (link.carries !== null) feed(graph.places[link.carries.target], link.carries.input.to);
      for (const crossing of link.crossings)
        if (crossing.side === "target")
          feed(innermost(graphs, graph.places[crossing.container], crossing.rest), crossing.path.steps);
    }
  }
  return fed;
}

function innermost(graphs: Graphs, container: Place | undefined, rest: readonly string[]): Place | undefined {
  let at = container;
  for (const id of rest) at = graphs.byName.get(at?.container?.subgraph ?? "")?.byId.get(id);
  return at;
}
