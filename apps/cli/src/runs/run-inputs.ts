// The inputs, pins and labels of `astra run`, as parts of the request.

import { compilePlan, knownParametersOf, withValueAt } from "@astraflow/graph";
import {
  type CatalogNode,
  closestMatch,
  didYouMean,
  isRecord,
  type JsonObject,
  type JsonValue,
  type RunStartRequest,
  type Workflow,
  type WorkflowNode,
} from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import type { TextInput } from "../api/command-context.ts";
import { parsePair, readJsonFile, readTextFile } from "../api/input-file.ts";
import { findNodeId } from "../lookup/name-lookup.ts";
import { readPages } from "../lookup/pages.ts";
import { usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

/** The schema of each node's parameters by the node's id: its author's, or else the catalogue's. */
type ParameterSchemas = ReadonlyMap<string, unknown>;

/** A node that the catalogue does not know has no schema. */
export async function loadParameterSchemas(workflow: Workflow, client: Client): Promise<ParameterSchemas> {
  const unknown = workflow.nodes.filter(({ schema }) => schema?.parameters === undefined);
  const types: CatalogNode[] = [];
  for (const name of new Set(unknown.map((node) => node.package.name))) {
    const query = { package: name, limit: 200 };
    types.push(...(await readPages((cursor) => client.searchNodes({ ...query, cursor }), Number.POSITIVE_INFINITY)).items);
  }
  return new Map(workflow.nodes.map((node) => [node.id, node.schema?.parameters ?? findCatalogueSchema(node, types)]));
}

function findCatalogueSchema({ type, package: { name, version } }: WorkflowNode, types: readonly CatalogNode[]): unknown {
  const found = types.find((one) => one.type === type && one.packageName === name);
  const schema: unknown = found?.versions.find((one) => one.version === version)?.template?.schema;
  return isRecord(schema) ? schema["parameters"] : undefined;
}

/** The flags that shape the request: inputs, pins, labels, and where to begin and end. */
export type RunInputFlags = Readonly<Record<"input" | "pin" | "label", readonly string[]>> & TextInput<never, "from" | "to">;

/** The parts of a request that the flags add. Inputs change the workflow itself, which is then sent as a whole. */
export function applyInputFlags(
  workflow: Workflow,
  flags: RunInputFlags,
  schemas: ParameterSchemas = new Map(),
): Partial<RunStartRequest> {
  const changed = flags.input.reduce((before, text) => applyInput(before, text, schemas), workflow);
  const pins = flags.pin
    .map((text) => parsePair(text, "--pin"))
    .map(([node, value]) => [findNodeId(node, workflow), parsePin(node, value)]);
  const labels = flags.label.map((text) => parsePair(text, "--label"));
  return {
    ...(changed !== workflow && { workflow: changed }),
    ...(pins.length > 0 && { pins: Object.fromEntries(pins) as Record<string, JsonObject> }),
    ...(flags.from !== undefined && { from: findNodeId(flags.from, workflow) }),
    ...(flags.to !== undefined && { to: findNodeId(flags.to, workflow) }),
    ...(labels.length > 0 && { labels: Object.fromEntries(labels) as Record<string, string> }),
  };
}

/** A value as JSON, or else as text; @FILE stands for the content of the file, which must be JSON if its name says so. */
function parseValue(text: string): JsonValue {
  if (/^@.*\.json$/i.test(text)) return readJsonFile(text.slice(1)).value as JsonValue;
  const content = text.startsWith("@") ? readTextFile(text.slice(1)) : text;
  try {
    return JSON.parse(content) as JsonValue;
  } catch {
    // Text without quotes, so that nobody has to quote twice on a command line.
    return content;
  }
}

function parsePin(node: string, text: string): JsonObject {
  const value = parseValue(text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw usageFailure(`--pin ${stripControlCharacters(node)}=… takes the node's results as a JSON object, or @FILE with one.`);
}

/** `name=value` for the one node that has such a parameter, `node.name=value` for a node by its label or id. */
function applyInput(workflow: Workflow, text: string, schemas: ParameterSchemas): Workflow {
  const [key, value] = parsePair(text, "--input");
  const { node, path } = findNamedParameter(workflow, key, schemas) ?? findOnlyParameter(workflow, key, value, schemas);
  const parameters = withValueAt(node.parameters ?? {}, path, parseValue(value)) as JsonObject;
  return { ...workflow, nodes: workflow.nodes.map((one) => (one === node ? { ...node, parameters } : one)) };
}

interface FoundParameter {
  readonly node: WorkflowNode;
  readonly path: string[];
}

const hasName = ({ id, label }: WorkflowNode, name: string): boolean =>
  [id, label].some((own) => own.toLowerCase() === name.toLowerCase());

/** Null: the key does not begin with the name of a node. */
function findNamedParameter(workflow: Workflow, key: string, schemas: ParameterSchemas): FoundParameter | null {
  const nameOf = ({ id, label }: WorkflowNode): string | undefined =>
    [id, label].find((name) => key.toLowerCase().startsWith(`${name.toLowerCase()}.`));
  const node = workflow.nodes.find((one) => nameOf(one) !== undefined);
  if (node === undefined) return null;
  const path = key.slice((nameOf(node) ?? "").length + 1).split(".");
  const [first = ""] = path;
  const known = knownParametersOf(node, schemas.get(node.id));
  if (known === null || known.has(first) || Object.hasOwn(node.parameters ?? {}, first)) return { node, path };
  const names = known.names.length === 0 ? "it has none" : `it has ${known.names.join(", ")}`;
  const label = `${node.label} (${node.type})`;
  throw usageFailure(
    stripControlCharacters(`${label} has no parameter ${first}${didYouMean(first, known.names)} (${names}).`),
    `astra nodes show ${stripControlCharacters(node.type)}`,
  );
}

/** The only node that has such a parameter and gets it from no other node. */
function findOnlyParameter(workflow: Workflow, key: string, value: string, schemas: ParameterSchemas): FoundParameter {
  const [first = ""] = key.split(".");
  const fed = listParametersFromEdges(workflow);
  const namesOf = (node: WorkflowNode): string[] => listParameterNames(node, schemas);
  const having = workflow.nodes.filter((node) => namesOf(node).includes(first) && !fed.has(`${node.id} ${first}`));
  const [only] = having;
  if (only !== undefined && having.length === 1) return { node: only, path: key.split(".") };
  if (only !== undefined) {
    const labels = having.map(({ label }) => `"${stripControlCharacters(label)}.${first}=…"`).join(", ");
    throw usageFailure(`${having.length} nodes have a parameter ${stripControlCharacters(first)}; choose one: ${labels}.`);
  }
  const node = workflow.nodes.find((one) => hasName(one, key));
  if (node !== undefined) {
    const names = namesOf(node);
    const example = /^[\w.,:@/-]*$/.test(value) ? value : "…";
    const write = `write --input ${quoteForShell(`${key}.${names[0] ?? "NAME"}`)}=${example}`;
    const has = names.length === 0 ? "" : ` (parameters: ${names.join(", ")})`;
    throw usageFailure(stripControlCharacters(`${key} is a node: ${write}${has}`));
  }
  const labels = workflow.nodes.map(({ label }) => label);
  const meant = key.includes(".") ? closestMatch(first, labels) : null;
  if (meant !== null)
    throw usageFailure(stripControlCharacters(`No node is called ${first}; did you mean ${meant}? Nodes: ${labels.join(", ")}.`));
  const suggestion = closestMatch(first, workflow.nodes.flatMap(namesOf));
  throw usageFailure(
    `No node has a parameter ${stripControlCharacters(first)} that is not set by another node.${suggestion === null ? "" : ` Did you mean ${stripControlCharacters(suggestion)}?`}`,
  );
}

const quoteForShell = (text: string): string => (/^[\w.-]+$/.test(text) ? text : `"${text}"`);

/** Parameters that an edge sets: a value for them would have no effect. */
function listParametersFromEdges(workflow: Workflow): Set<string> {
  const { nodes } = compilePlan(workflow);
  return new Set(nodes.flatMap(({ id, inputs }) => inputs.map(({ to }) => `${id} ${to[0] ?? ""}`)));
}

function listParameterNames({ id, parameters, schema }: WorkflowNode, schemas: ParameterSchemas): string[] {
  const described = schemas.get(id) ?? schema?.parameters;
  const properties = isRecord(described) && isRecord(described["properties"]) ? described["properties"] : {};
  return [...new Set([...Object.keys(parameters ?? {}), ...Object.keys(properties)])];
}
