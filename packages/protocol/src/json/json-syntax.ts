// Where a text stops being JSON, and what was expected there. The parser's own messages quote the input, which may hold secrets, and many of
// them do not say where. This is only asked once the parser has refused a text.

export interface JsonSyntaxError {
  /** From 1; a column is a character. */
  readonly line: number;
  readonly column: number;
  /** The end of a sentence, without anything of the text but single punctuation marks: `expected "," or "}"`. */
  readonly problem: string;
  readonly lineText: string;
}

/** A mistake this near to the place where a text was cut may be the cut itself: a number, a word or an escape is shorter. */
const cutCharsMax = 256;

/** Null: the text is JSON. Undefined: it is longer than `charsMax` characters, and no mistake was found among those. */
export function findJsonSyntaxError(text: string, charsMax = Number.POSITIVE_INFINITY): JsonSyntaxError | null | undefined {
  const isCut = text.length > charsMax;
  const scan = new JsonSyntaxScan(isCut ? text.slice(0, charsMax) : text);
  const found = scan.run();
  if (isCut && (found === null || scan.position > charsMax - cutCharsMax)) return undefined;
  if (found === null) return null;
  const { offset, problem } = found;
  const lineStart = offset === 0 ? 0 : text.lastIndexOf("\n", offset - 1) + 1;
  const lineEnd = text.indexOf("\n", offset);
  let line = 1;
  for (let at = text.indexOf("\n"); at !== -1 && at < offset; at = text.indexOf("\n", at + 1)) line += 1;
  return {
    line,
    column: [...text.slice(lineStart, offset)].length + 1,
    problem,
    lineText: text.slice(lineStart, lineEnd === -1 ? undefined : lineEnd).replace(/\r$/, ""),
  };
}

interface Mistake {
  readonly offset: number;
  readonly problem: string;
}

const numberPattern = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const wordPattern = /[A-Za-z_$]+/y;
const literals: ReadonlySet<string> = new Set(["true", "false", "null"]);

/** One pass without recursion: texts may be nested deeper than the stack is. */
class JsonSyntaxScan {
  readonly #text: string;
  /** The closing marks of the objects and lists that are open. */
  readonly #open: ("}" | "]")[] = [];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** How far the text was read. */
  get position(): number {
    return this.#at;
  }

  run(): Mistake | null {
    this.#skipSpace();
    let mistake = this.#readValue();
    while (mistake === null) {
      this.#skipSpace();
      const close = this.#open.at(-1);
      if (close === undefined) return this.#at >= this.#text.length ? null : this.#expected("nothing more after the value");
      mistake = this.#readNext(close);
    }
    return mistake;
  }

  /** Inside an object or list, after one of its values. */
  #readNext(close: "}" | "]"): Mistake | null {
    if (this.#take(close)) return this.#closeOne();
    if (!this.#take(",")) return this.#expected(`"," or "${close}"`);
    this.#skipSpace();
    if (this.#text[this.#at] === close)
      return this.#mistake(`no "," may stand before "${close}"`, this.#text.lastIndexOf(",", this.#at));
    return (close === "}" ? this.#readName("the name of a field in double quotes") : null) ?? this.#readValue();
  }

  #readName(expected: string): Mistake | null {
    if (this.#text[this.#at] !== '"') return this.#expected(expected);
    const mistake = this.#readString();
    if (mistake !== null) return mistake;
    this.#skipSpace();
    if (!this.#take(":")) return this.#expected('":" after the name of a field');
    this.#skipSpace();
    return null;
  }

  /** A value, or the beginning of one: an object or list is opened, and read up to the end of its first value. */
  #readValue(): Mistake | null {
    for (;;) {
      const mark = this.#text[this.#at];
      if (mark === '"') return this.#readString();
      if (mark !== "{" && mark !== "[") return this.#readScalar();
      const close = mark === "{" ? "}" : "]";
      this.#open.push(close);
      this.#at += 1;
      this.#skipSpace();
      if (this.#take(close)) return this.#closeOne();
      const mistake = close === "}" ? this.#readName('the name of a field in double quotes, or "}"') : null;
      if (mistake !== null) return mistake;
    }
  }

  #readScalar(): Mistake | null {
    const start = this.#at;
    const number = this.#match(numberPattern);
    if (number !== null) {
      // 01, 1.x and 1e are read up to where they stop being a number.
      const isOver = !/[0-9A-Za-z.+_-]/.test(this.#text[this.#at] ?? " ");
      return isOver ? null : this.#mistake("this is no number of JSON", start);
    }
    const word = this.#match(wordPattern);
    if (word === null) return this.#expected("a value");
    return literals.has(word) ? null : this.#mistake("expected a value: texts are written in double quotes", start);
  }

  #readString(): Mistake | null {
    const start = this.#at;
    this.#at += 1;
    for (; this.#at < this.#text.length; this.#at += 1) {
      const unit = this.#text.charCodeAt(this.#at);
      if (unit === 34) {
        this.#at += 1;
        return null;
      }
      if (unit === 10 || unit === 13) return this.#mistake('the text that begins here has no closing " in its line', start);
      if (unit < 32) return this.#mistake("a control character in a text must be escaped (\\t, \\u0000)");
      if (unit === 92) {
        if (!/^(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.test(this.#text.slice(this.#at + 1, this.#at + 6)))
          return this.#mistake("this escape is unknown; a backslash is written \\\\");
        this.#at += 1;
      }
    }
    return this.#mistake('the text that begins here has no closing "', start);
  }

  /** In place of what was expected: the end, a comment, a text in single quotes, or anything else. */
  #expected(what: string): Mistake {
    if (this.#at >= this.#text.length) {
      if (this.#text.trim() === "") return this.#mistake("the text is empty");
      return this.#mistake(
        `the text ends here, where it needs ${this.#open.at(-1) === undefined ? what : describeOpen(this.#open)}`,
      );
    }
    const rest = this.#text.slice(this.#at, this.#at + 2);
    if (rest === "//" || rest === "/*" || rest[0] === "#") return this.#mistake("JSON has no comments");
    if (rest[0] === "'") return this.#mistake(`expected ${what}: texts are written in double quotes`);
    if (rest[0] === "\ufeff") return this.#mistake("the file begins with a byte order mark; save it as UTF-8 without one");
    return this.#mistake(`expected ${what}`);
  }

  #mistake(problem: string, offset = this.#at): Mistake {
    return { offset, problem };
  }

  #closeOne(): null {
    this.#open.pop();
    return null;
  }

  #take(mark: string): boolean {
    if (this.#text[this.#at] !== mark) return false;
    this.#at += 1;
    return true;
  }

  #skipSpace(): void {
    for (; this.#at < this.#text.length; this.#at += 1) {
      const unit = this.#text.charCodeAt(this.#at);
      if (unit !== 32 && unit !== 10 && unit !== 13 && unit !== 9) return;
    }
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? null;
    this.#at += found?.length ?? 0;
    return found;
  }
}

const describeOpen = (open: readonly string[]): string =>
  open.length > 3
    ? `${open.length} closing brackets`
    : open
        .toReversed()
        .map((mark) => `"${mark}"`)
        .join(" and ");
