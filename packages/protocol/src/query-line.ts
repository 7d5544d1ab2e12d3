// The query line: how people say which runs, workers, letters, events or deeds they mean, as `status:failed since:1h text:"timed out"`. The
// same words on the command line, in the console and in saved views. Only read and written here; what is asked of the API is the caller's.

import { Fault, fault } from "./fault.ts";
import { nearest } from "./nearest.ts";
import { readInstant } from "./words.ts";

interface KeyRule {
  /** The only values there are. */
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
} as const satisfies Record<string, Readonly<Record<string, KeyRule>>>;

export type QueryPage = keyof typeof queryKeys;
export type QueryKeyOf<P extends QueryPage> = keyof (typeof queryKeys)[P] & string;

export interface QueryTerm<K extends string = string> {
  readonly key: K;
  readonly value: string;
  /** Where it stands in the line, for marking it. */
  readonly from: number;
  readonly to: number;
}

export interface QueryLine<K extends string = string> {
  readonly terms: readonly QueryTerm<K>[];
  /** Of a key that takes several, with commas between them. */
  readonly values: Readonly<Partial<Record<K, string>>>;
}

export const queryCharsMax = 4_096;

/** `key:value`, `key:"a value"`, or words without a key, which are text. The fault names the place and the nearest key. */
export function readQueryLine<P extends QueryPage>(line: string, page: P): QueryLine<QueryKeyOf<P>> | Fault {
  if (line.length > queryCharsMax) return wrong(`A filter has at most ${queryCharsMax} characters; this one has ${line.length}.`);
  const rules: Readonly<Record<string, KeyRule>> = queryKeys[page];
  const terms: QueryTerm[] = [];
  for (let at = skipSpace(line, 0); at < line.length; at = skipSpace(line, at)) {
    const term = readTerm(line, at, rules);
    if (term instanceof Fault) return term;
    terms.push(term);
    at = term.to;
  }
  const values = gather(terms, rules);
  if (values instanceof Fault) return values;
  // Every key was looked up in the rules of this page.
  return { terms: terms as QueryTerm<QueryKeyOf<P>>[], values: values as QueryLine<QueryKeyOf<P>>["values"] };
}

const keyStart = /([A-Za-z][A-Za-z_-]*):/y;

function readTerm(line: string, from: number, rules: Readonly<Record<string, KeyRule>>): QueryTerm | Fault {
  keyStart.lastIndex = from;
  const named = keyStart.exec(line);
  const key = named?.[1]?.toLowerCase() ?? "text";
  const rule = Object.hasOwn(rules, key) ? rules[key] : undefined;
  const known = Object.keys(rules);
  const details = { from, known };
  if (rule === undefined && named === null)
    return wrong(`"${wordAt(line, from)}" has no key; say one of ${known.join(", ")}, such as ${known[0]}:VALUE.`, details);
  if (rule === undefined) {
    const near = nearest(key, known);
    const hint = near === null ? "" : ` Did you mean ${near}?`;
    const asText = known.includes("text") ? ` To search for it as text, write "${wordAt(line, from)}" in quotes.` : "";
    return wrong(`There is no filter "${key}" here; there are ${known.join(", ")}.${hint}${asText}`, {
      ...details,
      nearest: near,
    });
  }
  const start = from + (named?.[0].length ?? 0);
  const read = readValue(line, start);
  if (read === null) return wrong(`The quote that opens at character ${start + 1} is not closed.`, { from: start });
  if (read.value === "") return wrong(`${key}: has no value; write ${key}:VALUE, or ${key}:"SEVERAL WORDS".`, details);
  return { key, value: read.value, from, to: read.to };
}

/** Up to the next space, or up to the closing quote; \" and \\ inside quotes are those characters. */
function readValue(line: string, start: number): { value: string; to: number } | null {
  if (line[start] !== '"') {
    const value = wordAt(line, start);
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

const wordAt = (line: string, at: number): string => /^\S*/.exec(line.slice(at))?.[0] ?? "";

function skipSpace(line: string, at: number): number {
  let next = at;
  while (next < line.length && /\s/.test(line[next] ?? "")) next += 1;
  return next;
}

function gather(terms: readonly QueryTerm[], rules: Readonly<Record<string, KeyRule>>): Record<string, string> | Fault {
  const values: Record<string, string> = {};
  for (const { key, value, from } of terms) {
    const rule = rules[key] ?? {};
    const refusal = checkValue(key, value, rule);
    if (refusal !== null) return wrong(refusal, { from, key });
    const before = values[key];
    if (before === undefined) values[key] = value;
    else if (rule.isMany) values[key] = `${before},${value}`;
    // Words that stand apart are one search.
    else if (key === "text") values[key] = `${before} ${value}`;
    else return wrong(`${key}: stands here twice (${before} and ${value}); one is enough.`, { from, key });
  }
  return values;
}

function checkValue(key: string, value: string, { values, isMany, isInstant }: KeyRule): string | null {
  if (isInstant) {
    if (instantOf(value, 0) !== null) return null;
    return `${key}:${value} is no time; write how long ago (90s, 30m, 1h, 2d) or when (2026-01-31, 2026-01-31T12:00:00Z).`;
  }
  if (values === undefined) return null;
  const strange = (isMany ? value.split(",") : [value]).find((one) => !values.includes(one));
  if (strange === undefined) return null;
  const near = nearest(strange, values);
  return `${key} is one of ${values.join(", ")}; "${strange}" is none of them.${near === null ? "" : ` Did you mean ${near}?`}`;
}

const units = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/**
 * In ms since 1970: how long before now (`1h`; never before 1970, when nothing of ours was), a day (`2026-01-31`, its beginning in UTC) or an
 * instant with its zone.
 */
export function instantOf(value: string, now: number): number | null {
  const ago = /^(\d{1,9})([smhd])$/.exec(value);
  if (ago !== null) return Math.max(0, now - Number(ago[1]) * units[ago[2] as keyof typeof units]);
  return readInstant(/^\d{4}-\d{2}-\d{2}$/.test(value) ? `${value}T00:00:00Z` : value);
}

/** The line that reads as these values. */
export function writeQueryLine(values: Readonly<Record<string, string | undefined>>): string {
  return Object.entries(values)
    .filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== "")
    .map(([key, value]) => `${key}:${/^[^\s"]+$/.test(value) ? value : `"${value.replace(/[\\"]/g, "\\$&")}"`}`)
    .join(" ");
}

const wrong = (message: string, details?: Readonly<Record<string, unknown>>): Fault =>
  fault("E.REQUEST.INVALID", message, details);
