// The words in which schemas are judged: what a keyword is, what it may ask of its judge, and how it says what is wrong.

import { toJsonPointer } from "../values/binding-path.ts";

export interface SchemaProblem {
  /** JSON pointer into the value; empty: the value itself. */
  readonly path: string;
  /** What it must be: a sentence without its subject. */
  readonly message: string;
}

/** Where a value stands in the whole. */
export type ValuePath = readonly (string | number)[];
export type SchemaObject = Readonly<Record<string, unknown>>;

/** What a keyword may ask; every question costs. */
export interface ValidatorContext {
  validateAt(schema: unknown, value: unknown, at: ValuePath): SchemaProblem | null;
  isValid(schema: unknown, value: unknown): boolean;
  /** What a reference points to; undefined says nothing. */
  resolveRef(ref: string): unknown;
  spendSteps(steps: number): void;
  /** Equal values have equal texts. */
  canonicalTextOf(value: unknown): string;
  matchesPattern(pattern: string, text: string): boolean;
}

export type KeywordCheck = (
  validator: ValidatorContext,
  rule: unknown,
  value: unknown,
  at: ValuePath,
  schema: SchemaObject,
) => SchemaProblem | null;

export const problemAt = (at: ValuePath, message: string): SchemaProblem => ({ path: toJsonPointer(at), message });

export const isArray = (value: unknown): value is readonly unknown[] => Array.isArray(value);
