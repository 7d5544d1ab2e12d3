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
  /** The node's name in the value it returns; absent: it returns who it is. */
  readonly name?: string;
  /** Of a middleware. */
  readonly wrap?: Wrap;
  /** Leaves something with its worker and returns where it lies. */
  readonly keeps?: true;
}

/** How a middleware uses the rest of its chain. */
export interface Wrap {
  /** How often it asks for the next; 0 withholds it. */
  readonly calls: number;
  /** Writes the number of the call into the parameters of what it calls, under this name. */
  readonly mark: string | null;
  readonly timeoutMs: number | null;
  /** Goes on when a call ends badly; else its own attempt ends with it. */
  readonly isForgiving: boolean;
}

/** The name of the parameter. */
const moodParameter = "sim";

export function writeMood(sheet: MoodSheet): JsonObject {
  const { moods, wrap, ...rest } = sheet;
  return {
    [moodParameter]: { moods: moods.map((mood) => ({ ...mood })), ...rest, ...(wrap !== undefined && { wrap: { ...wrap } }) },
  };
}

export function readMood(params: JsonObject): MoodSheet {
  return params[moodParameter] as JsonValue as unknown as MoodSheet;
}

export function moodOf(sheet: MoodSheet, attempt: number): Mood {
  const mood = sheet.moods[Math.min(attempt, sheet.moods.length) - 1];
  if (mood === undefined) throw new Error("a node without a mood");
  return mood;
}
