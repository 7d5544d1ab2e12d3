// Matches the patterns of JSON Schemas in time proportional to text times pattern. Patterns come from other people, and the built-in
// RegExp takes years for `(a+)+$`. No captures, backreferences or lookaround; those are unsupported.

export interface LinearPattern {
  /** Instructions of the program: the highest cost of one character. */
  readonly size: number;
  test(text: string): boolean;
}

/** Why a pattern is not used. */
export type PatternDefect = "invalid" | "unsupported" | "too large";

const patternLimits = { charsMax: 1_024, depthMax: 64, instructionsMax: 5_000 } as const;

type BoundaryKind = "start" | "end" | "word" | "inside";

/** One character, or a place between two. */
type PatternAtom =
  | { readonly type: "one"; readonly test: (char: string) => boolean }
  | { readonly type: "edge"; readonly kind: BoundaryKind };

type PatternNode =
  | PatternAtom
  | { readonly type: "all" | "any"; readonly parts: readonly PatternNode[] }
  | { readonly type: "repeat"; readonly part: PatternNode; readonly min: number; readonly max: number };

/** Each continues with the next one, a fork with several. */
type Instruction = PatternAtom | { readonly type: "fork"; readonly to: number[] } | { readonly type: "found" };

export function compilePattern(source: string): LinearPattern | PatternDefect {
  if (source.length > patternLimits.charsMax) return "too large";
  const native = compileNative(source);
  if (native === null) return "invalid";
  const tree = new PatternParser(source, native.unicode ? "u" : "").parse();
  if (typeof tree === "string") return tree;
  const tail = singleRepeatLength(tree);
  if (tail !== null)
    return tail > patternLimits.instructionsMax ? "too large" : { size: tail, test: (text) => native.test(text) };
  const program: Instruction[] = [];
  if (!emit(tree, program)) return "too large";
  program.push({ type: "found" });
  return { size: program.length, test: (text) => runProgram(program, native.unicode ? [...text] : text.split("")) };
}

/** Older syntax is valid only without the flag; what is valid in neither way is invalid. */
const compileNative = (source: string): RegExp | null => tryCompile(source, "u") ?? tryCompile(source, "");

function tryCompile(source: string, flags: string): RegExp | null {
  try {
    return new RegExp(source, flags);
  } catch {
    return null; // there is no other way to test validity
  }
}

/**
 * For an anchored sequence of single characters of which at most one repeats freely: the built-in RegExp tries the rest at most once per
 * character. Returns the length of that rest; null: the pattern has another form.
 */
function singleRepeatLength(tree: PatternNode): number | null {
  if (tree.type !== "all") return null;
  const [first, ...rest] = tree.parts;
  if (first?.type !== "edge" || first.kind !== "start") return null;
  const isFlat = rest.every(
    (part) => part.type === "one" || part.type === "edge" || (part.type === "repeat" && part.part.type === "one"),
  );
  const unbounded = rest.filter((part) => part.type === "repeat" && part.min !== part.max);
  if (!isFlat || unbounded.length > 1) return null;
  return rest.reduce((sum, part) => sum + (part.type === "repeat" ? part.min : 1), 1);
}

class UnsupportedSyntax extends Error {}

class PatternParser {
  readonly #chars: readonly string[];
  readonly #flags: string;
  #position = 0;
  #depth = 0;

  constructor(source: string, flags: string) {
    this.#chars = flags === "u" ? [...source] : source.split("");
    this.#flags = flags;
  }

  parse(): PatternNode | PatternDefect {
    try {
      const tree = this.#parseAlternation();
      return this.#position < this.#chars.length ? "invalid" : tree;
    } catch (error) {
      if (error instanceof UnsupportedSyntax) return "unsupported";
      throw error;
    }
  }

  #parseAlternation(): PatternNode {
    this.#depth += 1;
    if (this.#depth > patternLimits.depthMax) throw new UnsupportedSyntax();
    const parts = [this.#parseSequence()];
    while (this.#consume("|")) parts.push(this.#parseSequence());
    this.#depth -= 1;
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : { type: "any", parts };
  }

  #parseSequence(): PatternNode {
    const parts: PatternNode[] = [];
    while (this.#position < this.#chars.length && this.#peek() !== "|" && this.#peek() !== ")")
      parts.push(this.#parseRepetition());
    return { type: "all", parts };
  }

  #parseRepetition(): PatternNode {
    const part = this.#parseAtom();
    const bounds = this.#parseQuantifier();
    if (bounds === null) return part;
    this.#consume("?"); // lazy or greedy finds the same
    return { type: "repeat", part, ...bounds };
  }

  #parseQuantifier(): { min: number; max: number } | null {
    if (this.#consume("*")) return { min: 0, max: Infinity };
    if (this.#consume("+")) return { min: 1, max: Infinity };
    if (this.#consume("?")) return { min: 0, max: 1 };
    const counted = /^\{(\d+)(,?)(\d*)\}/.exec(this.#chars.slice(this.#position, this.#position + 24).join(""));
    if (counted === null) return null;
    this.#position += counted[0].length;
    const min = Number(counted[1]);
    const max = counted[3] === "" ? Infinity : Number(counted[3]);
    return { min, max: counted[2] === "" ? min : max };
  }

  #parseAtom(): PatternNode {
    const char = this.#next();
    if (char === "^") return { type: "edge", kind: "start" };
    if (char === "$") return { type: "edge", kind: "end" };
    if (char === "(") return this.#parseGroup();
    if (char === "[") return this.#characterTest(`[${this.#readCharacterClass()}`);
    if (char === ".") return this.#characterTest(".");
    if (char === "\\") return this.#parseEscape();
    return { type: "one", test: (other) => other === char };
  }

  #parseGroup(): PatternNode {
    if (this.#consume("?") && !this.#consume(":")) {
      if (!this.#consume("<") || this.#peek() === "=" || this.#peek() === "!") throw new UnsupportedSyntax();
      while (this.#position < this.#chars.length && this.#next() !== ">"); // the group's name
    }
    const inner = this.#parseAlternation();
    if (!this.#consume(")")) throw new UnsupportedSyntax();
    return inner;
  }

  #readCharacterClass(): string {
    const start = this.#position;
    for (let char = this.#next(); char !== "]"; char = this.#next()) {
      if (char === undefined) throw new UnsupportedSyntax();
      if (char === "\\") this.#next();
    }
    return this.#chars.slice(start, this.#position).join("");
  }

  #parseEscape(): PatternNode {
    const char = this.#next() ?? "";
    if (char === "b") return { type: "edge", kind: "word" };
    if (char === "B") return { type: "edge", kind: "inside" };
    if (/[1-9k]/.test(char)) throw new UnsupportedSyntax();
    if (char === "u" && this.#peek() === "{" && this.#flags === "u") return this.#characterTest(`\\u${this.#readBraced()}`);
    if (/[pP]/.test(char) && this.#flags === "u") return this.#characterTest(`\\${char}${this.#readBraced()}`);
    const length = { u: 4, x: 2, c: 1 }[char] ?? 0;
    const rest = this.#chars.slice(this.#position, this.#position + length).join("");
    // Half of a pair, or an unfinished code: rare enough to leave aside.
    if ((char === "u" && !/^[0-9a-cA-Ce-fE-F]/.test(rest) && /^[dD][89a-fA-F]/.test(rest)) || rest.length < length)
      throw new UnsupportedSyntax();
    this.#position += length;
    return this.#characterTest(`\\${char}${rest}`);
  }

  #readBraced(): string {
    const start = this.#position;
    for (let char = this.#next(); char !== "}"; char = this.#next()) if (char === undefined) throw new UnsupportedSyntax();
    return this.#chars.slice(start, this.#position).join("");
  }

  /** One character, tested by the built-in RegExp: it cannot backtrack over a single character. */
  #characterTest(source: string): PatternNode {
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
    return this.#chars[this.#position];
  }

  #next(): string | undefined {
    const char = this.#chars[this.#position];
    this.#position += 1;
    return char;
  }

  #consume(char: string): boolean {
    if (this.#peek() !== char) return false;
    this.#position += 1;
    return true;
  }
}

/** Compiles a tree to instructions. False: too many. */
function emit(tree: PatternNode, program: Instruction[]): boolean {
  if (program.length > patternLimits.instructionsMax) return false;
  switch (tree.type) {
    case "one":
    case "edge":
      program.push(tree);
      return true;
    case "all":
      return tree.parts.every((part) => emit(part, program));
    case "any": {
      const start = pushFork(program);
      const ends: number[][] = [];
      for (const part of tree.parts) {
        start.push(program.length);
        if (!emit(part, program)) return false;
        ends.push(pushFork(program));
      }
      for (const end of ends) end.push(program.length);
      return true;
    }
    case "repeat":
      return emitRepeat(tree, program);
  }
}

/** Where the fork leads; to be filled in. */
function pushFork(program: Instruction[], ...to: number[]): number[] {
  program.push({ type: "fork", to });
  return to;
}

function emitRepeat({ part, min, max }: Extract<PatternNode, { type: "repeat" }>, program: Instruction[]): boolean {
  for (let count = 0; count < min; count += 1) if (!emit(part, program)) return false;
  const exits: number[][] = [];
  for (let count = min; count < (max === Infinity ? min + 1 : max); count += 1) {
    const start = program.length;
    exits.push(pushFork(program, start + 1));
    if (!emit(part, program)) return false;
    if (max === Infinity) pushFork(program, start);
  }
  for (const exit of exits) exit.push(program.length);
  return true;
}

/** Runs all alternatives in parallel, character by character; a match may begin anywhere. */
function runProgram(program: readonly Instruction[], chars: readonly string[]): boolean {
  let current: number[] = [];
  const seen = new Int32Array(program.length).fill(-1);
  for (let at = 0; at <= chars.length; at += 1) {
    const open = [0, ...current];
    const waiting: number[] = [];
    for (let address = open.pop(); address !== undefined; address = open.pop()) {
      if (seen[address] === at) continue;
      seen[address] = at;
      const instruction = program[address];
      if (instruction?.type === "found") return true;
      if (instruction?.type === "fork") open.push(...instruction.to);
      else if (instruction?.type === "edge") {
        if (isAtBoundary(instruction.kind, chars, at)) open.push(address + 1);
      } else waiting.push(address);
    }
    const char = chars[at];
    if (char === undefined) return false;
    current = waiting
      .filter((address) => (program[address] as { test: (char: string) => boolean }).test(char))
      .map((address) => address + 1);
  }
  return false;
}

function isAtBoundary(kind: BoundaryKind, chars: readonly string[], at: number): boolean {
  if (kind === "start") return at === 0;
  if (kind === "end") return at === chars.length;
  const isWord = (char: string | undefined) => char !== undefined && /^\w$/.test(char);
  return (isWord(chars[at - 1]) !== isWord(chars[at])) === (kind === "word");
}
