// The authored form of a container, `parameters.__container`, read in one place: what it runs, how often, what enters and leaves.
// Node ids are still ids here; the compiler makes ordinals of them and finds the subgraph.

import type { Middleware, WorkflowNode } from "@astraflow/protocol";
import { type BindingPath, isObject, parseBindingPath, parsePathSteps } from "../values/binding-path.ts";
import type { ContainerLoop, ContainerRetry, IterationInput, LoopCondition } from "./plan-types.ts";

/** A node as authored, on its own or around another. */
export type AuthoredNode = WorkflowNode | Middleware;

export interface ContainerSettings {
  readonly subgraph: string;
  readonly loop: ContainerLoop | null;
  readonly retry: ContainerRetry | null;
  readonly timeoutMs: number | null;
  readonly inputs: readonly { readonly from: IterationInput["from"]; readonly node: string; readonly to: readonly string[] }[];
  readonly outputs: readonly { readonly node: string; readonly from: BindingPath; readonly to: readonly string[] }[];
}

/** What is wrong with a form: the steps under `parameters.__container`, and a sentence without the node's name. */
export interface ContainerProblem {
  readonly at: readonly (string | number)[];
  readonly message: string;
}

const containerLimits = {
  iterationsMax: 10_000,
  whileIterationsDefault: 100,
  parallelismDefault: 100,
  attemptsMax: 1_000,
  backoffMsMax: 24 * 3_600_000,
  timeoutSecondsMax: 30 * 24 * 3_600,
  portsMax: 1_000,
} as const;

export const isContainer = (node: AuthoredNode): boolean => node.type === "workflow.container" || node.role === "container";

/** Never fails: what cannot be read is named in `problems` and left at its default, so that a checker can go on to the next field. */
export function readContainerSettings(node: AuthoredNode): {
  readonly settings: ContainerSettings;
  readonly problems: readonly ContainerProblem[];
} {
  const problems: ContainerProblem[] = [];
  const report: ReportProblem = (at, message) => void problems.push({ at, message });
  const authored = node.parameters?.["__container"];
  const value = isObject(authored) ? authored : {};
  if (authored !== undefined && !isObject(authored)) report([], "must be an object");
  const subgraph = value["subgraphId"];
  if (typeof subgraph !== "string" || subgraph === "") report(["subgraphId"], "must name a subgraph of the workflow");
  const timeout = readNumberField(value, "timeoutSeconds", [], { min: 0.001, max: containerLimits.timeoutSecondsMax }, report);
  const settings: ContainerSettings = {
    subgraph: typeof subgraph === "string" ? subgraph : "",
    loop: readLoopSettings(value["loop"], report),
    retry: readRetrySettings(value["retry"], report),
    timeoutMs: timeout === null ? null : Math.ceil(timeout * 1_000),
    inputs: readPortList(value["inputs"], "inputs", report).flatMap((port, index) => readIterationInput(port, index, report)),
    outputs: readPortList(value["outputs"], "outputs", report).flatMap((port, index) => readIterationOutput(port, index, report)),
  };
  return { settings, problems };
}

type ReportProblem = (at: readonly (string | number)[], message: string) => void;

function readLoopSettings(value: unknown, report: ReportProblem): ContainerLoop | null {
  if (value === undefined || value === null) return null;
  if (!isObject(value)) {
    report(["loop"], "must be an object");
    return null;
  }
  if (value["enabled"] === false) return null;
  if (value["enabled"] !== undefined && value["enabled"] !== true && value["enabled"] !== null)
    report(["loop", "enabled"], "must be true or false");
  const mode = loopMode(value);
  if (mode === null) {
    report(["loop", "mode"], "must be forEach, map or while");
    return null;
  }
  const bounds = { min: 1, max: containerLimits.iterationsMax, isWhole: true };
  const iterations = readNumberField(value, "maxIterations", ["loop"], bounds, report);
  const parallelism = readNumberField(value, "parallelism", ["loop"], bounds, report);
  return {
    mode,
    items: mode === "while" ? null : readLoopItems(value["items"], report),
    maxIterations: iterations ?? (mode === "while" ? containerLimits.whileIterationsDefault : containerLimits.iterationsMax),
    parallelism: mode === "map" ? (parallelism ?? containerLimits.parallelismDefault) : 1,
    condition: mode === "while" ? readLoopCondition(value, report) : null,
  };
}

/** A loop that names no mode says by its fields which one is meant. */
function loopMode(value: Record<string, unknown>): ContainerLoop["mode"] | null {
  const mode = value["mode"];
  if (mode === "forEach" || mode === "map" || mode === "while") return mode;
  if (mode !== undefined && mode !== null) return null;
  if (value["items"] !== undefined) return "forEach";
  return value["condition"] !== undefined || value["until"] !== undefined ? "while" : null;
}

function readLoopItems(value: unknown, report: ReportProblem): ContainerLoop["items"] {
  const at = ["loop", "items"];
  if (Array.isArray(value)) {
    if (value.length > containerLimits.iterationsMax) report(at, `must have at most ${containerLimits.iterationsMax} items`);
    return { values: value };
  }
  const path =
    typeof value === "string" ? parseBindingPath(value) : "must be a list or the path of one, such as parameters.items";
  if (typeof path !== "string" && path.root === "parameters") return { path: path.steps };
  report(at, typeof path === "string" ? path : `must begin with parameters, for a container only knows its own`);
  return { values: [] };
}

/** `condition` goes on while it holds, `until` stops once it holds; a while loop has one of them. */
function readLoopCondition(value: Record<string, unknown>, report: ReportProblem): LoopCondition | null {
  const { condition, until } = value as { condition?: unknown; until?: unknown };
  if (condition !== undefined && until !== undefined)
    report(["loop", "until"], "cannot be combined with condition; keep one of them");
  if (condition !== undefined) return readCondition(condition, ["loop", "condition"], report);
  if (until === undefined) {
    report(["loop", "condition"], "is missing; a while loop needs a condition or an until");
    return null;
  }
  const stopCondition = readCondition(until, ["loop", "until"], report);
  return stopCondition === null ? null : { ...stopCondition, isNegated: true };
}

const conditionOps: readonly string[] = ["eq", "ne", "lt", "le", "gt", "ge", "truthy", "falsy", "exists", "missing"];

function readCondition(value: unknown, at: readonly string[], report: ReportProblem): LoopCondition | null {
  if (typeof value === "string") {
    const isFalsy = value.startsWith("!");
    const path = parseOutputPath(isFalsy ? value.slice(1) : value, at, report);
    return path && { path, op: isFalsy ? "falsy" : "truthy" };
  }
  if (!isObject(value)) {
    report(at, "must be a path or {path, op, value}");
    return null;
  }
  const op = value["op"] ?? "truthy";
  if (typeof op !== "string" || !conditionOps.includes(op)) {
    report([...at, "op"], `must be one of ${conditionOps.join(", ")}`);
    return null;
  }
  const path = typeof value["path"] === "string" ? parseOutputPath(value["path"], [...at, "path"], report) : null;
  if (typeof value["path"] !== "string") report([...at, "path"], "must be a path into the outputs of the last iteration");
  return path && { path, op: op as LoopCondition["op"], ...(value["value"] !== undefined && { value: value["value"] }) };
}

/** Outputs are written to `results.x` of the container, so a condition may spell them so; `x` alone and `last.x` mean the same. */
function parseOutputPath(text: string, at: readonly string[], report: ReportProblem): readonly string[] | null {
  const steps = parsePathSteps(text.trim());
  if (typeof steps === "string") {
    report(at, steps);
    return null;
  }
  return steps.length > 1 && (steps[0] === "results" || steps[0] === "last") ? steps.slice(1) : steps;
}

function readRetrySettings(value: unknown, report: ReportProblem): ContainerRetry | null {
  if (value === undefined || value === null) return null;
  if (!isObject(value)) {
    report(["retry"], "must be an object");
    return null;
  }
  const number = (field: string, min: number, max: number, isWhole = true) =>
    readNumberField(value, field, ["retry"], { min, max, isWhole }, report);
  const backoffMs = number("backoffMs", 0, containerLimits.backoffMsMax) ?? 1_000;
  return {
    maxAttempts: number("maxAttempts", 1, containerLimits.attemptsMax) ?? 3,
    backoffMs,
    factor: number("factor", 1, 100, false) ?? 2,
    backoffMsMax: number("backoffMsMax", 0, containerLimits.backoffMsMax) ?? Math.max(backoffMs, 60_000),
  };
}

function readPortList(value: unknown, field: string, report: ReportProblem): readonly Record<string, unknown>[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.length > containerLimits.portsMax) {
    report([field], `must be a list of at most ${containerLimits.portsMax}`);
    return [];
  }
  return value.map((port, index) => {
    if (isObject(port)) return port;
    report([field, index], "must be an object");
    return {};
  });
}

const iterationRoots: readonly string[] = ["parameters", "item", "index", "last"];

function readIterationInput(
  port: Record<string, unknown>,
  index: number,
  report: ReportProblem,
): ContainerSettings["inputs"][number][] {
  const at = ["inputs", index] as const;
  const steps = typeof port["from"] === "string" ? parsePathSteps(port["from"]) : "must be a path";
  const [root, ...rest] = typeof steps === "string" ? [""] : steps;
  if (typeof steps === "string") report([...at, "from"], steps);
  else if (!iterationRoots.includes(root ?? "")) report([...at, "from"], `must begin with ${iterationRoots.join(", ")}`);
  const to = parsePathField(port["to"], "parameters", [...at, "to"], report);
  const node = readNodeId(port["node"], [...at, "node"], report);
  if (to === null || node === null || !iterationRoots.includes(root ?? "")) return [];
  return [{ from: { root: root as IterationInput["from"]["root"], steps: rest }, node, to: to.steps }];
}

function readIterationOutput(
  port: Record<string, unknown>,
  index: number,
  report: ReportProblem,
): ContainerSettings["outputs"][number][] {
  const at = ["outputs", index] as const;
  const from = parsePathField(port["from"], null, [...at, "from"], report);
  const to = parsePathField(port["to"], "results", [...at, "to"], report);
  const node = readNodeId(port["node"], [...at, "node"], report);
  return from === null || to === null || node === null ? [] : [{ node, from, to: to.steps }];
}

function parsePathField(
  value: unknown,
  root: "parameters" | "results" | null,
  at: readonly (string | number)[],
  report: ReportProblem,
) {
  const path = typeof value === "string" ? parseBindingPath(value) : "must be a path";
  if (typeof path === "string") report(at, path);
  else if (root !== null && path.root !== root) report(at, `must begin with ${root}`);
  else return path;
  return null;
}

function readNodeId(value: unknown, at: readonly (string | number)[], report: ReportProblem): string | null {
  if (typeof value === "string" && value !== "") return value;
  report(at, "must be the id of a node in the subgraph");
  return null;
}

function readNumberField(
  value: Record<string, unknown>,
  field: string,
  under: readonly string[],
  bounds: { readonly min: number; readonly max: number; readonly isWhole?: boolean },
  report: ReportProblem,
): number | null {
  const found = value[field];
  if (found === undefined || found === null) return null;
  const { min, max, isWhole } = bounds;
  if (typeof found === "number" && found >= min && found <= max && (!isWhole || Number.isInteger(found))) return found;
  report([...under, field], `must be a ${isWhole ? "whole " : ""}number from ${min} to ${max}`);
  return null;
}
