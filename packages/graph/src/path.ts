// Binding paths: where a port reads or writes inside a node. Dotted (`results.page.url`) or a JSON pointer (`/results/page/url`).
// Plain values only; nothing here knows of nodes or runs.

export type Root = "parameters" | "results";

export interface BindingPath {
  readonly root: Root;
  readonly steps: readonly string[];
}

// A path is authored by a user: these names would reach the prototype of every object in the process.
const forbidden = new Set(["__proto__", "constructor", "prototype"]);

export function readPath(text: string): BindingPath | string {
  const parts = text.startsWith("/")
    ? text
        .slice(1)
        .split("/")
        .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    : text.replaceAll(/\[(\d+)\]/g, ".$1").split(".");
  const [root, ...steps] = parts;
  if (root !== "parameters" && root !== "results") return `binding path "${text}" must begin with parameters or results`;
  for (const step of steps) {
    if (step === "") return `binding path "${text}" has an empty step`;
    if (forbidden.has(step)) return `binding path "${text}" names the reserved step "${step}"`;
  }
  return { root, steps };
}

/** The value at a path, or undefined when any step is missing. */
export function valueAt(value: unknown, steps: readonly string[]): unknown {
  let at = value;
  for (const step of steps) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, step)) return undefined;
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
  const base = typeof target === "object" && target !== null && !Array.isArray(target) ? (target as Record<string, unknown>) : {};
  return { ...base, [step]: withValueAt(Object.hasOwn(base, step) ? base[step] : undefined, rest, value) };
}
