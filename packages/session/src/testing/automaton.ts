// A machine seen as an automaton: each state it can be in gets a small number, and each step is taken once, on a copy, and remembered.
// So a search through millions of states of a world runs the real code only a few thousand times.

/** Fields that grow without changing what the machine does next, or that are shared by all copies. */
const ignored: ReadonlySet<string> = new Set(["sends", "tries", "text", "rules", "sizes", "window"]);

export interface Step<R> {
  readonly next: number;
  readonly out: R;
}

export class Automaton<N extends object, R> {
  private readonly nodes: N[] = [];
  private readonly ids = new Map<string, number>();
  private readonly steps = new Map<number, Step<R>>();
  private readonly shared: readonly object[];
  /** Called once with every new state. */
  private readonly look: (id: number, node: N) => void;

  constructor(shared: readonly object[], look: (id: number, node: N) => void) {
    this.shared = shared;
    this.look = look;
  }

  get size(): number {
    return this.nodes.length;
  }

  at(id: number): N {
    const node = this.nodes[id];
    if (node === undefined) throw new Error(`no state ${id}`);
    return node;
  }

  intern(node: N): number {
    const print = JSON.stringify(node, writeCanonically);
    const known = this.ids.get(print);
    if (known !== undefined) return known;
    const id = this.nodes.push(node) - 1;
    this.ids.set(print, id);
    this.look(id, node);
    return id;
  }

  /** What `act` does to a state. `input` tells the acts apart and is below 1024. */
  step(id: number, input: number, act: (node: N) => R): Step<R> {
    const key = id * 1_024 + input;
    const known = this.steps.get(key);
    if (known !== undefined) return known;
    const copy = cloneDeep(this.at(id), new Map(this.shared.map((one) => [one, one])));
    const out = act(copy);
    const step = { next: this.intern(copy), out };
    this.steps.set(key, step);
    return step;
  }
}

/** A copy of everything below a value, prototypes and shared references included. */
function cloneDeep<T>(value: T, seen: Map<object, unknown>): T {
  if (typeof value !== "object" || value === null) return value;
  if (seen.has(value)) return seen.get(value) as T;
  if (value instanceof Map) {
    const copy = new Map<unknown, unknown>();
    seen.set(value, copy);
    for (const [key, one] of value) copy.set(cloneDeep(key, seen), cloneDeep(one, seen));
    return copy as T;
  }
  if (value instanceof Set) {
    const copy = new Set<unknown>();
    seen.set(value, copy);
    for (const one of value) copy.add(cloneDeep(one, seen));
    return copy as T;
  }
  const copy = (Array.isArray(value) ? [] : Object.create(Object.getPrototypeOf(value) as object | null)) as T & object;
  seen.set(value, copy);
  for (const [key, one] of Object.entries(value)) Object.assign(copy, { [key]: cloneDeep(one as unknown, seen) });
  return copy;
}

/** Maps and sets in the order of their keys: in which order they were filled makes no difference to the machines here. */
function writeCanonically(key: string, value: unknown): unknown {
  if (ignored.has(key)) return undefined;
  if (value instanceof Map) return [...(value as Map<number, unknown>)].toSorted(([a], [b]) => a - b);
  if (value instanceof Set) return [...(value as Set<number>)].toSorted((a, b) => a - b);
  return value;
}
