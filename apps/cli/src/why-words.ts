// What `astra why` says of a reason or a worker: the facts of a placement as words for people. As data they are printed untouched.

import type { JsonObject } from "@astraflow/protocol";
import { span, when } from "./place.ts";
import { tame } from "./terminal.ts";

export interface WhyPlace {
  /** Labels by node id, of the run that is asked about. */
  readonly labels: ReadonlyMap<string, string>;
  readonly now: number;
  /** When nodes of that run began, by id, as far as they did. */
  readonly began?: ReadonlyMap<string, string>;
}

type Say = (facts: JsonObject, place: WhyPlace) => string;

const sayMisfit: Say = ({ has, needs }) => `needs ${text(needs)}, has ${text(has) || "none"}`;

/** Reasons and rules of which there is more to say than the code does. */
const sayings: Readonly<Record<string, Say>> = {
  "not-reached": sayWaiting,
  predecessors: sayWaiting,
  key: sayKey,
  queued: ({ sinceMs, priority, until, runUntil }, place) =>
    words(
      sinceMs === undefined ? null : `in line for ${span(Number(sinceMs))}`,
      priority === undefined ? null : `priority ${text(priority)}`,
      moment("looked at again or given up", until, place),
      moment("its run ends", runUntil, place),
    ),
  retry: ({ failures, until }, place) =>
    words(`failed ${times(Number(failures ?? 0))}`, moment("tries again", until, place) ?? "tries again soon"),
  resource: ({ worker, key }) =>
    words(`only ${text(worker)} has what it needs`, key === undefined ? null : `affinity ${text(key)}`),
  preference: ({ worker, key }) => words(`waits a while for ${text(worker)}`, key === undefined ? null : `affinity ${text(key)}`),
  running: ({ worker, attempt, since }, place) =>
    words(`runs at ${text(worker)}`, `attempt ${text(attempt)}`, moment("since", since, place)),
  "run-over": ({ phase }) => `its run is ${text(phase)}`,
  ended: ({ phase }) => `it is ${text(phase)}`,
  slots: ({ busy, slots }) =>
    busy === null || busy === undefined ? `${text(slots)} slots` : `${text(busy)} of ${text(slots)} slots busy`,
  "node-limit": ({ nodeType, limit, busy }) => `${text(busy)} of ${text(limit)} ${text(nodeType)} at once`,
  pinned: ({ to }) => `it belongs to ${text(to)}`,
  strained: ({ lacks }) => `lacks ${Array.isArray(lacks) ? lacks.map(text).join(" and ") : text(lacks)}`,
  "package-missing": sayMisfit,
  "package-version": sayMisfit,
  "package-status": sayMisfit,
  pool: sayMisfit,
  tag: sayMisfit,
};

/** Empty where the code says it all; the facts as they are where nobody has words for them yet. */
export function factWords(code: string, facts: JsonObject, place: WhyPlace): string {
  const say = Object.hasOwn(sayings, code) ? sayings[code] : undefined;
  return tame(say === undefined ? pairs(facts) : say(facts, place));
}

export const pairs = (facts: JsonObject): string =>
  Object.entries(facts)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => tame(`${name}=${typeof value === "string" ? value || "-" : JSON.stringify(value)}`))
    .join(" ");

const text = (value: unknown): string =>
  value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
const words = (...parts: readonly (string | null)[]): string => parts.filter((part) => part !== null && part !== "").join(", ");
const times = (count: number): string => (count === 1 ? "once" : `${count} times`);
const listOf = (value: unknown): readonly JsonObject[] => (Array.isArray(value) ? (value as JsonObject[]) : []);

/** Instants are milliseconds or texts of the API. */
function moment(before: string, value: unknown, { now }: WhyPlace): string | null {
  const at = typeof value === "string" ? Date.parse(value) : Number(value ?? Number.NaN);
  if (!Number.isFinite(at)) return null;
  const how = at > now ? `in ${span(at - now)}` : `${span(now - at)} ago`;
  return `${before} ${when(new Date(at).toISOString())} (${how})`;
}

/** Phases in the words that runs are shown with. */
const phaseWords: Readonly<Record<string, string>> = { leased: "running", ready: "queued", parked: "waiting" };

function sayWaiting({ waitsFor }: JsonObject, place: WhyPlace): string {
  const open = listOf(waitsFor).map(({ node, phase }) => {
    const id = text(node);
    const state = phaseWords[text(phase)] ?? (text(phase) || "not reached");
    const since = moment(" since", place.began?.get(id), place) ?? "";
    return `${place.labels.get(id) ?? id}, ${state}${since}`;
  });
  return open.length === 0 ? "" : `waits for ${open.join("; ")}`;
}

function sayKey({ key, limit, held, holders }: JsonObject, place: WhyPlace): string {
  const named = listOf(holders).map(({ run, node, worker, phase, since }) => {
    const where = text(worker) === "" ? ` (${text(phase)})` : ` at ${text(worker)}`;
    return words(`${text(run)}/${place.labels.get(text(node)) ?? text(node)}${where}`, moment("since", since, place));
  });
  const more = Number(held ?? named.length) - named.length;
  const all = more > 0 ? [...named, `${more} more`] : named;
  const room = limit === undefined || limit === 1 ? "" : ` (${text(held)} of ${text(limit)})`;
  return `key ${text(key)}${all.length === 0 ? "" : ` held${room} by ${all.join("; ")}`}`;
}
