// A machine seen as an automaton: each state it can be in gets a small number, and each step is taken once, on a copy, and remembered.
// So a search through millions of states of a world runs the real code only a few thousand times.

/** Fields that grow without changing what the machine does next, or that are shared by all copies. */
const ignoredFields: ReadonlySet<string> = new Set(["sends", "tries", "text", "rules", "sizes", "window"]);

export interface MemoizedStep<R> {
  readonly next: number;
  readonly out: R;
}

export class MemoizedStateMachine<N extends object, R> {
  private readonly states: N[] = [];
  private readonly ids = new Map<string, number>();
  private readonly steps = new Map<number, MemoizedStep<R>>();
  private readonly shared: readonly object[];
  /** Called once with every new state. */
  private readonly onNewState: (id: number, node: N) => void;

  constructor(shared: readonly object[], look: (id: number, node: N) => void) {
    this.shared = shared;
    this.onNewState = look;
  }

  get size(): number {
    return this.states.length;
  }

  at(id: number): N {
    const node = this.states[id];
    if (node === undefined) throw new Error(`no state ${id}`);
    return node;
  }

  internState(node: N): number {
    const print = JSON.stringify(node, canonicalJson);
    const known = this.ids.get(print);
    if (known !== undefined) return known;
    const id = this.states.push(node) - 1;
    this.ids.set(print, id);
    this.onNewState(id, node);
    return id;
  }

  /** What `act` does to a state. `input` identifies the act and is below 1024. */
  step(id: number, input: number, act: (node: N) => R): MemoizedStep<R> {
    const key = id * 1_024 + input;
    const known = this.steps.get(key);
    if (known !== undefined) return known;
    const copy = cloneDeep(this.at(id), new Map(this.shared.map((one) => [one, one])));
    const out = act(copy);
    const step = { next: this.internState(copy), out };
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
function canonicalJson(key: string, value: unknown): unknown {
  if (ignoredFields.has(key)) return undefined;
  if (value instanceof Map) return [...(value as Map<number, unknown>)].toSorted(([a], [b]) => a - b);
  if (value instanceof Set) return [...(value as Set<number>)].toSorted((a, b) => a - b);
  return value;
}
