// Explains the reasons of a placement in English, for `astra why`. With --json the facts are printed as they are.

import type { JsonObject } from "@astraflow/protocol";
import { formatInstant, formatPairs, formatTimeSpan } from "../output/format.ts";
import { stripControlCharacters } from "../output/terminal.ts";

export interface ExplanationContext {
  /** Labels of the nodes of the run, by id. */
  readonly labels: ReadonlyMap<string, string>;
  readonly now: number;
  /** When nodes of the run started, by id. */
  readonly startTimes?: ReadonlyMap<string, string>;
}

type ExplainFacts = (facts: JsonObject, context: ExplanationContext) => string;

const explainMismatch: ExplainFacts = ({ has, needs }) => `needs ${toText(needs)}, has ${toText(has) || "none"}`;

/** The explanations by code; other codes explain themselves. */
const explanations: Readonly<Record<string, ExplainFacts>> = {
  "not-reached": explainPredecessors,
  predecessors: explainPredecessors,
  key: explainConcurrencyKey,
  queued: ({ sinceMs, priority, until, runUntil }, context) =>
    joinParts(
      sinceMs === undefined ? null : `in line for ${formatTimeSpan(Number(sinceMs))}`,
      priority === undefined ? null : `priority ${toText(priority)}`,
      formatRelativeInstant("looked at again or given up", until, context),
      formatRelativeInstant("its run ends", runUntil, context),
    ),
  retry: ({ failures, until }, context) =>
    joinParts(
      `failed ${formatTimes(Number(failures ?? 0))}`,
      formatRelativeInstant("tries again", until, context) ?? "tries again soon",
    ),
  resource: ({ worker, key }) =>
    joinParts(`only ${toText(worker)} has what it needs`, key === undefined ? null : `affinity ${toText(key)}`),
  preference: ({ worker, key }) =>
    joinParts(`waits a while for ${toText(worker)}`, key === undefined ? null : `affinity ${toText(key)}`),
  running: ({ worker, attempt, since }, context) =>
    joinParts(`runs at ${toText(worker)}`, `attempt ${toText(attempt)}`, formatRelativeInstant("since", since, context)),
  "run-over": ({ phase }) => `its run is ${toText(phase)}`,
  ended: ({ phase }) => `it is ${toText(phase)}`,
  slots: ({ busy, slots }) =>
    busy === null || busy === undefined ? `${toText(slots)} slots` : `${toText(busy)} of ${toText(slots)} slots busy`,
  "node-limit": ({ nodeType, limit, busy }) => `${toText(busy)} of ${toText(limit)} ${toText(nodeType)} at once`,
  pinned: ({ to }) => `it belongs to ${toText(to)}`,
  strained: ({ lacks }) => `lacks ${Array.isArray(lacks) ? lacks.map(toText).join(" and ") : toText(lacks)}`,
  "package-missing": explainMismatch,
  "package-version": explainMismatch,
  "package-status": explainMismatch,
  pool: explainMismatch,
  tag: explainMismatch,
};

/** The explanation of a reason, or its facts as name=value pairs where there is none. */
export function explainReason(code: string, facts: JsonObject, context: ExplanationContext): string {
  const explain = Object.hasOwn(explanations, code) ? explanations[code] : undefined;
  return stripControlCharacters(explain === undefined ? formatPairs(facts) : explain(facts, context));
}

const toText = (value: unknown): string =>
  value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
const joinParts = (...parts: readonly (string | null)[]): string =>
  parts.filter((part) => part !== null && part !== "").join(", ");
const formatTimes = (count: number): string => (count === 1 ? "once" : `${count} times`);
const asObjects = (value: unknown): readonly JsonObject[] => (Array.isArray(value) ? (value as JsonObject[]) : []);

/** An instant is in milliseconds, or a text of the API. */
function formatRelativeInstant(before: string, value: unknown, { now }: ExplanationContext): string | null {
  const at = typeof value === "string" ? Date.parse(value) : Number(value ?? Number.NaN);
  if (!Number.isFinite(at)) return null;
  const how = at > now ? `in ${formatTimeSpan(at - now)}` : `${formatTimeSpan(now - at)} ago`;
  return `${before} ${formatInstant(new Date(at).toISOString())} (${how})`;
}

/** Phases of the engine, by the statuses that users know. */
const phaseLabels: Readonly<Record<string, string>> = { leased: "running", ready: "queued", parked: "waiting" };

function explainPredecessors({ waitsFor }: JsonObject, context: ExplanationContext): string {
  const open = asObjects(waitsFor).map(({ node, phase }) => {
    const id = toText(node);
    const state = phaseLabels[toText(phase)] ?? (toText(phase) || "not reached");
    const since = formatRelativeInstant(" since", context.startTimes?.get(id), context) ?? "";
    return `${context.labels.get(id) ?? id}, ${state}${since}`;
  });
  return open.length === 0 ? "" : `waits for ${open.join("; ")}`;
}

function explainConcurrencyKey({ key, limit, held, holders }: JsonObject, context: ExplanationContext): string {
  const named = asObjects(holders).map(({ run, node, worker, phase, since }) => {
    const where = toText(worker) === "" ? ` (${toText(phase)})` : ` at ${toText(worker)}`;
    return joinParts(
      `${toText(run)}/${context.labels.get(toText(node)) ?? toText(node)}${where}`,
      formatRelativeInstant("since", since, context),
    );
  });
  const more = Number(held ?? named.length) - named.length;
  const all = more > 0 ? [...named, `${more} more`] : named;
  const usage = limit === undefined || limit === 1 ? "" : ` (${toText(held)} of ${toText(limit)})`;
  return `key ${toText(key)}${all.length === 0 ? "" : ` held${usage} by ${all.join("; ")}`}`;
}
