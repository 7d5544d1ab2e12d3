// The forms in which a secret may appear in a text, and the search for them, also in a text that arrives in pieces.

/** What a secret is replaced by. */
export const maskPlaceholder = "***";

interface SecretPattern {
  readonly text: string;
  /** For each of its beginnings: the length of the longest shorter beginning that it ends with. */
  readonly failureTable: readonly number[];
}

/** From and to, the latter excluded. */
type Interval = readonly [number, number];

export class SecretPatterns {
  readonly #patterns: readonly SecretPattern[];

  constructor(texts: Iterable<string>) {
    this.#patterns = [...new Set(texts)]
      .filter((text) => text !== "")
      .map((text) => ({ text, failureTable: buildFailureTable(text) }));
  }

  occursIn(text: string): boolean {
    return this.#patterns.some((pattern) => text.includes(pattern.text));
  }

  /** Everything that belongs to a pattern; what overlaps is one interval. `open`: so much of the beginning is known to belong to one. */
  findIntervals(text: string, open = 0): Interval[] {
    const found: Interval[] = open > 0 ? [[0, open]] : [];
    for (const pattern of this.#patterns)
      for (let at = text.indexOf(pattern.text); at !== -1; at = text.indexOf(pattern.text, at + 1))
        found.push([at, at + pattern.text.length]);
    if (found.length < 2) return found;
    const merged: [number, number][] = [];
    for (const [from, to] of found.sort(([a], [b]) => a - b)) {
      const last = merged.at(-1);
      if (last !== undefined && from < last[1]) last[1] = Math.max(last[1], to);
      else merged.push([from, to]);
    }
    return merged;
  }

  mask(text: string): string {
    return this.occursIn(text) ? replaceIntervals(text, this.findIntervals(text), () => maskPlaceholder) : text;
  }

  /** Of the text's end: the longest part that is the beginning of a pattern, never all of one. */
  partialMatchLength(text: string): number {
    return this.#patterns.reduce((longest, pattern) => Math.max(longest, partialMatchLength(pattern, text)), 0);
  }
}

export function replaceIntervals(text: string, intervals: readonly Interval[], replacement: (length: number) => string): string {
  let clean = "";
  let at = 0;
  for (const [from, to] of intervals) {
    clean += text.slice(at, from) + replacement(to - from);
    at = to;
  }
  return clean + text.slice(at);
}

/** A text in pieces, masked exactly as the whole would be: what may become a secret with the next piece is held back until then. */
export class MaskedStream {
  readonly #patterns: SecretPatterns;
  #held = "";
  /** So many characters of what is held belong to a secret whose replacement has been given already. */
  #openLength = 0;

  constructor(patterns: SecretPatterns) {
    this.#patterns = patterns;
  }

  next(piece: string): string {
    const text = this.#held + piece;
    return this.#give(text, text.length - this.#patterns.partialMatchLength(text));
  }

  /** The stream has ended: what was held back was no secret. */
  end(): string {
    return this.#give(this.#held, this.#held.length);
  }

  #give(text: string, safeEnd: number): string {
    const open = this.#openLength;
    this.#openLength = 0;
    let clean = "";
    let at = 0;
    for (const [from, to] of this.#patterns.findIntervals(text, open)) {
      const isContinued = from === 0 && open > 0;
      if (from >= safeEnd && !isContinued) break;
      clean += text.slice(at, from);
      if (!isContinued) clean += maskPlaceholder;
      at = Math.min(to, safeEnd);
      this.#openLength = Math.max(0, to - safeEnd);
    }
    this.#held = text.slice(safeEnd);
    return clean + text.slice(at, safeEnd);
  }
}

/** The secret as it is, in JSON, in URLs, in hex and in base64, alone or in the middle of something longer. */
export function encodingsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  const hex = bytes.toString("hex");
  const json = JSON.stringify(value).slice(1, -1);
  return [
    value,
    json,
    escapeNonAscii(json),
    ...urlFormsOf(value.toWellFormed()),
    hex,
    hex.toUpperCase(),
    ...base64FormsOf(bytes),
  ];
}

const escapeNonAscii = (json: string): string =>
  json.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

function urlFormsOf(value: string): string[] {
  const component = encodeURIComponent(value);
  const strict = component.replace(/[!'()*]/g, (unit) => `%${unit.charCodeAt(0).toString(16).toUpperCase()}`);
  const forms = [component, strict, encodeURI(value), new URLSearchParams({ v: value }).toString().slice(2)];
  return forms.flatMap((form) => [form, form.replace(/%[0-9A-F]{2}/g, (escape) => escape.toLowerCase())]);
}

/** Bytes before a secret shift its bits against the characters of base64: of each shift the characters that depend on the secret alone. */
export function base64FormsOf(bytes: Uint8Array): string[] {
  const forms = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes]).toString("base64");
    return text.slice(Math.ceil((shift * 8) / 6), Math.floor(((shift + bytes.length) * 8) / 6));
  });
  const alone = Buffer.from(bytes).toString("base64").replace(/=+$/, "");
  return [alone, ...forms].flatMap((form) => [form, form.replaceAll("+", "-").replaceAll("/", "_")]);
}

function buildFailureTable(text: string): number[] {
  const back = [0];
  for (let at = 1, length = 0; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = back[length - 1] ?? 0;
    if (text[at] === text[length]) length++;
    back.push(length);
  }
  return back;
}

function partialMatchLength({ text: form, failureTable: back }: SecretPattern, text: string): number {
  let length = 0;
  for (let at = Math.max(0, text.length - form.length + 1); at < text.length; at++) {
    while (length > 0 && text[at] !== form[length]) length = back[length - 1] ?? 0;
    if (text[at] === form[length]) length++;
  }
  return length;
}
