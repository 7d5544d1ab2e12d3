// The authored form of a container, `parameters.__container`, read in one place: what it runs, how often, what enters and leaves.
// Node ids are still ids here; the compiler makes ordinals of them and finds the subgraph.

import type { Middleware, WorkflowNode } from "@astraflow/protocol";
import { type BindingPath, isObject, readPath, readSteps } from "./path.ts";
import type { Condition, ContainerRetry, FrameInput, Loop } from "./plan-types.ts";

/** A node as authored, on its own or around another. */
export type AnyNode = WorkflowNode | Middleware;

export interface ContainerForm {
  readonly subgraph: string;
  readonly loop: Loop | null;
  readonly retry: ContainerRetry | null;
  readonly timeoutMs: number | null;
  readonly inputs: readonly { readonly from: FrameInput["from"]; readonly node: string; readonly to: readonly string[] }[];
  readonly outputs: readonly { readonly node: string; readonly from: BindingPath; readonly to: readonly string[] }[];
}

/** What is wrong with a form: the steps under `parameters.__container`, and a sentence without the node's name. */
export interface FormProblem {
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

export const isContainer = (node: AnyNode): boolean => node.type === "workflow.container" || node.role === "container";

/** Never fails: what cannot be read is named in `problems` and left at its default, so that a checker can go on to the next field. */
export function readContainer(node: AnyNode): { readonly form: ContainerForm; readonly problems: readonly FormProblem[] } {
  const problems: FormProblem[] = [];
  const wrong: Wrong = (at, message) => void problems.push({ at, message });
  const authored = node.parameters?.["__container"];
  const value = isObject(authored) ? authored : {};
  if (authored !== undefined && !isObject(authored)) wrong([], "must be an object");
  const subgraph = value["subgraphId"];
  if (typeof subgraph !== "string" || subgraph === "") wrong(["subgraphId"], "must name a subgraph of the workflow");
  const timeout = numberIn(value, "timeoutSeconds", [], { min: 0.001, max: containerLimits.timeoutSecondsMax }, wrong);
  const form: ContainerForm = {
    subgraph: typeof subgraph === "string" ? subgraph : "",
    loop: readLoop(value["loop"], wrong),
    retry: readRetry(value["retry"], wrong),
    timeoutMs: timeout === null ? null : Math.ceil(timeout * 1_000),
    inputs: readPorts(value["inputs"], "inputs", wrong).flatMap((port, index) => readInput(port, index, wrong)),
    outputs: readPorts(value["outputs"], "outputs", wrong).flatMap((port, index) => readOutput(port, index, wrong)),
  };
  return { form, problems };
}

type Wrong = (at: readonly (string | number)[], message: string) => void;

function readLoop(value: unknown, wrong: Wrong): Loop | null {
  if (value === undefined || value === null) return null;
  if (!isObject(value)) {
    wrong(["loop"], "must be an object");
    return null;
  }
  if (value["enabled"] === false) return null;
  if (value["enabled"] !== undefined && value["enabled"] !== true && value["enabled"] !== null)
    wrong(["loop", "enabled"], "must be true or false");
  const mode = loopMode(value);
  if (mode === null) {
    wrong(["loop", "mode"], "must be forEach, map or while");
    return null;
  }
  const bounds = { min: 1, max: containerLimits.iterationsMax, isWhole: true };
  const iterations = numberIn(value, "maxIterations", ["loop"], bounds, wrong);
  const parallelism = numberIn(value, "parallelism", ["loop"], bounds, wrong);
  return {
    mode,
    items: mode === "while" ? null : readItems(value["items"], wrong),
    maxIterations: iterations ?? (mode === "while" ? containerLimits.whileIterationsDefault : containerLimits.iterationsMax),
    parallelism: mode === "map" ? (parallelism ?? containerLimits.parallelismDefault) : 1,
    condition: mode === "while" ? readEnding(value, wrong) : null,
  };
}

/** A loop that names no mode says by its fields which one is meant. */
function loopMode(value: Record<string, unknown>): Loop["mode"] | null {
  const mode = value["mode"];
  if (mode === "forEach" || mode === "map" || mode === "while") return mode;
  if (mode !== undefined && mode !== null) return null;
  if (value["items"] !== undefined) return "forEach";
  return value["condition"] !== undefined || value["until"] !== undefined ? "while" : null;
}

function readItems(value: unknown, wrong: Wrong): Loop["items"] {
  const at = ["loop", "items"];
  if (Array.isArray(value)) {
    if (value.length > containerLimits.iterationsMax) wrong(at, `must have at most ${containerLimits.iterationsMax} items`);
    return { values: value };
  }
  const path = typeof value === "string" ? readPath(value) : "must be a list or the path of one, such as parameters.items";
  if (typeof path !== "string" && path.root === "parameters") return { path: path.steps };
  wrong(at, typeof path === "string" ? path : `must begin with parameters, for a container only knows its own`);
  return { values: [] };
}

/** `condition` goes on while it holds, `until` stops once it holds; a while loop has one of them. */
function readEnding(value: Record<string, unknown>, wrong: Wrong): Condition | null {
  const { condition, until } = value as { condition?: unknown; until?: unknown };
  if (condition !== undefined && until !== undefined) wrong(["loop", "until"], "cannot stand beside condition; keep one of them");
  if (condition !== undefined) return readCondition(condition, ["loop", "condition"], wrong);
  if (until === undefined) {
    wrong(["loop", "condition"], "is missing; a while loop needs a condition or an until");
    return null;
  }
  const ending = readCondition(until, ["loop", "until"], wrong);
  return ending === null ? null : { ...ending, isNegated: true };
}

const ops: readonly string[] = ["eq", "ne", "lt", "le", "gt", "ge", "truthy", "falsy", "exists", "missing"];

function readCondition(value: unknown, at: readonly string[], wrong: Wrong): Condition | null {
  if (typeof value === "string") {
    const isFalsy = value.startsWith("!");
    const path = outputPath(isFalsy ? value.slice(1) : value, at, wrong);
    return path && { path, op: isFalsy ? "falsy" : "truthy" };
  }
  if (!isObject(value)) {
    wrong(at, "must be a path or {path, op, value}");
    return null;
  }
  const op = value["op"] ?? "truthy";
  if (typeof op !== "string" || !ops.includes(op)) {
    wrong([...at, "op"], `must be one of ${ops.join(", ")}`);
    return null;
  }
  const path = typeof value["path"] === "string" ? outputPath(value["path"], [...at, "path"], wrong) : null;
  if (typeof value["path"] !== "string") wrong([...at, "path"], "must be a path into the outputs of the last iteration");
  return path && { path, op: op as Condition["op"], ...(value["value"] !== undefined && { value: value["value"] }) };
}

/** Outputs are written to `results.x` of the container, so a condition may spell them so; `x` alone and `last.x` mean the same. */
function outputPath(text: string, at: readonly string[], wrong: Wrong): readonly string[] | null {
  const steps = readSteps(text.trim());
  if (typeof steps === "string") {
    wrong(at, steps);
    return null;
  }
  return steps.length > 1 && (steps[0] === "results" || steps[0] === "last") ? steps.slice(1) : steps;
}

function readRetry(value: unknown, wrong: Wrong): ContainerRetry | null {
  if (value === undefined || value === null) return null;
  if (!isObject(value)) {
    wrong(["retry"], "must be an object");
    return null;
  }
  const number = (field: string, min: number, max: number, isWhole = true) =>
    numberIn(value, field, ["retry"], { min, max, isWhole }, wrong);
  const backoffMs = number("backoffMs", 0, containerLimits.backoffMsMax) ?? 1_000;
  return {
    maxAttempts: number("maxAttempts", 1, containerLimits.attemptsMax) ?? 3,
    backoffMs,
    factor: number("factor", 1, 100, false) ?? 2,
    backoffMsMax: number("backoffMsMax", 0, containerLimits.backoffMsMax) ?? Math.max(backoffMs, 60_000),
  };
}

function readPorts(value: unknown, field: string, wrong: Wrong): readonly Record<string, unknown>[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.length > containerLimits.portsMax) {
    wrong([field], `must be a list of at most ${containerLimits.portsMax}`);
    return [];
  }
  return value.map((port, index) => {
    if (isObject(port)) return port;
    wrong([field, index], "must be an object");
    return {};
  });
}

const frameRoots: readonly string[] = ["parameters", "item", "index", "last"];

function readInput(port: Record<string, unknown>, index: number, wrong: Wrong): ContainerForm["inputs"][number][] {
  const at = ["inputs", index] as const;
  const steps = typeof port["from"] === "string" ? readSteps(port["from"]) : "must be a path";
  const [root, ...rest] = typeof steps === "string" ? [""] : steps;
  if (typeof steps === "string") wrong([...at, "from"], steps);
  else if (!frameRoots.includes(root ?? "")) wrong([...at, "from"], `must begin with ${frameRoots.join(", ")}`);
  const to = sidePath(port["to"], "parameters", [...at, "to"], wrong);
  const node = nodeName(port["node"], [...at, "node"], wrong);
  if (to === null || node === null || !frameRoots.includes(root ?? "")) return [];
  return [{ from: { root: root as FrameInput["from"]["root"], steps: rest }, node, to: to.steps }];
}

function readOutput(port: Record<string, unknown>, index: number, wrong: Wrong): ContainerForm["outputs"][number][] {
  const at = ["outputs", index] as const;
  const from = sidePath(port["from"], null, [...at, "from"], wrong);
  const to = sidePath(port["to"], "results", [...at, "to"], wrong);
  const node = nodeName(port["node"], [...at, "node"], wrong);
  return from === null || to === null || node === null ? [] : [{ node, from, to: to.steps }];
}

function sidePath(value: unknown, root: "parameters" | "results" | null, at: readonly (string | number)[], wrong: Wrong) {
  const path = typeof value === "string" ? readPath(value) : "must be a path";
  if (typeof path === "string") wrong(at, path);
  else if (root !== null && path.root !== root) wrong(at, `must begin with ${root}`);
  else return path;
  return null;
}

function nodeName(value: unknown, at: readonly (string | number)[], wrong: Wrong): string | null {
  if (typeof value === "string" && value !== "") return value;
  wrong(at, "must be the id of a node in the subgraph");
  return null;
}

function numberIn(
  value: Record<string, unknown>,
  field: string,
  under: readonly string[],
  bounds: { readonly min: number; readonly max: number; readonly isWhole?: boolean },
  wrong: Wrong,
): number | null {
  const found = value[field];
  if (found === undefined || found === null) return null;
  const { min, max, isWhole } = bounds;
  if (typeof found === "number" && found >= min && found <= max && (!isWhole || Number.isInteger(found))) return found;
  wrong([...under, field], `must be a ${isWhole ? "whole " : ""}number from ${min} to ${max}`);
  return null;
}
