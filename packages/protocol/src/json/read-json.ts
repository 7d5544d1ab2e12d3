// Reads JSON from untrusted clients: one linear scan bounds it before anything is built, one walk checks keys and numbers.

import { Fault, fault } from "../faults/fault.ts";
import { findJsonSyntaxError } from "./json-syntax.ts";
import type { JsonValue } from "./json-value.ts";
import { type JsonLimits, limits } from "./limits.ts";
import { exceedsShapeKeys } from "./object-shapes.ts";

const QUOTE = 34;
const COMMA = 44;
const MINUS = 45;
const ZERO = 48;
const NINE = 57;
const COLON = 58;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
const BOM = 0xfeff;

/** Never throws and never builds anything larger than the limits allow. */
export function readJson(input: string | Uint8Array, bounds: JsonLimits = limits.json.frame): JsonValue | Fault {
  const text = typeof input === "string" ? checkByteLimit(input, bounds) : decodeUtf8(input, bounds);
  if (text instanceof Fault) return text;
  if (text.charCodeAt(0) === BOM) return invalidJsonFault(bounds, "begins with a byte order mark");
  const keys = countKeysWithinLimits(text, bounds);
  if (keys instanceof Fault) return keys;
  const { shapeKeysMax } = bounds;
  if (shapeKeysMax !== undefined && keys > shapeKeysMax && exceedsShapeKeys(text, shapeKeysMax))
    return tooLargeFault(bounds, "different keys", shapeKeysMax);
  let value: JsonValue;
  try {
    value = JSON.parse(text);
  } catch {
    return syntaxFault(text, bounds);
  }
  const walk: ValueWalk = { keys: 0, problem: undefined };
  value = checkAndCleanValue(value, walk);
  if (walk.problem !== undefined) return invalidJsonFault(bounds, walk.problem);
  // A duplicate key was written but is not in the value: the counts differ exactly then.
  if (walk.keys !== keys) return invalidJsonFault(bounds, "has the same key twice in one object");
  return value;
}

/** Escapes, keys and exponents that `readJson` may refuse and that a scan alone does not judge. */
const suspiciousText = /"(?:__proto__|constructor|prototype)":|\\u0000|\\ud[89a-f]|[:,[]-?[0-9][0-9.]*e\+?[0-9]{3}/i;

/** What `readJson` would refuse in a text that `JSON.stringify` wrote, or null; parses only what looks suspicious. */
export function checkWrittenJson(text: string, bounds: JsonLimits = limits.json.frame): Fault | null {
  const checked = suspiciousText.test(text) ? readJson(text, bounds) : checkByteLimit(text, bounds);
  if (checked instanceof Fault) return checked;
  const keys = countKeysWithinLimits(text, bounds);
  if (keys instanceof Fault) return keys;
  const { shapeKeysMax = keys } = bounds;
  return keys > shapeKeysMax && exceedsShapeKeys(text, shapeKeysMax)
    ? tooLargeFault(bounds, "different keys", shapeKeysMax)
    : null;
}

let decoder: { decode(bytes: Uint8Array): string } | undefined;

export function checkByteLimit(text: string, bounds: JsonLimits): string | Fault {
  return exceedsBytes(text, bounds.bytesMax) ? tooLargeFault(bounds, "bytes", bounds.bytesMax) : text;
}

function decodeUtf8(bytes: Uint8Array, bounds: JsonLimits): string | Fault {
  if (bytes.byteLength > bounds.bytesMax) return tooLargeFault(bounds, "bytes", bounds.bytesMax);
  decoder ??= new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    return decoder.decode(bytes);
  } catch {
    // Fatal decoding fails for one reason only.
    return invalidJsonFault(bounds, "is not UTF-8");
  }
}

export const tooLargeFault = (bounds: JsonLimits, what: string, max: number) =>
  fault(bounds.tooLarge, `${bounds.subject} has more than ${max} ${what}`, { limit: max, what });

export const invalidJsonFault = (bounds: JsonLimits, problem: string) => fault(bounds.invalid, `${bounds.subject} ${problem}`);

/** Looking for the mistake in more than this would hold the thread for long. */
const searchedCharsMax = 1_048_576;

/** The parser's message quotes the input, which may hold secrets; ours does not. */
function syntaxFault(text: string, bounds: JsonLimits): Fault {
  const found = findJsonSyntaxError(text, searchedCharsMax);
  if (!found) return invalidJsonFault(bounds, "is not JSON");
  const { line, column, problem } = found;
  return fault(bounds.invalid, `${bounds.subject} is not JSON: line ${line}, column ${column}: ${problem}`, {
    line,
    column,
    problem,
  });
}

/** Counts UTF-8 bytes by hand, as this package uses no Node API, and only where the number of UTF-16 units leaves it open. */
export function exceedsBytes(text: string, bytesMax: number): boolean {
  if (text.length > bytesMax) return true;
  if (text.length * 3 <= bytesMax || !/[^\0-\x7f]/.test(text)) return false;
  let bytes = text.length;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    // A surrogate pair is four bytes, two for each of its units.
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes > bytesMax;
}

/** How far a text has been scanned, and what was counted in it. */
export interface JsonScan {
  at: number;
  depth: number;
  items: number;
  keys: number;
  /** Where the containers begin that are open, and where those of at least `longMin` characters begin and end; null: not asked for. */
  readonly containers: { readonly openAt: number[]; readonly longMin: number; readonly longEnds: Map<number, number> } | null;
}

/** The number of keys written. */
function countKeysWithinLimits(text: string, bounds: JsonLimits): number | Fault {
  const scan: JsonScan = { at: 0, depth: 0, items: 0, keys: 0, containers: null };
  return scanWithinLimits(text, bounds, scan, text.length) ?? scan.keys;
}

/** Bounds what parsing would build, from where the scan is to `until` or just beyond. Wrong syntax is left to the parser. */
export function scanWithinLimits(text: string, bounds: JsonLimits, scan: JsonScan, until: number): Fault | null {
  const { depthMax, itemsMax, keysMax, stringCharsMax, numberCharsMax } = bounds;
  const { containers } = scan;
  let { at, depth, items, keys } = scan;
  for (; at < until; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      const end = endOfString(text, at + 1);
      if (end - at - 1 > stringCharsMax) return tooLargeFault(bounds, "characters in a string", stringCharsMax);
      at = end;
    } else if (unit === COLON) {
      keys += 1;
      if (keys > keysMax) return tooLargeFault(bounds, "keys", keysMax);
    } else if (unit === COMMA) {
      items += 1;
      if (items > itemsMax) return tooLargeFault(bounds, "members", itemsMax);
    } else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      depth += 1;
      items += 1;
      if (depth > depthMax) return tooLargeFault(bounds, "levels", depthMax);
      if (items > itemsMax) return tooLargeFault(bounds, "members", itemsMax);
      if (containers !== null) containers.openAt.push(at);
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) {
      depth -= 1;
      if (containers !== null) {
        const openAt = containers.openAt.pop() ?? at;
        if (at - openAt >= containers.longMin) containers.longEnds.set(openAt, at);
      }
    } else if ((unit >= ZERO && unit <= NINE) || unit === MINUS) {
      const end = endOfNumber(text, at + 1, at + numberCharsMax + 1);
      if (end - at > numberCharsMax) return tooLargeFault(bounds, "characters in a number", numberCharsMax);
      at = end - 1;
    }
  }
  scan.at = at;
  scan.depth = depth;
  scan.items = items;
  scan.keys = keys;
  return null;
}

/** The place of the closing quote, or the end of the text. Most strings are short; long ones are searched natively. */
export function endOfString(text: string, from: number): number {
  let i = from;
  const near = Math.min(text.length, from + 64);
  for (; i < near; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) return i;
    if (unit === BACKSLASH) i += 1;
  }
  let quote = text.indexOf('"', i);
  while (quote > i) {
    // A quote after an odd number of backslashes is part of the string.
    let before = quote;
    while (before > i && text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
    if ((quote - before) % 2 === 0) return quote;
    i = quote + 1;
    quote = text.indexOf('"', i);
  }
  return quote === -1 ? text.length : quote;
}

/** The first place that cannot belong to a number (digits, point, sign, exponent), or where it has become too long. */
function endOfNumber(text: string, from: number, furthest: number): number {
  let i = from;
  for (; i < text.length && i < furthest; i += 1) {
    const unit = text.charCodeAt(i);
    const isPart = (unit >= ZERO && unit <= NINE) || unit === 46 || unit === 43 || unit === MINUS || unit === 69 || unit === 101;
    if (!isPart) return i;
  }
  return i;
}

export interface ValueWalk {
  keys: number;
  problem: string | undefined;
}

/** Depth is bounded by the scan, so recursion is safe. Returns the value, with unpaired surrogates replaced. */
export function checkAndCleanValue(value: JsonValue, walk: ValueWalk): JsonValue {
  if (typeof value === "string") return value.isWellFormed() ? value : value.toWellFormed();
  if (typeof value === "number") {
    if (!Number.isFinite(value)) walk.problem = "has a number that does not fit a double";
    return value === 0 ? 0 : value; // -0 is 0 everywhere else
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i += 1) {
      const item = value[i] as JsonValue;
      const cleaned = checkAndCleanValue(item, walk);
      if (cleaned !== item || cleaned === 0) value[i] = cleaned;
    }
    return value;
  }
  const keys = Object.keys(value);
  walk.keys += keys.length;
  for (const key of keys) {
    const item = value[key] as JsonValue;
    const problem = describeUnsafeKey(key, item);
    if (problem !== undefined) {
      walk.problem = problem;
      return value;
    }
    const cleaned = checkAndCleanValue(item, walk);
    if (cleaned !== item || cleaned === 0) value[key] = cleaned;
  }
  return value;
}

/** Keys by which a careless merge reaches the prototype of every object; the latter two only with an object as value. */
export function describeUnsafeKey(key: string, item: JsonValue): string | undefined {
  if (key === "__proto__") return "has the key __proto__";
  if ((key === "constructor" || key === "prototype") && typeof item === "object" && item !== null)
    return `has an object under the key ${key}`;
  if (!key.isWellFormed() || key.includes("\u0000")) return "has a key with an unpaired surrogate or NUL in it";
  return undefined;
}
