// JSON as pages show it: `…` is a value, fields or entries that the page leaves out; an object without it has exactly the fields that are
// shown. Strings are compared as other texts are. No test lives here.

import { isRecord } from "@astraflow/protocol";
import { compareText, type KnownNames } from "./shown-output.ts";

const leftOut = Symbol("left out");
type ShownJson = typeof leftOut | string | number | boolean | null | ShownJson[] | ShownObject;

class ShownObject {
  readonly fields = new Map<string, ShownJson>();
  /** It may have fields that are not shown. */
  isOpen = false;
}

/** Fields that hold another number in every run. */
const changingFields = new Set(["asOf", "pid", "position", "oldestWaitMs", "seq", "fence", "time", "retryInMs"]);

/** Undefined where the text is not one JSON value. */
export function readShownJson(text: string): ShownJson | undefined {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:…]|[\w.+-]+|\S/g) ?? [];
  const reader = new TokenReader(tokens);
  try {
    const value = reader.readValue();
    return reader.isAtEnd ? value : undefined;
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return undefined;
    throw thrown;
  }
}

class TokenReader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#tokens.length;
  }

  #take(): string {
    return this.#tokens[this.#at++] ?? "";
  }

  #takeIf(token: string): boolean {
    if (this.#tokens[this.#at] !== token) return false;
    this.#at += 1;
    return true;
  }

  readValue(): ShownJson {
    if (this.#takeIf("…")) return leftOut;
    if (this.#takeIf("{")) return this.#readObject();
    if (this.#takeIf("[")) return this.#readList();
    return JSON.parse(this.#take()) as string | number | boolean | null;
  }

  #readObject(): ShownObject {
    const object = new ShownObject();
    while (!this.#takeIf("}")) {
      if (this.#takeIf("…")) object.isOpen = true;
      else {
        const key = JSON.parse(this.#take()) as string;
        if (!this.#takeIf(":")) throw new SyntaxError(`${key} has no value`);
        object.fields.set(key, this.readValue());
      }
      this.#takeIf(",");
    }
    return object;
  }

  #readList(): ShownJson[] {
    const list: ShownJson[] = [];
    while (!this.#takeIf("]")) {
      list.push(this.readValue());
      this.#takeIf(",");
    }
    return list;
  }
}

/** Null, or the first place where they differ. */
export function compareJson(shown: ShownJson, actual: unknown, known: KnownNames, at = ""): string | null {
  if (shown === leftOut) return null;
  if (shown instanceof ShownObject) return compareObject(shown, actual, known, at);
  if (Array.isArray(shown)) return compareList(shown, actual, known, at);
  if (typeof shown === "string" && typeof actual === "string") {
    const problem = compareText(shown, actual, known);
    return problem && `${at}: ${problem}`;
  }
  // Fences, times and other large numbers.
  if (typeof shown === "number" && shown > 1e12 && typeof actual === "number" && actual > 1e12) return null;
  return shown === actual ? null : `${at} is shown as ${JSON.stringify(shown)}, but it is ${JSON.stringify(actual)}`;
}

function compareObject(shown: ShownObject, actual: unknown, known: KnownNames, at: string): string | null {
  if (!isRecord(actual)) return `${at} is shown as an object, but it is ${JSON.stringify(actual)}`;
  const unshown = Object.keys(actual).filter((key) => !shown.fields.has(key));
  if (!shown.isOpen && unshown.length > 0) return `${at} also has ${unshown.join(", ")}, for which the page has no …`;
  for (const [key, value] of shown.fields) {
    if (!(key in actual)) return `${at} has no ${key}; it has ${Object.keys(actual).join(", ")}`;
    if (changingFields.has(key) && typeof actual[key] === typeof value) continue;
    const problem = compareJson(value, actual[key], known, `${at}/${key}`);
    if (problem !== null) return problem;
  }
  return null;
}

function compareList(shown: readonly ShownJson[], actual: unknown, known: KnownNames, at: string): string | null {
  if (!Array.isArray(actual)) return `${at} is shown as a list, but it is ${JSON.stringify(actual)}`;
  let next = 0;
  let mayJump = false;
  for (const entry of shown) {
    if (entry === leftOut) {
      mayJump = true;
      continue;
    }
    // What an entry that does not fit seemed to name is forgotten.
    const compareEntry = (): string | null => {
      const learned = new Map(known);
      const found = compareJson(entry, actual[next], learned, `${at}/${next}`);
      if (found === null) for (const [name, value] of learned) known.set(name, value);
      return found;
    };
    let problem = compareEntry();
    while (problem !== null && mayJump && next < actual.length - 1) {
      next += 1;
      problem = compareEntry();
    }
    if (problem !== null) return problem;
    next += 1;
    mayJump = false;
  }
  return next === actual.length || mayJump ? null : `${at} has ${actual.length} entries, and the page shows ${next}`;
}
