// How a node's handler will behave, as plain data inside the node's parameters: the seed decides it when the workflow is drawn, so that
// it does not depend on which worker happens to get the task.

import type { JsonObject, JsonValue } from "@astraflow/protocol";

/**
 * quick, slow: ends well after `ms` · chatty: the same with feedback on the way · failing: says FAILED · throwing: throws ·
 * skipping: says SKIPPED · hanging: ends only when told to stop · deaf: goes on for `ms` whatever it is told · killing: ends its
 * process after `ms`.
 */
export type MoodKind = "quick" | "slow" | "chatty" | "failing" | "throwing" | "skipping" | "hanging" | "deaf" | "killing";

export interface Mood {
  readonly kind: MoodKind;
  readonly ms: number;
  /** How often a chatty one speaks; three times where it does not say. */
  readonly words?: number;
}

/** What a simulated handler reads from its parameters. */
export interface MoodSheet {
  /** One per attempt; the last one stays. */
  readonly moods: readonly Mood[];
  /** The node's concurrency key and its limit, repeated here so that an onlooker sees them at the handler. */
  readonly key: string | null;
  readonly limit: number;
}

/** The name of the parameter. */
const moodParameter = "sim";

export function writeMood(sheet: MoodSheet): JsonObject {
  return { [moodParameter]: { moods: sheet.moods.map((mood) => ({ ...mood })), key: sheet.key, limit: sheet.limit } };
}

export function readMood(params: JsonObject): MoodSheet {
  return params[moodParameter] as JsonValue as unknown as MoodSheet;
}

export function moodOf(sheet: MoodSheet, attempt: number): Mood {
  const mood = sheet.moods[Math.min(attempt, sheet.moods.length) - 1];
  if (mood === undefined) throw new Error("a node without a mood");
  return mood;
}
