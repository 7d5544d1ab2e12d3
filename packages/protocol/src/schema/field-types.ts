// The small words all schemas are spelled with: ids, names, whole numbers, instants, maps, open objects.
// Whole messages live in the files named after them.

import Type, { type Static, type TSchema, type TUnsafe } from "typebox";
import { limits } from "../json/limits.ts";

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** An identifier: kept in columns, keys and log lines, so no control characters and a bounded length. */
export const idString = (description?: string) =>
  Type.String({
    minLength: 1,
    maxLength: limits.idCharsMax,
    pattern: "^[^\\u0000-\\u001f\\u007f]*$",
    ...(description && { description }),
  });

/** A short label; may be empty. */
export const nameString = (description?: string) =>
  Type.String({ maxLength: limits.nameCharsMax, pattern: "^[^\\u0000-\\u001f\\u007f]*$", ...(description && { description }) });

/** Prose for people. */
export const textString = (description?: string) =>
  Type.String({ maxLength: limits.textCharsMax, ...(description && { description }) });

/** Prose that must not be empty. */
export const nonEmptyText = (description?: string) =>
  Type.String({ minLength: 1, maxLength: limits.textCharsMax, ...(description && { description }) });

/** A whole number; never beyond 2^53 - 1, where a double would round it. */
export const integer = (minimum: number, maximum: number = Number.MAX_SAFE_INTEGER, description?: string) =>
  Type.Integer({ minimum, maximum, ...(description && { description }) });

/** An instant with its zone. The pattern refuses the calendar suffixes that the format alone would take. */
export const instantString = (description?: string) =>
  Type.String({
    format: "date-time",
    maxLength: 64,
    pattern: "([zZ]|[+-][0-9]{2}:[0-9]{2})$",
    ...(description && { description }),
  });

export const uuidString = (description?: string) => Type.String({ format: "uuid", ...(description && { description }) });

export const listOf = <S extends TSchema>(items: S, maxItems: number = limits.json.frame.itemsMax) =>
  Type.Array(items, { maxItems });

/** One of a few words. */
export const oneOf = <const W extends readonly string[]>(values: W, description?: string): TUnsafe<W[number]> =>
  Type.Unsafe<W[number]>({ type: "string", enum: [...values], ...(description && { description }) });

/** An object whose keys are data. Written with additionalProperties because a pattern such as `.*` would skip keys with line ends. */
export const mapOf = <S extends TSchema>(values: S): TUnsafe<Record<string, Static<S>>> =>
  Type.Unsafe<Record<string, Static<S>>>({ type: "object", additionalProperties: values });

/** An object that belongs to somebody else: kept as it is, never looked into. */
export const openObject = (description?: string): TUnsafe<JsonObject> =>
  Type.Unsafe<JsonObject>({ type: "object", ...(description && { description }) });

/** Any JSON value. */
export const anyJson = (description?: string): TUnsafe<JsonValue> => Type.Unsafe<JsonValue>(description ? { description } : {});

export const optional = Type.Optional;

const instantPattern = /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

/** An instant with its zone, in ms since 1970; null where it is none. By arithmetic alone: this room knows no clock. */
export function parseInstant(text: string): number | null {
  const parts = instantPattern.exec(text);
  if (parts === null) return null;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(1, 7).map(Number);
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 24 || minute > 59 || second > 60) return null;
  const ms = Number((parts[7] ?? "").slice(0, 3).padEnd(3, "0"));
  const zone = (parts[8] === "-" ? -1 : 1) * (Number(parts[9] ?? 0) * 60 + Number(parts[10] ?? 0));
  return (((daysSinceEpoch(year, month, day) * 24 + hour) * 60 + minute - zone) * 60 + second) * 1_000 + ms;
}

/** Days from 1970-01-01 on, in the calendar of today for all years. Years begin in March here, so that leap days stand at their end. */
function daysSinceEpoch(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const ofYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  return y * 365 + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + ofYear - 719_468;
}

/** A package that nobody has brought is then told as a warning. */
export const allowUnknownFlag = () =>
  Type.Boolean({ description: "Take packages that no worker has brought yet; their nodes wait until one does." });
