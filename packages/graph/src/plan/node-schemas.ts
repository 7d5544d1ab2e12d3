// Applies the JSON Schemas of nodes: checks parameters and results, and fills in defaults, within a budget.

import type { SchemaProblem } from "../schema/keywords.ts";
import { resolveLocalRef } from "../schema/schema-lookup.ts";
import { SchemaValidator, type StepBudget, type ValidatorOptions } from "../schema/validator.ts";
import { isObject } from "../values/binding-path.ts";
import type { PlanNode } from "./plan-types.ts";

/** Null: the value is valid. A schema that exceeds its budget makes every value invalid. */
export function findSchemaProblem(schema: unknown, value: unknown, options?: ValidatorOptions): SchemaProblem | null {
  return schema === true || schema === undefined ? null : new SchemaValidator(schema, options).validate(value);
}

const nodeValueOptions: ValidatorOptions = { allowsMissingReserved: true };

/** The parameters a node is about to run with, against its schema; the message names node and field. */
export function findParamsProblem(node: PlanNode, params: unknown, budget?: StepBudget): SchemaProblem | null {
  if (node.schema.parameters === true) return null;
  const options = budget === undefined ? nodeValueOptions : { ...nodeValueOptions, budget };
  const problem = findSchemaProblem(node.schema.parameters, withoutReservedKeys(params), options);
  return describeForNode(node, "parameters", problem);
}

/** Keys that begin with two underscores are set by the scheduler, or repeated by the worker; the schema of the node does not judge them. */
function withoutReservedKeys(value: unknown): unknown {
  if (!isObject(value)) return value;
  const keys = Object.keys(value);
  if (!keys.some((key) => key.startsWith("__"))) return value;
  return Object.fromEntries(Object.entries(value).filter(([key]) => !key.startsWith("__")));
}

/** What a node returned, against its schema, with authored results and defaults where it returned nothing. */
export function findResultsProblem(node: PlanNode, results: unknown, budget?: StepBudget): SchemaProblem | null {
  if (node.schema.results === true) return null;
  const filled = withoutReservedKeys(fillResults(node, results));
  const options = budget === undefined ? nodeValueOptions : { ...nodeValueOptions, budget };
  return describeForNode(node, "results", findSchemaProblem(node.schema.results, filled, options));
}

/** Results with the authored ones, then the defaults of the schema, wherever the node returned nothing. */
export function fillResults(node: PlanNode, results: unknown): unknown {
  const returned = results ?? {};
  return withDefaults(
    node.schema.results,
    isObject(returned) && node.results !== undefined ? mergeOver(node.results, returned) : returned,
  );
}

function describeForNode(node: PlanNode, root: "parameters" | "results", problem: SchemaProblem | null): SchemaProblem | null {
  if (problem === null) return null;
  const field = [root, ...problem.path.split("/").slice(1)].join(".");
  const label = node.label === "" || node.label === node.id ? "" : ` (${node.label})`;
  return { ...problem, path: `/${root}${problem.path}`, message: `node ${node.id}${label}: ${field} ${problem.message}` };
}

/** `top` if present, else `base`; objects key by key. */
function mergeOver(base: Readonly<Record<string, unknown>>, top: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const value: Record<string, unknown> = { ...base };
  for (const [key, item] of Object.entries(top)) {
    const below = Object.hasOwn(base, key) ? base[key] : undefined;
    defineField(value, key, isObject(item) && isObject(below) ? mergeOver(below, item) : item);
  }
  return value;
}

/** Assignment would take the key `__proto__` for the prototype. */
const defineField = (target: Record<string, unknown>, key: string, value: unknown): void =>
  void Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });

const defaultsLimits = { stepsMax: 20_000, depthMax: 32 };

/**
 * The value with the schema's defaults for absent fields, in nested objects too. Present values stay, null included. A budget that
 * runs out leaves the rest unfilled.
 */
export function withDefaults(schema: unknown, value: unknown, budget = { stepsLeft: defaultsLimits.stepsMax }): unknown {
  if (!isObject(schema)) return value;
  return fillDefaults(schema, value, { root: schema, budget, refs: new Set() }, defaultsLimits.depthMax);
}

interface DefaultsContext {
  readonly root: unknown;
  readonly budget: StepBudget;
  /** References followed while creating absent objects: a schema that refers to itself would create them without end. */
  readonly refs: Set<string>;
}

function fillDefaults(schema: unknown, value: unknown, context: DefaultsContext, depthLeft: number): unknown {
  context.budget.stepsLeft -= 1;
  if (!isObject(schema) || context.budget.stepsLeft <= 0 || depthLeft <= 0) return value;
  let filled = value;
  if (filled === undefined && schema["default"] !== undefined) filled = schema["default"];
  const ref = schema["$ref"];
  if (typeof ref === "string" && !(filled === undefined && context.refs.has(ref))) {
    const isFirst = !context.refs.has(ref);
    context.refs.add(ref);
    filled = fillDefaults(resolveLocalRef(context.root, ref), filled, context, depthLeft - 1);
    if (isFirst) context.refs.delete(ref);
  }
  if (Array.isArray(schema["allOf"]))
    for (const part of schema["allOf"]) filled = fillDefaults(part, filled, context, depthLeft - 1);
  return isObject(schema["properties"]) ? fillPropertyDefaults(schema, schema["properties"], filled, context, depthLeft) : filled;
}

/** A large value is copied once for every level of `allOf` that has a default for it. */
function copyFields(fields: Record<string, unknown>, budget: StepBudget): Record<string, unknown> {
  const copy = { ...fields };
  budget.stepsLeft -= Object.keys(copy).length;
  return copy;
}

function fillPropertyDefaults(
  schema: Record<string, unknown>,
  properties: Record<string, unknown>,
  value: unknown,
  context: DefaultsContext,
  depthLeft: number,
): unknown {
  if (value !== undefined && !isObject(value)) return value;
  const known: Record<string, unknown> = value ?? {};
  let changed: Record<string, unknown> | null = null;
  for (const [key, child] of Object.entries(properties)) {
    const current = Object.hasOwn(known, key) ? known[key] : undefined;
    const next = fillDefaults(child, current, context, depthLeft - 1);
    if (next === current) continue;
    changed ??= copyFields(known, context.budget);
    defineField(changed, key, next);
  }
  if (changed === null) return value;
  const filled = changed;
  // An absent object is only created if it is complete: a partial one would be invalid where none at all is valid.
  const required = Array.isArray(schema["required"]) ? (schema["required"] as unknown[]) : [];
  const isWhole = value !== undefined || required.every((key) => typeof key !== "string" || Object.hasOwn(filled, key));
  return isWhole ? filled : value;
}
