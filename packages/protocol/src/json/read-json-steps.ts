// Reads a long JSON text in steps, so that whoever reads it can do other things in between. The value and the limits are those of `readJson`:
// containers of more than a step are taken apart here, runs of their members and all that is shorter are left to the parser.

import { Fault } from "../faults/fault.ts";
import type { JsonObject, JsonValue } from "./json-value.ts";
import type { JsonLimits } from "./limits.ts";
import { countShapeKeys } from "./object-shapes.ts";
import {
  checkAndCleanValue,
  checkByteLimit,
  describeUnsafeKey,
  endOfString,
  invalidJsonFault,
  type JsonScan,
  scanWithinLimits,
  tooLargeFault,
  type ValueWalk,
} from "./read-json.ts";

const QUOTE = 34;
const COMMA = 44;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
const BOM = 0xfeff;

/** Some milliseconds of work, as long as no single string is longer. */
const stepCharsDefault = 256 * 1024;

/** The same as `readJson`, with a `yield` wherever the caller may pause. */
export function* readJsonInSteps(
  input: string,
  bounds: JsonLimits,
  stepChars = stepCharsDefault,
): Generator<void, JsonValue | Fault> {
  const text = checkByteLimit(input, bounds);
  if (text instanceof Fault) return text;
  if (text.charCodeAt(0) === BOM) return invalidJsonFault(bounds, "begins with a byte order mark");
  const longEnds = new Map<number, number>();
  const scan: JsonScan = { at: 0, depth: 0, items: 0, keys: 0, containers: { openAt: [], longMin: stepChars, longEnds } };
  while (scan.at < text.length) {
    const refusal = scanWithinLimits(text, bounds, scan, Math.min(text.length, scan.at + stepChars));
    if (refusal !== null) return refusal;
    yield;
  }
  const { shapeKeysMax = scan.keys } = bounds;
  if (scan.keys > shapeKeysMax && (yield* countShapeKeys(text, shapeKeysMax, stepChars)))
    return tooLargeFault(bounds, "different keys", shapeKeysMax);
  // The parser would find out at the end of the text.
  if (scan.depth !== 0) return invalidJsonFault(bounds, "is not JSON");
  const parts = new PartsReader(text, longEnds, stepChars);
  try {
    const value = yield* parts.readText();
    if (parts.walk.problem !== undefined) return invalidJsonFault(bounds, parts.walk.problem);
    if (parts.walk.keys !== scan.keys) return invalidJsonFault(bounds, "has the same key twice in one object");
    return value;
  } catch (problem) {
    // The parser's message quotes the input, which may hold secrets; ours does not.
    if (problem instanceof SyntaxError) return invalidJsonFault(bounds, "is not JSON");
    throw problem;
  }
}

const onlySpace = /^[ \t\n\r]*$/;
const isSpace = (unit: number): boolean => unit === 32 || unit === 10 || unit === 13 || unit === 9;

/** Throws a SyntaxError for what is not JSON, as the parser does. After a problem of its walk the value is incomplete. */
class PartsReader {
  readonly walk: ValueWalk = { keys: 0, problem: undefined };
  readonly #text: string;
  /** By the beginning of each container that is longer than a step: its end. */
  readonly #longEnds: ReadonlyMap<number, number>;
  readonly #stepChars: number;

  constructor(text: string, longEnds: ReadonlyMap<number, number>, stepChars: number) {
    this.#text = text;
    this.#longEnds = longEnds;
    this.#stepChars = stepChars;
  }

  *readText(): Generator<void, JsonValue> {
    const text = this.#text;
    const start = this.#skipSpace(0);
    const end = this.#longEnds.get(start);
    if (end === undefined) return checkAndCleanValue(JSON.parse(text) as JsonValue, this.walk);
    if (this.#skipSpace(end + 1) < text.length) throw new SyntaxError("text behind the value");
    return yield* this.#readContainer(start, end);
  }

  *#readContainer(start: number, end: number): Generator<void, JsonValue> {
    const closing = this.#text.charCodeAt(start) === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET;
    if (this.#text.charCodeAt(end) !== closing) throw new SyntaxError("brackets that do not match");
    const container: JsonObject | JsonValue[] = closing === CLOSE_BRACE ? {} : [];
    let from = start + 1;
    for (;;) {
      const run = this.#findRun(from, end);
      // Nothing at all may stand between two brackets, but nothing else may be empty.
      if (run.membersEnd > from || run.longAt === null)
        this.#addMembers(container, from, run.membersEnd, from === start + 1 && run.membersEnd === end);
      yield;
      if (this.walk.problem !== undefined) return container;
      if (run.longAt === null) {
        if (run.membersEnd === end) return container;
        from = run.membersEnd + 1;
        continue;
      }
      const headStart = run.membersEnd > from ? run.membersEnd + 1 : from;
      const longEnd = this.#longEnds.get(run.longAt) ?? end;
      const value = yield* this.#readContainer(run.longAt, longEnd);
      this.#addLong(container, this.#text.slice(headStart, run.longAt), value);
      const next = this.#skipSpace(longEnd + 1);
      if (next === end) return container;
      if (this.#text.charCodeAt(next) !== COMMA) throw new SyntaxError("no comma behind a value");
      from = next + 1;
    }
  }

  /** Members from here on, up to a comma or the end of their container, that are a step together, or are followed by a long container. */
  #findRun(from: number, end: number): { readonly membersEnd: number; readonly longAt: number | null } {
    const text = this.#text;
    let depth = 0;
    let lastComma = from;
    for (let at = from; at < end; at += 1) {
      const unit = text.charCodeAt(at);
      if (unit === QUOTE) at = endOfString(text, at + 1);
      else if (unit === COMMA && depth === 0) {
        if (at - from >= this.#stepChars) return { membersEnd: at, longAt: null };
        lastComma = at;
      } else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
        if (this.#longEnds.has(at)) return { membersEnd: lastComma, longAt: at };
        depth += 1;
      } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) depth -= 1;
    }
    return { membersEnd: end, longAt: null };
  }

  #addMembers(container: JsonObject | JsonValue[], from: number, to: number, mayBeEmpty: boolean): void {
    const members = this.#text.slice(from, to);
    if (!mayBeEmpty && onlySpace.test(members)) throw new SyntaxError("a comma without a member");
    if (Array.isArray(container)) {
      const items = checkAndCleanValue(JSON.parse(`[${members}]`) as JsonValue[], this.walk) as JsonValue[];
      for (const item of items) container.push(item);
      return;
    }
    const part = checkAndCleanValue(JSON.parse(`{${members}}`) as JsonObject, this.walk) as JsonObject;
    if (this.walk.problem === undefined) for (const key of Object.keys(part)) this.#setMember(container, key, part[key] ?? null);
  }

  /** `head`: what stands before the value, in an object its key. */
  #addLong(container: JsonObject | JsonValue[], head: string, value: JsonValue): void {
    if (Array.isArray(container)) {
      if (!onlySpace.test(head)) throw new SyntaxError("no comma before a value");
      container.push(value);
      return;
    }
    const [key] = Object.keys(JSON.parse(`{${head}null}`) as JsonObject);
    if (key === undefined) throw new SyntaxError("no key before a value");
    this.walk.keys += 1;
    this.walk.problem ??= describeUnsafeKey(key, value);
    if (this.walk.problem === undefined) this.#setMember(container, key, value);
  }

  #setMember(container: JsonObject, key: string, value: JsonValue): void {
    if (Object.hasOwn(container, key)) this.walk.problem = "has the same key twice in one object";
    else container[key] = value;
  }

  #skipSpace(from: number): number {
    let at = from;
    while (isSpace(this.#text.charCodeAt(at))) at += 1;
    return at;
  }
}
