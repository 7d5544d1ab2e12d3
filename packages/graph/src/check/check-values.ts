// Checks authored values and the types of ports before anything runs. Values from edges and iterations are checked at run time. A literal of
// the wrong type is an error; any other value that does not match its schema is a warning, unless schemas are enforced.

import { didYouMean, type NodeUi, omitUndefined } from "@astraflow/protocol";
import { formatNames, listedNames, type ResolvedEdge, type ResolvedEdges } from "../plan/edge-resolution.ts";
import { findSchemaProblem, withDefaults } from "../plan/node-schemas.ts";
import { defaultsStepsMax } from "../plan/plan-compiler.ts";
import { describeNode, type IndexedGraph, type NodeEntry, schemaModeOf, type WorkflowIndex } from "../plan/workflow-index.ts";
import { compilePattern } from "../schema/linear-pattern.ts";
import { allowedTypesOf, findSubschema, hasAllowedType, isSchemaDefault, resolveLocalRef } from "../schema/schema-lookup.ts";
import type { StepBudget } from "../schema/validator.ts";
import {
  isObject,
  type JsonPath,
  type LocatedProblem,
  parseBindingPath,
  parseJsonPointer,
  valueAt,
} from "../values/binding-path.ts";
import type { ProblemList } from "./problem-list.ts";

/** Steps for all schemas of one workflow together, about 80 ms of work: a definition has thousands of nodes. */
const valueCheckStepsMax = 400_000;

/** First steps under `parameters` that edges or iterations write; `*` means all. */
type FedKeys = ReadonlyMap<NodeEntry, ReadonlySet<string>>;

export function checkValues(
  workflowIndex: WorkflowIndex,
  resolvedEdges: ResolvedEdges,
  problems: ProblemList,
  stepsMax: number = valueCheckStepsMax,
): void {
  const budget = { stepsLeft: stepsMax };
  const suggestions = { left: suggestionLimits.lookupsMax };
  const fedKeys = collectFedKeys(workflowIndex, resolvedEdges);
  const filled = fillAllDefaults(resolvedEdges, problems, Math.min(defaultsStepsMax, stepsMax));
  for (const [graph, edgesOfGraph] of resolvedEdges) {
    for (const [index, edge] of edgesOfGraph.entries()) {
      checkPortTypes(workflowIndex, graph, index, edge, problems);
      warnOfUnlistedPorts(graph, index, edge, problems);
    }
    for (const entry of graph.entries) {
      const schema = entry.node.schema?.parameters;
      const fed = fedKeys.get(entry);
      if (!isObject(schema) || fed?.has("*")) continue;
      const isEnforced = schemaModeOf(workflowIndex, graph, entry.node) === "enforce";
      const check: ParameterCheck = { graph, entry, schema, fed, isEnforced, problems, budget, suggestions };
      checkAuthoredParameters(check);
      checkRequiredParameters(check, filled.get(entry) ?? {});
      warnOfUnlistedParameters(check);
      if (budget.stepsLeft < 0) return; // reported once, for the node that exceeded the budget
    }
  }
}

interface ParameterCheck {
  readonly graph: IndexedGraph;
  readonly entry: NodeEntry;
  readonly schema: Record<string, unknown>;
  /** Keys that edges or iterations write. */
  readonly fed: ReadonlySet<string> | undefined;
  readonly isEnforced: boolean;
  readonly problems: ProblemList;
  readonly budget: StepBudget;
  /** How many more names may be searched for similar ones. */
  readonly suggestions: { left: number };
}

/** A plan fills in defaults within a budget; this checks that it suffices. Parameters with their defaults, by node. */
function fillAllDefaults(
  resolvedEdges: ResolvedEdges,
  problems: ProblemList,
  stepsMax: number,
): ReadonlyMap<NodeEntry, Record<string, unknown>> {
  const budget = { stepsLeft: stepsMax };
  const filled = new Map<NodeEntry, Record<string, unknown>>();
  for (const graph of resolvedEdges.keys())
    for (const entry of graph.entries) {
      const parameters = withDefaults(entry.node.schema?.parameters, entry.node.parameters ?? {}, budget);
      filled.set(entry, parameters as Record<string, unknown>);
      if (budget.stepsLeft > 0) continue;
      const message = `${describeNode(entry.node)}: the schemas of the workflow up to this one have too many defaults to fill in; make them simpler`;
      problems.tooCostly(graph, entry, ["schema", "parameters"], message);
      return filled;
    }
  return filled;
}

/** Warns about rules of a node's schemas that validation ignores. */
export function warnOfIgnoredRules(graph: IndexedGraph, budget: StepBudget, problems: ProblemList): void {
  for (const entry of graph.entries)
    for (const root of ["parameters", "results"] as const) {
      const schema = entry.node.schema?.[root];
      if (!isObject(schema)) continue;
      for (const { at, message } of findIgnoredRules(schema, budget)) {
        const sentence = `${describeNode(entry.node)}: its schema of ${root} ${message}`;
        problems.nodeWarning(graph, entry, ["schema", root, ...at], sentence);
      }
    }
}

const unsupportedKeywords = ["unevaluatedProperties", "unevaluatedItems", "$dynamicRef"] as const;
/** Keywords that hold schemas by name, and those that hold one schema or a list of them. */
const mapKeywords = new Set(["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"]);
const propertyKeywords = ["additionalProperties", "propertyNames"];
const itemKeywords = ["items", "prefixItems", "additionalItems", "contains"];
const wholeValueKeywords = ["not", "if", "then", "else", "allOf", "anyOf", "oneOf"];
const schemaKeywords = [...mapKeywords, ...propertyKeywords, ...itemKeywords, ...wholeValueKeywords];

/** At most ten, and no more than the budget allows. */
function findIgnoredRules(root: unknown, budget: StepBudget): LocatedProblem[] {
  const found: LocatedProblem[] = [];
  const open: { schema: unknown; at: JsonPath }[] = [{ schema: root, at: [] }];
  for (let next = open.pop(); next !== undefined && found.length < 10; next = open.pop()) {
    const { schema, at } = next;
    budget.stepsLeft -= 1;
    if (budget.stepsLeft < 0) break;
    if (!isObject(schema)) continue;
    found.push(...ignoredRulesIn(root, schema, at, budget));
    for (const key of schemaKeywords) {
      const inner = schema[key];
      if (Array.isArray(inner)) for (const [index, one] of inner.entries()) open.push({ schema: one, at: [...at, key, index] });
      else if (isObject(inner) && mapKeywords.has(key))
        for (const [name, one] of Object.entries(inner)) open.push({ schema: one, at: [...at, key, name] });
      else if (isObject(inner)) open.push({ schema: inner, at: [...at, key] });
    }
  }
  return found;
}

function ignoredRulesIn(root: unknown, schema: Record<string, unknown>, at: JsonPath, budget: StepBudget): LocatedProblem[] {
  const found: LocatedProblem[] = [];
  const patterns = isObject(schema["patternProperties"]) ? Object.keys(schema["patternProperties"]) : [];
  for (const pattern of typeof schema["pattern"] === "string" ? [schema["pattern"], ...patterns] : patterns) {
    budget.stepsLeft -= 4 * pattern.length;
    if (budget.stepsLeft < 0) break;
    const read = compilePattern(pattern);
    if (typeof read === "string") found.push({ at, message: `has a pattern that is ${read} and is ignored` });
  }
  for (const keyword of unsupportedKeywords)
    if (schema[keyword] !== undefined) found.push({ at, message: `uses ${keyword}, which is ignored` });
  const ref = schema["$ref"];
  if (typeof ref === "string" && resolveLocalRef(root, ref) === undefined)
    found.push({ at, message: "has a $ref that does not resolve inside the schema and is ignored" });
  return found;
}

function checkPortTypes(
  workflowIndex: WorkflowIndex,
  graph: IndexedGraph,
  index: number,
  edge: ResolvedEdge,
  problems: ProblemList,
): void {
  if (edge.transfer === null || edge.crossings.length > 0) return;
  const { input, target, source, into } = edge.transfer;
  const from = graph.entries[input.source]?.node;
  const to = graph.entries[target]?.node;
  const fromSchema = from?.schema?.[input.from.root];
  const toSchema = to?.schema?.parameters;
  const sourceTypes = allowedTypesOf(fromSchema, findSubschema(fromSchema, input.from.steps));
  const targetTypes = allowedTypesOf(toSchema, findSubschema(toSchema, input.to));
  if (sourceTypes === null || targetTypes === null || [...sourceTypes].some((type) => targetTypes.has(type))) return;
  const formatTypes = (types: ReadonlySet<string>) => [...types].join(" or ");
  const message = `Port \`${source.key}\` (${formatTypes(sourceTypes)}) of ${from && describeNode(from)} does not fit \`${into.key}\` (${formatTypes(targetTypes)}) of ${to && describeNode(to)}.`;
  const isEnforced = [from, to].some((node) => node !== undefined && schemaModeOf(workflowIndex, graph, node) === "enforce");
  if (isEnforced) problems.error(graph, ["edges", index], message, to?.id ?? null);
  else problems.warning(graph, ["edges", index], message, to?.id ?? null);
}

/** A node without declared ports takes an edge by the name of any parameter or result; one that its schema does not list is perhaps a slip. */
function warnOfUnlistedPorts(graph: IndexedGraph, index: number, { transfer }: ResolvedEdge, problems: ProblemList): void {
  if (transfer === null || problems.isFullOfWarnings) return;
  const ends = [
    { side: "source", root: "results", ports: "outputPorts", ordinal: transfer.input.source, key: transfer.source.key },
    { side: "target", root: "parameters", ports: "inputPorts", ordinal: transfer.target, key: transfer.into.key },
  ] as const;
  for (const { side, root, ports, ordinal, key } of ends) {
    const node = graph.entries[ordinal]?.node;
    const listed = listedNames(node?.schema?.[root]);
    if (node === undefined || node.ui?.[ports] !== undefined || listed === null || listed.has(key)) continue;
    const names = listed.names.length === 0 ? "lists none" : `lists ${formatNames(listed.names)}`;
    const message = `${describeNode(node)} declares no ports, so port ${key} is ${root}.${key}, and the schema of its ${root} ${names}`;
    problems.warning(graph, ["edges", index, side, "port"], message, node.id);
  }
}

/** Text with a placeholder in it becomes another value when it is filled in, so it is judged then. */
const hasPlaceholder = (value: unknown): boolean => typeof value === "string" && value.includes("{{");

function checkAuthoredParameters({ graph, entry, schema, fed, isEnforced, problems, budget }: ParameterCheck): void {
  // Rules over several properties are checked at run time: an edge may supply a missing one.
  const { type, properties, patternProperties, additionalProperties, $defs, definitions } = schema;
  const perPropertyRules = omitUndefined({ type, properties, patternProperties, additionalProperties, $defs, definitions });
  const parameters = entry.node.parameters ?? {};
  for (const [key, value] of Object.entries(parameters)) {
    if (fed?.has(key) || key.startsWith("__")) continue;
    const options = { budget, allowsMissingReserved: true, isUndecided: hasPlaceholder };
    const problem = findSchemaProblem(perPropertyRules, { [key]: value }, options);
    if (problem === null) continue;
    const steps = parseJsonPointer(problem.path);
    const field = `parameters${problem.path.replaceAll("/", ".")}`;
    const message = `${describeNode(entry.node)}: ${field} ${problem.message}`;
    if (problem.isTooCostly) return problems.tooCostly(graph, entry, ["parameters", ...steps], message);
    const literal = valueAt(parameters, steps);
    // Editors write null where nothing was entered: that is an absent value, not one of the wrong type.
    const isRefused = isEnforced || (literal !== null && !hasAllowedType(schema, steps, literal));
    // An editor writes the defaults of a manifest into a new node; that one of them does not match is no mistake of the author.
    const isError = isRefused && !isSchemaDefault(schema, steps, parameters);
    problems[isError ? "nodeError" : "nodeWarning"](graph, entry, ["parameters", ...steps], message);
  }
}

/** Parameters that the schema requires and nothing supplies. Those of a chain may come with the call, so they are judged at run time. */
function checkRequiredParameters(
  { graph, entry, schema, fed, isEnforced, problems, budget }: ParameterCheck,
  filled: Readonly<Record<string, unknown>>,
): void {
  const { middlewares = [] } = entry.node as { readonly middlewares?: readonly unknown[] };
  const isInChain = entry.host !== null || middlewares.length > 0;
  if (isInChain || !Array.isArray(schema["required"])) return;
  budget.stepsLeft -= schema["required"].length;
  const isSupplied = (name: string): boolean =>
    Object.hasOwn(filled, name) && (filled[name] !== null || hasAllowedType(schema, [name], null));
  for (const name of schema["required"] as unknown[]) {
    if (typeof name !== "string" || name.startsWith("__") || fed?.has(name) || isSupplied(name)) continue;
    const message = `${describeNode(entry.node)}: parameters.${name} is required and neither authored nor written by an edge`;
    problems[isEnforced ? "nodeError" : "nodeWarning"](graph, entry, ["parameters", name], message);
  }
}

/**
 * A schema that lists its properties and says nothing of others accepts a misspelt one, which then has no effect: that is a warning. What a
 * port or a widget of the node is bound to is there on purpose, and null is what editors write for a value that was left out.
 */
function warnOfUnlistedParameters({ graph, entry, schema, fed, problems, suggestions }: ParameterCheck): void {
  const known = schema["additionalProperties"] === undefined ? knownParametersOf(entry.node, schema) : null;
  if (known === null) return;
  const { names } = known;
  const { type, parameters = {} } = entry.node;
  for (const [key, value] of Object.entries(parameters)) {
    if (value === null || fed?.has(key) || known.has(key) || problems.isFullOfWarnings) continue;
    const name = formatNames([key]);
    const { charsMax, namesMax } = suggestionLimits;
    const isSearched = key.length <= charsMax && names.length <= namesMax && suggestions.left > 0;
    suggestions.left -= isSearched ? 1 : 0;
    const hint = isSearched ? didYouMean(key, names) : "";
    const has = names.length === 0 ? "it has none" : `it has ${formatNames(names)}`;
    const message = `${describeNode(entry.node)}: ${type} has no parameter ${name}, so it has no effect${hint} (${has})`;
    problems.nodeWarning(graph, entry, ["parameters", key], message);
  }
}

/** Bound on the search for similar names, however many unlisted ones a definition has. */
const suggestionLimits = { lookupsMax: 20, namesMax: 200, charsMax: 64 } as const;

/** The names that a schema lists, and whether a node takes a parameter of some name: a port or a widget may be bound to further ones. */
interface KnownParameters {
  readonly names: readonly string[];
  has(name: string): boolean;
}

/** Null: nothing says which names there are. */
export function knownParametersOf({ ui }: Pick<NodeEntry["node"], "ui">, schema: unknown): KnownParameters | null {
  const listed = listedNames(schema);
  if (listed === null || listed.hasUnlisted) return null;
  let bound: ReadonlySet<string> | null = null;
  const isBound = (name: string): boolean => (bound ??= boundParametersOf(ui)).has(name);
  return { names: listed.names, has: (name) => listed.has(name) || name.startsWith("__") || isBound(name) };
}

/** First steps under `parameters` that ports and widgets of a node are bound to. */
function boundParametersOf(ui: NodeUi | undefined): ReadonlySet<string> {
  const bindings = [...(ui?.inputPorts ?? []), ...(ui?.widgets ?? [])].map(({ binding }) => parseBindingPath(binding.path));
  return new Set(
    bindings.flatMap((path) => (typeof path !== "string" && path.root === "parameters" ? path.steps.slice(0, 1) : [])),
  );
}

/** Which parameters edges and iterations write, by node. */
function collectFedKeys(workflowIndex: WorkflowIndex, resolvedEdges: ResolvedEdges): FedKeys {
  const fed = new Map<NodeEntry, Set<string>>();
  const addKey = (entry: NodeEntry | undefined, to: readonly string[]) => {
    if (entry === undefined) return;
    const keys = fed.get(entry) ?? new Set();
    fed.set(entry, keys.add(to[0] ?? "*"));
  };
  for (const [graph, edgesOfGraph] of resolvedEdges) {
    for (const { container } of graph.entries)
      for (const input of container?.inputs ?? [])
        addKey(workflowIndex.subgraphs.get(container?.subgraph ?? "")?.byId.get(input.node), input.to);
    for (const edge of edgesOfGraph) {
      if (edge.transfer !== null) addKey(graph.entries[edge.transfer.target], edge.transfer.input.to);
      for (const crossing of edge.crossings)
        if (crossing.side === "target")
          addKey(findInnermostNode(workflowIndex, graph.entries[crossing.container], crossing.rest), crossing.path.steps);
    }
  }
  return fed;
}

function findInnermostNode(
  workflowIndex: WorkflowIndex,
  container: NodeEntry | undefined,
  rest: readonly string[],
): NodeEntry | undefined {
  let at = container;
  for (const id of rest) at = workflowIndex.subgraphs.get(at?.container?.subgraph ?? "")?.byId.get(id);
  return at;
}
