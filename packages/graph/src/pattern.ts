// Patterns of a JSON Schema, matched in time that grows with text times pattern, whatever the pattern: authors are strangers, and the
// language's own matcher takes years over `(a+)+$`. No captures, no backreferences, no looking around; those are called unsupported.

export interface Pattern {
  /** Places of the program: what one character costs at most. */
  readonly size: number;
  test(text: string): boolean;
}

/** Why a pattern is not used. */
export type PatternDefect = "invalid" | "unsupported" | "too large";

const patternLimits = { charsMax: 1_024, depthMax: 64, placesMax: 5_000 } as const;

type Tree =
  | { readonly type: "one"; readonly test: (char: string) => boolean }
  | { readonly type: "edge"; readonly kind: "start" | "end" | "word" | "inside" }
  | { readonly type: "all" | "any"; readonly parts: readonly Tree[] }
  | { readonly type: "repeat"; readonly part: Tree; readonly min: number; readonly max: number };

type Place =
  | { readonly op: "one"; readonly test: (char: string) => boolean }
  | { readonly op: "edge"; readonly kind: "start" | "end" | "word" | "inside" }
  | { readonly op: "fork"; readonly to: number[] }
  | { readonly op: "found" };

export function readPattern(source: string): Pattern | PatternDefect {
  if (source.length > patternLimits.charsMax) return "too large";
  const native = nativeOf(source);
  if (native === null) return "invalid";
  const tree = new Reader(source, native.unicode ? "u" : "").read();
  if (typeof tree === "string") return tree;
  const tail = oneRepeat(tree);
  if (tail !== null) return tail > patternLimits.placesMax ? "too large" : { size: tail, test: (text) => native.test(text) };
  const places: Place[] = [];
  if (!lay(tree, places)) return "too large";
  places.push({ op: "found" });
  return { size: places.length, test: (text) => matches(places, native.unicode ? [...text] : text.split("")) };
}

/** Older spellings are valid without the flag; what is valid in neither way is no pattern. */
const nativeOf = (source: string): RegExp | null => compiled(source, "u") ?? compiled(source, "");

function compiled(source: string, flags: string): RegExp | null {
  try {
    return new RegExp(source, flags);
  } catch {
    return null; // the only way to ask whether it is one
  }
}

/**
 * From the start, single characters of which at most one repeats freely: the language's own matcher tries the rest at most once per
 * character. Returns how long that rest is; null: the pattern is of another kind.
 */
function oneRepeat(tree: Tree): number | null {
  if (tree.type !== "all") return null;
  const [first, ...rest] = tree.parts;
  if (first?.type !== "edge" || first.kind !== "start") return null;
  const isFlat = rest.every(
    (part) => part.type === "one" || part.type === "edge" || (part.type === "repeat" && part.part.type === "one"),
  );
  const free = rest.filter((part) => part.type === "repeat" && part.min !== part.max);
  if (!isFlat || free.length > 1) return null;
  return rest.reduce((sum, part) => sum + (part.type === "repeat" ? part.min : 1), 1);
}

class Unsupported extends Error {}

class Reader {
  readonly #chars: readonly string[];
  readonly #flags: string;
  #at = 0;
  #depth = 0;

  constructor(source: string, flags: string) {
    this.#chars = flags === "u" ? [...source] : source.split("");
    this.#flags = flags;
  }

  read(): Tree | PatternDefect {
    try {
      const tree = this.#any();
      return this.#at < this.#chars.length ? "invalid" : tree;
    } catch (error) {
      if (error instanceof Unsupported) return "unsupported";
      throw error;
    }
  }

  #any(): Tree {
    this.#depth += 1;
    if (this.#depth > patternLimits.depthMax) throw new Unsupported();
    const parts = [this.#all()];
    while (this.#take("|")) parts.push(this.#all());
    this.#depth -= 1;
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : { type: "any", parts };
  }

  #all(): Tree {
    const parts: Tree[] = [];
    while (this.#at < this.#chars.length && this.#peek() !== "|" && this.#peek() !== ")") parts.push(this.#repeated());
    return { type: "all", parts };
  }

  #repeated(): Tree {
    const part = this.#atom();
    const bounds = this.#bounds();
    if (bounds === null) return part;
    this.#take("?"); // lazy or greedy finds the same
    return { type: "repeat", part, ...bounds };
  }

  #bounds(): { min: number; max: number } | null {
    if (this.#take("*")) return { min: 0, max: Infinity };
    if (this.#take("+")) return { min: 1, max: Infinity };
    if (this.#take("?")) return { min: 0, max: 1 };
    const counted = /^\{(\d+)(,?)(\d*)\}/.exec(this.#chars.slice(this.#at, this.#at + 24).join(""));
    if (counted === null) return null;
    this.#at += counted[0].length;
    const min = Number(counted[1]);
    const max = counted[3] === "" ? Infinity : Number(counted[3]);
    return { min, max: counted[2] === "" ? min : max };
  }

  #atom(): Tree {
    const char = this.#next();
    if (char === "^") return { type: "edge", kind: "start" };
    if (char === "$") return { type: "edge", kind: "end" };
    if (char === "(") return this.#group();
    if (char === "[") return this.#one(`[${this.#untilClosed()}`);
    if (char === ".") return this.#one(".");
    if (char === "\\") return this.#escape();
    return { type: "one", test: (other) => other === char };
  }

  #group(): Tree {
    if (this.#take("?") && !this.#take(":")) {
      if (!this.#take("<") || this.#peek() === "=" || this.#peek() === "!") throw new Unsupported();
      while (this.#at < this.#chars.length && this.#next() !== ">"); // the group's name
    }
    const inner = this.#any();
    if (!this.#take(")")) throw new Unsupported();
    return inner;
  }

  #untilClosed(): string {
    const start = this.#at;
    for (let char = this.#next(); char !== "]"; char = this.#next()) {
      if (char === undefined) throw new Unsupported();
      if (char === "\\") this.#next();
    }
    return this.#chars.slice(start, this.#at).join("");
  }

  #escape(): Tree {
    const char = this.#next() ?? "";
    if (char === "b") return { type: "edge", kind: "word" };
    if (char === "B") return { type: "edge", kind: "inside" };
    if (/[1-9k]/.test(char)) throw new Unsupported();
    if (char === "u" && this.#peek() === "{" && this.#flags === "u") return this.#one(`\\u${this.#braced()}`);
    if (/[pP]/.test(char) && this.#flags === "u") return this.#one(`\\${char}${this.#braced()}`);
    const length = { u: 4, x: 2, c: 1 }[char] ?? 0;
    const rest = this.#chars.slice(this.#at, this.#at + length).join("");
    // Half of a pair, or an unfinished code: rare enough to leave aside.
    if ((char === "u" && !/^[0-9a-cA-Ce-fE-F]/.test(rest) && /^[dD][89a-fA-F]/.test(rest)) || rest.length < length)
      throw new Unsupported();
    this.#at += length;
    return this.#one(`\\${char}${rest}`);
  }

  #braced(): string {
    const start = this.#at;
    for (let char = this.#next(); char !== "}"; char = this.#next()) if (char === undefined) throw new Unsupported();
    return this.#chars.slice(start, this.#at).join("");
  }

  /** One character, judged by the language itself: a text of one character cannot be looked back over. */
  #one(source: string): Tree {
    const expression = new RegExp(`^(?:${source})$`, this.#flags);
    const known = new Map<string, boolean>();
    const test = (char: string): boolean => {
      const found = known.get(char) ?? expression.test(char);
      if (known.size < 256) known.set(char, found);
      return found;
    };
    return { type: "one", test };
  }

  #peek(): string | undefined {
    return this.#chars[this.#at];
  }

  #next(): string | undefined {
    const char = this.#chars[this.#at];
    this.#at += 1;
    return char;
  }

  #take(char: string): boolean {
    if (this.#peek() !== char) return false;
    this.#at += 1;
    return true;
  }
}

/** Lays a tree out as places; each leads to the next, a fork to several. False: it does not fit. */
function lay(tree: Tree, places: Place[]): boolean {
  if (places.length > patternLimits.placesMax) return false;
  switch (tree.type) {
    case "one":
      places.push({ op: "one", test: tree.test });
      return true;
    case "edge":
      places.push({ op: "edge", kind: tree.kind });
      return true;
    case "all":
      return tree.parts.every((part) => lay(part, places));
    case "any": {
      const fork: Place = { op: "fork", to: [] };
      const ends: { to: number[] }[] = [];
      places.push(fork);
      for (const part of tree.parts) {
        fork.to.push(places.length);
        if (!lay(part, places)) return false;
        const end = { op: "fork" as const, to: [] as number[] };
        ends.push(end);
        places.push(end);
      }
      for (const end of ends) end.to.push(places.length);
      return true;
    }
    case "repeat":
      return layRepeat(tree, places);
  }
}

function layRepeat(tree: Extract<Tree, { type: "repeat" }>, places: Place[]): boolean {
  for (let count = 0; count < tree.min; count += 1) if (!lay(tree.part, places)) return false;
  if (tree.max === Infinity) {
    const fork: Place = { op: "fork", to: [places.length + 1] };
    const start = places.length;
    places.push(fork);
    if (!lay(tree.part, places)) return false;
    places.push({ op: "fork", to: [start] });
    fork.to.push(places.length);
    return true;
  }
  const skips: { to: number[] }[] = [];
  for (let count = tree.min; count < tree.max; count += 1) {
    const skip = { op: "fork" as const, to: [places.length + 1] };
    skips.push(skip);
    places.push(skip);
    if (!lay(tree.part, places)) return false;
  }
  for (const skip of skips) skip.to.push(places.length);
  return true;
}

/** All places at once, one character after the other; a match may begin anywhere. */
function matches(places: readonly Place[], chars: readonly string[]): boolean {
  let current: number[] = [];
  const seen = new Int32Array(places.length).fill(-1);
  for (let at = 0; at <= chars.length; at += 1) {
    const open = [0, ...current];
    const here: number[] = [];
    for (let place = open.pop(); place !== undefined; place = open.pop()) {
      if (seen[place] === at) continue;
      seen[place] = at;
      const what = places[place];
      if (what?.op === "found") return true;
      if (what?.op === "fork") open.push(...what.to);
      else if (what?.op === "edge") {
        if (isAtEdge(what.kind, chars, at)) open.push(place + 1);
      } else here.push(place);
    }
    const char = chars[at];
    if (char === undefined) return false;
    current = here.filter((place) => (places[place] as { test: (char: string) => boolean }).test(char)).map((place) => place + 1);
  }
  return false;
}

function isAtEdge(kind: "start" | "end" | "word" | "inside", chars: readonly string[], at: number): boolean {
  if (kind === "start") return at === 0;
  if (kind === "end") return at === chars.length;
  const isWord = (char: string | undefined) => char !== undefined && /^\w$/.test(char);
  return (isWord(chars[at - 1]) !== isWord(chars[at])) === (kind === "word");
}
