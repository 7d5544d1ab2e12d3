// The small words all schemas are spelled with: ids, names, whole numbers, instants, maps, open objects.
// Whole messages live in the files named after them.

import Type, { type Static, type TSchema, type TUnsafe } from "typebox";
import { limits } from "./limits.ts";

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** An identifier: kept in columns, keys and log lines, so no control characters and a bounded length. */
export const id = (description?: string) =>
  Type.String({
    minLength: 1,
    maxLength: limits.idCharsMax,
    pattern: "^[^\\u0000-\\u001f\\u007f]*$",
    ...(description && { description }),
  });

/** A short label; may be empty. */
export const name = (description?: string) =>
  Type.String({ maxLength: limits.nameCharsMax, pattern: "^[^\\u0000-\\u001f\\u007f]*$", ...(description && { description }) });

/** Prose for people. */
export const text = (description?: string) =>
  Type.String({ maxLength: limits.textCharsMax, ...(description && { description }) });

/** Prose that must not be empty. */
export const prose = (description?: string) =>
  Type.String({ minLength: 1, maxLength: limits.textCharsMax, ...(description && { description }) });

/** A whole number; never beyond 2^53 - 1, where a double would round it. */
export const int = (minimum: number, maximum: number = Number.MAX_SAFE_INTEGER, description?: string) =>
  Type.Integer({ minimum, maximum, ...(description && { description }) });

/** An instant with its zone. The pattern refuses the calendar suffixes that the format alone would take. */
export const instant = (description?: string) =>
  Type.String({
    format: "date-time",
    maxLength: 64,
    pattern: "([zZ]|[+-][0-9]{2}:[0-9]{2})$",
    ...(description && { description }),
  });

export const uuid = (description?: string) => Type.String({ format: "uuid", ...(description && { description }) });

export const list = <S extends TSchema>(items: S, maxItems: number = limits.json.frame.itemsMax) =>
  Type.Array(items, { maxItems });

/** One of a few words. */
export const oneOf = <const W extends readonly string[]>(words: W, description?: string): TUnsafe<W[number]> =>
  Type.Unsafe<W[number]>({ type: "string", enum: [...words], ...(description && { description }) });

/** An object whose keys are data. Written with additionalProperties because a pattern such as `.*` would skip keys with line ends. */
export const map = <S extends TSchema>(values: S): TUnsafe<Record<string, Static<S>>> =>
  Type.Unsafe<Record<string, Static<S>>>({ type: "object", additionalProperties: values });

/** An object that belongs to somebody else: kept as it is, never looked into. */
export const bag = (description?: string): TUnsafe<JsonObject> =>
  Type.Unsafe<JsonObject>({ type: "object", ...(description && { description }) });

/** Any JSON value. */
export const json = (description?: string): TUnsafe<JsonValue> => Type.Unsafe<JsonValue>(description ? { description } : {});

export const optional = Type.Optional;
