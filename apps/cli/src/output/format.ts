// Values as people read them: instants, time spans, name=value pairs.

import type { JsonObject, Run } from "@astraflow/protocol";
import { stripControlCharacters } from "./terminal.ts";

/** `1 file`, `2 files`. */
export const formatCount = (count: number, what: string, plural = `${what}s`): string =>
  `${count} ${count === 1 ? what : plural}`;

/** An instant without milliseconds. */
export const formatInstant = (instant: string | undefined): string =>
  instant === undefined ? "" : `${instant.slice(0, 19).replace("T", " ")}Z`;

/** The duration of a run that has ended. */
export const formatRunDuration = ({ startedAt, finishedAt }: Pick<Run, "startedAt" | "finishedAt">): string =>
  startedAt && finishedAt ? formatTimeSpan(Date.parse(finishedAt) - Date.parse(startedAt)) : "";

export function formatTimeSpan(ms: number): string {
  if (ms < 60_000) return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2_880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1_440)} d`;
}

export const formatPairs = (facts: JsonObject): string =>
  Object.entries(facts)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => stripControlCharacters(`${name}=${typeof value === "string" ? value || "-" : JSON.stringify(value)}`))
    .join(" ");

/** `name=value` pairs of plain values. */
export const formatValues = (values: Readonly<Record<string, unknown>>): string =>
  Object.entries(values)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ");
