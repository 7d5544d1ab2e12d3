// Binding paths: where a port reads or writes inside a node. Dotted (`results.page.url`) or a JSON pointer (`/results/page/url`).

export type PathRoot = "parameters" | "results";

export interface BindingPath {
  readonly root: PathRoot;
  readonly steps: readonly string[];
}

// A path is authored by a user: these names would reach the prototype of every object in the process.
const forbiddenSteps = new Set(["__proto__", "constructor", "prototype"]);

/** The steps of a path, root included; or what is wrong with it. */
export function parsePathSteps(text: string): readonly string[] | string {
  const steps = text.startsWith("/") ? parseJsonPointer(text) : text.replaceAll(/\[(\d+)\]/g, ".$1").split(".");
  for (const step of steps) {
    if (step === "") return `path "${text}" has an empty step`;
    if (forbiddenSteps.has(step)) return `path "${text}" names the reserved step "${step}"`;
  }
  return steps;
}

export function parseBindingPath(text: string): BindingPath | string {
  const all = parsePathSteps(text);
  const first = typeof all === "string" ? text.split(/[./[]/).find((part) => part !== "") : all[0];
  if (first !== "parameters" && first !== "results") return `binding path "${text}" must begin with parameters or results`;
  if (typeof all === "string") return `binding ${all}`;
  return { root: first, steps: all.slice(1) };
}

/** Where something is inside a JSON value. */
export type JsonPath = readonly (string | number)[];

/** A problem, and where it is: a sentence that leaves out what the reader knows by the path. */
export interface LocatedProblem {
  readonly at: JsonPath;
  readonly message: string;
}

/** The steps of a JSON pointer; none for the empty one. */
export const parseJsonPointer = (pointer: string): string[] =>
  pointer
    .split("/")
    .slice(1)
    .map((step) => (step.includes("~") ? step.replaceAll("~1", "/").replaceAll("~0", "~") : step));

export const toJsonPointer = (steps: JsonPath): string => {
  let pointer = "";
  for (const step of steps) {
    const text = String(step);
    pointer += `/${/[~/]/.test(text) ? text.replaceAll("~", "~0").replaceAll("/", "~1") : text}`;
  }
  return pointer;
};

/** The value at a path, or undefined when any step is missing. A step `*` into a list reads the rest of every item; one that has it not counts as null. */
export function valueAt(value: unknown, steps: readonly string[]): unknown {
  let at = value;
  for (const [index, step] of steps.entries()) {
    if (typeof at !== "object" || at === null) return undefined;
    if (Array.isArray(at)) {
      if (step === "*") return at.map((item) => valueAt(item, steps.slice(index + 1)) ?? null);
      if (!/^\d+$/.test(step)) return undefined;
    }
    if (!Object.hasOwn(at, step)) return undefined;
    at = (at as Record<string, unknown>)[step];
  }
  return at;
}

/** A copy of `target` with `value` at the path; objects on the way are made, other values in the way are replaced. */
export function withValueAt(target: unknown, steps: readonly string[], value: unknown): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return value;
  if (Array.isArray(target) && /^\d+$/.test(step) && Number(step) <= target.length) {
    const copy = target.slice();
    copy[Number(step)] = withValueAt(copy[Number(step)], rest, value);
    return copy;
  }
  const base = isObject(target) ? target : {};
  return { ...base, [step]: withValueAt(Object.hasOwn(base, step) ? base[step] : undefined, rest, value) };
}

/** A JSON object: neither a list nor null. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
