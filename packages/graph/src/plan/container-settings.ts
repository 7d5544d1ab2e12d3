// Reads the settings of a container, `parameters.__container`. Nodes are ids here; the compiler replaces them with ordinals.

import type { Middleware, WorkflowNode } from "@astraflow/protocol";
import {
  type BindingPath,
  isObject,
  type JsonPath,
  type LocatedProblem,
  parseBindingPath,
  parsePathSteps,
} from "../values/binding-path.ts";
import type {
  ContainerLoop,
  ContainerPlan,
  ContainerRetry,
  IterationInput,
  IterationOutput,
  LoopCondition,
} from "./plan-types.ts";

/** An authored node or middleware. */
export type AuthoredNode = WorkflowNode | Middleware;

type WithNodeId<Port> = Omit<Port, "node"> & { readonly node: string };

export interface ContainerSettings extends Pick<ContainerPlan, "subgraph" | "loop" | "retry" | "timeoutMs"> {
  readonly inputs: readonly WithNodeId<IterationInput>[];
  readonly outputs: readonly WithNodeId<IterationOutput>[];
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

/** Never fails: an invalid field is reported, by its path under `parameters.__container`, and gets its default. */
export function readContainerSettings(node: AuthoredNode): { settings: ContainerSettings; problems: LocatedProblem[] } {
  const reader = new ContainerReader();
  return { settings: reader.read(node.parameters?.["__container"]), problems: reader.problems };
}

type Fields = Readonly<Record<string, unknown>>;

const conditionOps: readonly string[] = ["eq", "ne", "lt", "le", "gt", "ge", "truthy", "falsy", "exists", "missing"];
const iterationRoots: readonly string[] = ["parameters", "item", "index", "last"];

class ContainerReader {
  readonly problems: LocatedProblem[] = [];

  read(authored: unknown): ContainerSettings {
    const value = isObject(authored) ? authored : {};
    if (authored !== undefined && !isObject(authored)) this.#report([], "must be an object");
    const subgraph = value["subgraphId"];
    if (typeof subgraph !== "string" || subgraph === "") this.#report(["subgraphId"], "must name a subgraph of the workflow");
    const timeout = this.#readNumber(value, ["timeoutSeconds"], { min: 0.001, max: containerLimits.timeoutSecondsMax });
    return {
      subgraph: typeof subgraph === "string" ? subgraph : "",
      loop: this.#readLoop(value["loop"]),
      retry: this.#readRetry(value["retry"]),
      timeoutMs: timeout === null ? null : Math.ceil(timeout * 1_000),
      inputs: this.#readPortList(value["inputs"], "inputs").flatMap((port, index) => this.#readInput(port, index)),
      outputs: this.#readPortList(value["outputs"], "outputs").flatMap((port, index) => this.#readOutput(port, index)),
    };
  }

  #report(at: JsonPath, message: string): null {
    this.problems.push({ at, message });
    return null;
  }

  #readLoop(value: unknown): ContainerLoop | null {
    if (value === undefined || value === null) return null;
    if (!isObject(value)) return this.#report(["loop"], "must be an object");
    if (value["enabled"] === false) return null;
    if (value["enabled"] !== undefined && value["enabled"] !== true && value["enabled"] !== null)
      this.#report(["loop", "enabled"], "must be true or false");
    const mode = loopMode(value);
    if (mode === null) return this.#report(["loop", "mode"], "must be forEach, map or while");
    const bounds = { min: 1, max: containerLimits.iterationsMax, isWhole: true };
    const iterations = this.#readNumber(value, ["loop", "maxIterations"], bounds);
    const parallelism = this.#readNumber(value, ["loop", "parallelism"], bounds);
    return {
      mode,
      items: mode === "while" ? null : this.#readLoopItems(value["items"]),
      maxIterations: iterations ?? (mode === "while" ? containerLimits.whileIterationsDefault : containerLimits.iterationsMax),
      parallelism: mode === "map" ? (parallelism ?? containerLimits.parallelismDefault) : 1,
      condition: mode === "while" ? this.#readLoopCondition(value) : null,
    };
  }

  #readLoopItems(value: unknown): ContainerLoop["items"] {
    const at = ["loop", "items"];
    if (Array.isArray(value)) {
      if (value.length > containerLimits.iterationsMax)
        this.#report(at, `must have at most ${containerLimits.iterationsMax} items`);
      return { values: value };
    }
    const path =
      typeof value === "string" ? parseBindingPath(value) : "must be a list or the path of one, such as parameters.items";
    if (typeof path !== "string" && path.root === "parameters") return { path: path.steps };
    this.#report(at, typeof path === "string" ? path : "must begin with parameters, for a container only knows its own");
    return { values: [] };
  }

  /** The loop continues while `condition` holds, or stops once `until` holds; a while loop has one of them. */
  #readLoopCondition({ condition, until }: { readonly condition?: unknown; readonly until?: unknown }): LoopCondition | null {
    if (condition !== undefined && until !== undefined)
      this.#report(["loop", "until"], "cannot be combined with condition; keep one of them");
    if (condition !== undefined) return this.#readCondition(condition, ["loop", "condition"]);
    if (until === undefined) return this.#report(["loop", "condition"], "is missing; a while loop needs a condition or an until");
    const stopCondition = this.#readCondition(until, ["loop", "until"]);
    return stopCondition && { ...stopCondition, isNegated: true };
  }

  #readCondition(value: unknown, at: readonly string[]): LoopCondition | null {
    if (typeof value === "string") {
      const isFalsy = value.startsWith("!");
      const path = this.#parseOutputPath(isFalsy ? value.slice(1) : value, at);
      return path && { path, op: isFalsy ? "falsy" : "truthy" };
    }
    if (!isObject(value)) return this.#report(at, "must be a path or {path, op, value}");
    const op = value["op"] ?? "truthy";
    if (typeof op !== "string" || !conditionOps.includes(op))
      return this.#report([...at, "op"], `must be one of ${conditionOps.join(", ")}`);
    if (typeof value["path"] !== "string")
      return this.#report([...at, "path"], "must be a path into the outputs of the last iteration");
    const path = this.#parseOutputPath(value["path"], [...at, "path"]);
    return path && { path, op: op as LoopCondition["op"], ...(value["value"] !== undefined && { value: value["value"] }) };
  }

  /** Outputs are written to `results.x` of the container, so a condition may use that path; `x` alone and `last.x` mean the same. */
  #parseOutputPath(text: string, at: JsonPath): readonly string[] | null {
    const steps = parsePathSteps(text.trim());
    if (typeof steps === "string") return this.#report(at, steps);
    return steps.length > 1 && (steps[0] === "results" || steps[0] === "last") ? steps.slice(1) : steps;
  }

  #readRetry(value: unknown): ContainerRetry | null {
    if (value === undefined || value === null) return null;
    if (!isObject(value)) return this.#report(["retry"], "must be an object");
    const number = (field: string, min: number, max: number, isWhole = true) =>
      this.#readNumber(value, ["retry", field], { min, max, isWhole });
    const backoffMs = number("backoffMs", 0, containerLimits.backoffMsMax) ?? 1_000;
    return {
      maxAttempts: number("maxAttempts", 1, containerLimits.attemptsMax) ?? 3,
      backoffMs,
      factor: number("factor", 1, 100, false) ?? 2,
      backoffMsMax: number("backoffMsMax", 0, containerLimits.backoffMsMax) ?? Math.max(backoffMs, 60_000),
    };
  }

  #readPortList(value: unknown, field: string): readonly Fields[] {
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value) || value.length > containerLimits.portsMax)
      return this.#report([field], `must be a list of at most ${containerLimits.portsMax}`) ?? [];
    return value.map((port, index) => (isObject(port) ? port : (this.#report([field, index], "must be an object") ?? {})));
  }

  #readInput(port: Fields, index: number): ContainerSettings["inputs"][number][] {
    const at = ["inputs", index] as const;
    const steps = typeof port["from"] === "string" ? parsePathSteps(port["from"]) : "must be a path";
    const [root = "", ...rest] = typeof steps === "string" ? [] : steps;
    if (typeof steps === "string") this.#report([...at, "from"], steps);
    else if (!iterationRoots.includes(root)) this.#report([...at, "from"], `must begin with ${iterationRoots.join(", ")}`);
    const to = this.#readPath(port["to"], "parameters", [...at, "to"]);
    const node = this.#readNodeId(port["node"], [...at, "node"]);
    if (to === null || node === null || !iterationRoots.includes(root)) return [];
    return [{ from: { root: root as IterationInput["from"]["root"], steps: rest }, node, to: to.steps }];
  }

  #readOutput(port: Fields, index: number): ContainerSettings["outputs"][number][] {
    const at = ["outputs", index] as const;
    const from = this.#readPath(port["from"], null, [...at, "from"]);
    const to = this.#readPath(port["to"], "results", [...at, "to"]);
    const node = this.#readNodeId(port["node"], [...at, "node"]);
    return from === null || to === null || node === null ? [] : [{ node, from, to: to.steps }];
  }

  #readPath(value: unknown, root: BindingPath["root"] | null, at: JsonPath): BindingPath | null {
    const path = typeof value === "string" ? parseBindingPath(value) : "must be a path";
    if (typeof path === "string") return this.#report(at, path);
    return root === null || path.root === root ? path : this.#report(at, `must begin with ${root}`);
  }

  #readNodeId(value: unknown, at: JsonPath): string | null {
    return typeof value === "string" && value !== "" ? value : this.#report(at, "must be the id of a node in the subgraph");
  }

  /** The field named by the last step of `at`. */
  #readNumber(fields: Fields, at: readonly string[], bounds: { min: number; max: number; isWhole?: boolean }): number | null {
    const found = fields[at.at(-1) ?? ""];
    if (found === undefined || found === null) return null;
    const { min, max, isWhole } = bounds;
    if (typeof found === "number" && found >= min && found <= max && (!isWhole || Number.isInteger(found))) return found;
    return this.#report(at, `must be a ${isWhole ? "whole " : ""}number from ${min} to ${max}`);
  }
}

/** A loop without a mode is recognised by its fields. */
function loopMode(value: Fields): ContainerLoop["mode"] | null {
  const mode = value["mode"];
  if (mode === "forEach" || mode === "map" || mode === "while") return mode;
  if (mode !== undefined && mode !== null) return null;
  if (value["items"] !== undefined) return "forEach";
  return value["condition"] !== undefined || value["until"] !== undefined ? "while" : null;
}
