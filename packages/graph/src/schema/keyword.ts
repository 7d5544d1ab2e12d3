// What a keyword of a JSON Schema is, and how it reports a problem.

import { toJsonPointer } from "../values/binding-path.ts";
import type { SchemaValidator } from "./validator.ts";

export interface SchemaProblem {
  /** JSON pointer into the value; empty: the value itself. */
  readonly path: string;
  /** What it must be: a sentence without its subject. */
  readonly message: string;
}

/** Where a value is inside the validated value. */
export type ValuePath = readonly (string | number)[];
export type SchemaObject = Readonly<Record<string, unknown>>;

export type KeywordCheck = (
  validator: SchemaValidator,
  rule: unknown,
  value: unknown,
  at: ValuePath,
  schema: SchemaObject,
) => SchemaProblem | null;

export const problemAt = (at: ValuePath, message: string): SchemaProblem => ({ path: toJsonPointer(at), message });

export const isArray = (value: unknown): value is readonly unknown[] => Array.isArray(value);
