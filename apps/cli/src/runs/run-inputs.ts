// The flags of `astra run` that shape the request: inputs, pins, labels, and where to begin and end. Pure but for reading @FILE.

import { compilePlan, withValueAt } from "@astraflow/graph";
import {
  closestMatch,
  type JsonObject,
  type JsonValue,
  type RunStartRequest,
  type Workflow,
  type WorkflowNode,
} from "@astraflow/protocol";
import type { TextInput } from "../api/command-context.ts";
import { parsePair, readTextFile } from "../api/input-file.ts";
import { findNodeId } from "../lookup/name-lookup.ts";
import { usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

export type RunInputFlags = Readonly<Record<"input" | "pin" | "label", readonly string[]>> & TextInput<never, "from" | "to">;

/** The parts of a request that the flags add. Inputs change the workflow itself, which is then sent as a whole. */
export function applyInputFlags(workflow: Workflow, flags: RunInputFlags): Partial<RunStartRequest> {
  const changed = flags.input.reduce(applyInput, workflow);
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

/** A value as JSON, or else as text; @FILE stands for the content of the file. */
function parseValue(text: string): JsonValue {
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
function applyInput(workflow: Workflow, text: string): Workflow {
  const [key, value] = parsePair(text, "--input");
  const { node, path } = findParameter(workflow, key);
  const parameters = withValueAt(node.parameters ?? {}, path, parseValue(value)) as JsonObject;
  return { ...workflow, nodes: workflow.nodes.map((one) => (one === node ? { ...node, parameters } : one)) };
}

function findParameter(workflow: Workflow, key: string): { node: WorkflowNode; path: string[] } {
  const named = workflow.nodes.find(({ id, label }) =>
    [id, label].some((name) => key.toLowerCase().startsWith(`${name.toLowerCase()}.`)),
  );
  if (named !== undefined) {
    const name = key.toLowerCase().startsWith(`${named.id.toLowerCase()}.`) ? named.id : named.label;
    return { node: named, path: key.slice(name.length + 1).split(".") };
  }
  const [first = ""] = key.split(".");
  const fed = listParametersFromEdges(workflow);
  const having = workflow.nodes.filter((node) => parameterNames(node).includes(first) && !fed.has(`${node.id} ${first}`));
  const [only] = having;
  if (only !== undefined && having.length === 1) return { node: only, path: key.split(".") };
  if (only !== undefined) {
    const labels = having.map(({ label }) => `"${stripControlCharacters(label)}.${first}=…"`).join(", ");
    throw usageFailure(`${having.length} nodes have a parameter ${stripControlCharacters(first)}; choose one: ${labels}.`);
  }
  const suggestion = closestMatch(first, workflow.nodes.flatMap(parameterNames));
  throw usageFailure(
    `No node has a parameter ${stripControlCharacters(first)} that is not set by another node.${suggestion === null ? "" : ` Did you mean ${stripControlCharacters(suggestion)}?`}`,
  );
}

/** Parameters that an edge sets: a value for them would have no effect. */
function listParametersFromEdges(workflow: Workflow): Set<string> {
  const { nodes } = compilePlan(workflow);
  return new Set(nodes.flatMap(({ id, inputs }) => inputs.map(({ to }) => `${id} ${to[0] ?? ""}`)));
}

function parameterNames({ parameters, schema }: WorkflowNode): string[] {
  const properties = (schema?.parameters as { properties?: object } | undefined)?.properties;
  return [...Object.keys(parameters ?? {}), ...Object.keys(properties ?? {})];
}
