// One node type as lines of text, and as a node to paste into a workflow.

import { randomUUID } from "node:crypto";
import type { CatalogNode, CatalogPort } from "@astraflow/protocol";
import { formatTextTable } from "../output/table.ts";

/** What the manifest says about the node. */
type NodeTemplate = NonNullable<CatalogNode["versions"][number]["template"]>;

export const versionOf = ({ defaultVersion, latestVersion, versions }: CatalogNode): string =>
  defaultVersion ?? latestVersion ?? versions[0]?.version ?? "";

type JsonSchema = Readonly<Record<string, unknown>>;
const isSchema = (value: unknown): value is JsonSchema => typeof value === "object" && value !== null && !Array.isArray(value);

/** None where the manifest says only that there is one. */
const schemasOf = ({ schema }: NodeTemplate): JsonSchema => (isSchema(schema) ? schema : {});

interface FieldSummary {
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly schema: JsonSchema;
}

/** The named properties of an object schema. */
function listFields(schema: unknown): FieldSummary[] {
  if (!isSchema(schema) || !isSchema(schema["properties"])) return [];
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(schema["properties"]).map(([name, value]) => {
    const own = isSchema(value) ? value : {};
    return { name, type: describeType(own), isRequired: required.includes(name), schema: own };
  });
}

/** `string`, `string|null`, or the values of an enum. */
function describeType({ type, enum: values, const: value }: JsonSchema): string {
  if (Array.isArray(values)) return values.map((one) => JSON.stringify(one)).join("|");
  if (value !== undefined) return JSON.stringify(value);
  if (Array.isArray(type)) return type.join("|");
  return typeof type === "string" ? type : "any";
}

/** A node with every parameter that is required or has a default; its id is new. */
export function createExampleNode({ packageName, type, label }: CatalogNode, version: string, template: NodeTemplate) {
  const fields = listFields(schemasOf(template)["parameters"]).filter(
    ({ isRequired, schema }) => isRequired || schema["default"] !== undefined,
  );
  return {
    id: randomUUID(),
    type,
    label: template.label ?? label,
    package: { name: packageName, version },
    position: { x: 80, y: 160 },
    ...(template.role !== undefined && template.role !== "node" && { role: template.role }),
    parameters: Object.fromEntries(fields.map(({ name, schema }) => [name, sampleValue(schema)])),
  };
}

const samples: Readonly<Record<string, unknown>> = {
  string: "",
  number: 0,
  integer: 0,
  boolean: false,
  array: [],
  object: {},
  null: null,
};

/** The default, the first of the allowed values, or something small of its type. */
function sampleValue(schema: JsonSchema): unknown {
  const { default: standard, enum: values, const: value, type, minimum } = schema;
  if (standard !== undefined) return standard;
  if (value !== undefined) return value;
  if (Array.isArray(values)) return values[0];
  const [first] = Array.isArray(type) ? type : [type];
  return typeof minimum === "number" ? minimum : (samples[String(first)] ?? null);
}

export function renderNodeType(
  node: CatalogNode,
  version: string,
  template: NodeTemplate,
  workers: readonly string[],
  example: object,
): string[] {
  const others = node.versions.map((one) => one.version).filter((one) => one !== version);
  const own = node.versions.find((one) => one.version === version);
  const about = [
    ["type", node.type],
    ["label", template.label ?? node.label],
    ["about", template.description ?? "-"],
    ["package", `${node.packageName}@${version}${others.length > 0 ? ` (also ${others.join(", ")})` : ""}`],
    ["role", template.role ?? "node"],
    ["workers", describeWorkers(workers)],
  ];
  return [
    ...formatTextTable(about),
    ...renderFields("PARAMETER", listFields(schemasOf(template)["parameters"])),
    ...renderFields("RESULT", listFields(schemasOf(template)["results"])),
    ...renderPorts("INPUT PORT", own?.inputs ?? []),
    ...renderPorts("OUTPUT PORT", own?.outputs ?? []),
    ...explainUndeclaredPorts(own?.inputs ?? [], own?.outputs ?? []),
    "",
    "as a node of a workflow:",
    ...JSON.stringify(example, null, 2).split("\n"),
  ];
}

const workersShownMax = 10;

function describeWorkers(workers: readonly string[]): string {
  if (workers.length === 0) return "none is connected: a run with this node waits for one";
  const more = workers.length - workersShownMax;
  return `${workers.slice(0, workersShownMax).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function renderFields(title: string, fields: readonly FieldSummary[]): string[] {
  if (fields.length === 0) return [];
  const rows = fields.map(({ name, type, isRequired, schema }) => [
    name,
    type,
    isRequired ? "yes" : "no",
    schema["default"] === undefined ? "-" : JSON.stringify(schema["default"]),
    typeof schema["description"] === "string" ? schema["description"] : "-",
  ]);
  return ["", ...formatTextTable([[title, "TYPE", "REQUIRED", "DEFAULT", "ABOUT"], ...rows])];
}

/** Where the manifest declares no ports on a side, its fields are the ports. */
function explainUndeclaredPorts(inputs: readonly CatalogPort[], outputs: readonly CatalogPort[]): string[] {
  const sides = [
    ...(inputs.length === 0 ? ["each parameter is an input port"] : []),
    ...(outputs.length === 0 ? ["each result is an output port"] : []),
  ];
  return sides.length === 0 ? [] : ["", `no ports are declared: ${sides.join(", ")}`];
}

function renderPorts(title: string, ports: readonly CatalogPort[]): string[] {
  if (ports.length === 0) return [];
  return ["", ...formatTextTable([[title, "TYPE", "BOUND TO"], ...ports.map(({ key, type, path }) => [key, type, path])])];
}
