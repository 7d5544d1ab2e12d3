// The filter line of lists, such as `status:failed since:1h text:"timed out"`: on the command line, in the console and in saved views.

import { Fault, fault } from "../faults/fault.ts";
import { closestMatch } from "./closest-match.ts";
import { parseInstant } from "./instant.ts";

interface QueryKeyRule {
  readonly values?: readonly string[];
  /** Several may be named, with commas between them or one after another. */
  readonly isMany?: true;
  /** An instant, or how long ago: 90s, 30m, 1h, 2d. */
  readonly isInstant?: true;
}

const yesOrNo = { values: ["yes", "no"] } as const;
const instantKey = { isInstant: true } as const;

/** What each list can be asked by. `text` is also what stands without a key. */
export const queryKeys = {
  runs: {
    status: { values: ["queued", "running", "succeeded", "failed", "cancelled"], isMany: true },
    workflow: {},
    worker: {},
    client: {},
    since: instantKey,
    until: instantKey,
    text: {},
  },
  workers: {
    connected: yesOrNo,
    healthy: yesOrNo,
    registered: yesOrNo,
    draining: yesOrNo,
    queue: {},
    pool: {},
    package: {},
    text: {},
  },
  letters: { status: { values: ["open", "requeued", "dismissed"] }, run: {}, text: {} },
  events: { topic: { isMany: true }, run: {}, node: {}, worker: {}, client: {} },
  audit: { action: {}, actor: {}, target: {}, run: {}, since: instantKey },
  workflows: { text: {} },
  queues: { package: {}, pool: {}, worker: {}, text: {} },
} as const satisfies Record<string, Readonly<Record<string, QueryKeyRule>>>;

export type QueryableList = keyof typeof queryKeys;
export type QueryKeyOf<P extends QueryableList> = keyof (typeof queryKeys)[P] & string;

export interface QueryTerm<K extends string = string> {
  readonly key: K;
  readonly value: string;
  /** Its position in the line, for highlighting. */
  readonly from: number;
  readonly to: number;
}

export interface ParsedQuery<K extends string = string> {
  readonly terms: readonly QueryTerm<K>[];
  /** Of a key that takes several, with commas between them. */
  readonly values: Readonly<Partial<Record<K, string>>>;
}

export const queryCharsMax = 4_096;

/** `key:value`, `key:"a value"`, or words without a key, which are text. The fault names the place and the nearest key. */
export function parseQuery<P extends QueryableList>(line: string, page: P): ParsedQuery<QueryKeyOf<P>> | Fault {
  if (line.length > queryCharsMax)
    return invalidQuery(`A filter has at most ${queryCharsMax} characters; this one has ${line.length}.`);
  const rules: Readonly<Record<string, QueryKeyRule>> = queryKeys[page];
  const terms: QueryTerm[] = [];
  for (let at = skipSpace(line, 0); at < line.length; at = skipSpace(line, at)) {
    const term = parseTerm(line, at, rules);
    if (term instanceof Fault) return term;
    terms.push(term);
    at = term.to;
  }
  const values = collectValues(terms, rules);
  if (values instanceof Fault) return values;
  // Every key was looked up in the rules of this page.
  return { terms: terms as QueryTerm<QueryKeyOf<P>>[], values: values as ParsedQuery<QueryKeyOf<P>>["values"] };
}

const keyStart = /([A-Za-z][A-Za-z_-]*):/y;

function parseTerm(line: string, from: number, rules: Readonly<Record<string, QueryKeyRule>>): QueryTerm | Fault {
  keyStart.lastIndex = from;
  const keyMatch = keyStart.exec(line);
  const key = keyMatch?.[1]?.toLowerCase() ?? "text";
  const rule = Object.hasOwn(rules, key) ? rules[key] : undefined;
  const known = Object.keys(rules);
  const details = { from, known };
  if (rule === undefined && keyMatch === null)
    return invalidQuery(
      `"${wordStartingAt(line, from)}" has no key; use one of ${known.join(", ")}, such as ${known[0]}:VALUE.`,
      details,
    );
  if (rule === undefined) {
    const closest = closestMatch(key, known);
    const hint = closest === null ? "" : ` Did you mean ${closest}?`;
    const asText = known.includes("text") ? ` To search for it as text, write "${wordStartingAt(line, from)}" in quotes.` : "";
    return invalidQuery(`There is no filter "${key}" here; there are ${known.join(", ")}.${hint}${asText}`, {
      ...details,
      nearest: closest,
    });
  }
  const start = from + (keyMatch?.[0].length ?? 0);
  const read = parseTermValue(line, start);
  if (read === null) return invalidQuery(`The quote that opens at character ${start + 1} is not closed.`, { from: start });
  if (read.value === "") return invalidQuery(`${key}: has no value; write ${key}:VALUE, or ${key}:"SEVERAL WORDS".`, details);
  return { key, value: read.value, from, to: read.to };
}

/** Up to the next space, or up to the closing quote; \" and \\ inside quotes are those characters. */
function parseTermValue(line: string, start: number): { value: string; to: number } | null {
  if (line[start] !== '"') {
    const value = wordStartingAt(line, start);
    return { value, to: start + value.length };
  }
  let value = "";
  for (let at = start + 1; at < line.length; at += 1) {
    const char = line[at] ?? "";
    if (char === '"') return { value, to: at + 1 };
    const isEscape = char === "\\" && (line[at + 1] === '"' || line[at + 1] === "\\");
    if (isEscape) at += 1;
    value += line[at] ?? "";
  }
  return null;
}

const wordStartingAt = (line: string, at: number): string => /^\S*/.exec(line.slice(at))?.[0] ?? "";

function skipSpace(line: string, at: number): number {
  let next = at;
  while (next < line.length && /\s/.test(line[next] ?? "")) next += 1;
  return next;
}

function collectValues(
  terms: readonly QueryTerm[],
  rules: Readonly<Record<string, QueryKeyRule>>,
): Record<string, string> | Fault {
  const values: Record<string, string> = {};
  for (const { key, value, from } of terms) {
    const rule = rules[key] ?? {};
    const problem = checkValue(key, value, rule);
    if (problem !== null) return invalidQuery(problem, { from, key });
    const before = values[key];
    if (before === undefined) values[key] = value;
    else if (rule.isMany) values[key] = `${before},${value}`;
    // Separate words make one search.
    else if (key === "text") values[key] = `${before} ${value}`;
    else return invalidQuery(`${key}: is given twice (${before} and ${value}); give it once.`, { from, key });
  }
  return values;
}

function checkValue(key: string, value: string, { values, isMany, isInstant }: QueryKeyRule): string | null {
  if (isInstant) {
    if (resolveInstant(value, 0) !== null) return null;
    return `${key}:${value} is not a time; write an age (90s, 30m, 1h, 2d) or a date (2026-01-31, 2026-01-31T12:00:00Z).`;
  }
  if (values === undefined) return null;
  const invalidValue = (isMany ? value.split(",") : [value]).find((candidate) => !values.includes(candidate));
  if (invalidValue === undefined) return null;
  const closest = closestMatch(invalidValue, values);
  return `${key} is one of ${values.join(", ")}; "${invalidValue}" is none of them.${closest === null ? "" : ` Did you mean ${closest}?`}`;
}

const unitMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** In ms since 1970: an age (`1h`; never before 1970), a day (`2026-01-31`, its beginning in UTC) or an instant with its zone. */
export function resolveInstant(value: string, now: number): number | null {
  const ago = /^(\d{1,9})([smhd])$/.exec(value);
  if (ago !== null) return Math.max(0, now - Number(ago[1]) * unitMs[ago[2] as keyof typeof unitMs]);
  return parseInstant(/^\d{4}-\d{2}-\d{2}$/.test(value) ? `${value}T00:00:00Z` : value);
}

/** The line that reads as these values. */
export function formatQuery(values: Readonly<Record<string, string | undefined>>): string {
  return Object.entries(values)
    .filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== "")
    .map(([key, value]) => `${key}:${/^[^\s"]+$/.test(value) ? value : `"${value.replace(/[\\"]/g, "\\$&")}"`}`)
    .join(" ");
}

const invalidQuery = (message: string, details?: Readonly<Record<string, unknown>>): Fault =>
  fault("E.REQUEST.INVALID", message, details);
