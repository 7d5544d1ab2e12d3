// The words in which schemas are judged: what a keyword is, what it may ask of its judge, and how it says what is wrong.

import { pointerOf } from "./path.ts";

export interface SchemaProblem {
  /** JSON pointer into the value; empty: the value itself. */
  readonly path: string;
  /** What it must be: a sentence without its subject. */
  readonly message: string;
}

/** Where a value stands in the whole. */
export type Steps = readonly (string | number)[];
export type Schema = Readonly<Record<string, unknown>>;

/** What a keyword may ask; every question costs. */
export interface Judging {
  visit(schema: unknown, value: unknown, at: Steps): SchemaProblem | null;
  fits(schema: unknown, value: unknown): boolean;
  /** What a reference points to; undefined says nothing. */
  follow(ref: string): unknown;
  spend(steps: number): void;
  /** Equal values have equal texts. */
  text(value: unknown): string;
  matches(pattern: string, text: string): boolean;
}

export type Keyword = (judge: Judging, rule: unknown, value: unknown, at: Steps, schema: Schema) => SchemaProblem | null;

export const wrong = (at: Steps, message: string): SchemaProblem => ({ path: pointerOf(at), message });

export const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);
