// Field types that all schemas share: ids, names, whole numbers, instants, maps, open objects. Schemas import them as `t`.

import type { Static, TProperties, TSchema, TUnsafe } from "typebox";
import type { JsonObject, JsonValue } from "../json/json-value.ts";
import { limits } from "../json/limits.ts";
import { Type } from "./type.ts";

export const {
  Array: array,
  Boolean: boolean,
  Cyclic: cyclic,
  Integer: anyInteger,
  Intersect: intersect,
  Literal: literal,
  Number: number,
  Object: object,
  Optional: optional,
  Ref: ref,
  String: string,
  Union: union,
  Unsafe: unsafe,
} = Type;

/**
 * An option of any schema: keywords that the published document has besides those that readers check. For rules between fields, and for
 * limits, which code behind the reader checks and refuses in a better sentence than a schema could.
 */
export const published = (keywords: Readonly<Record<string, unknown>>) => ({ published: keywords });

/** An identifier. It ends up in columns, keys and log lines, so its length is bounded and it has no control characters. */
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

/** One line of text that people write. */
export const line = (maxLength: number, description?: string) =>
  Type.String({ maxLength, pattern: "^[^\\u0000-\\u001f\\u007f]*$", ...(description && { description }) });

export const text = (description?: string) =>
  Type.String({ maxLength: limits.textCharsMax, ...(description && { description }) });

export const nonEmptyText = (description?: string) =>
  Type.String({ minLength: 1, maxLength: limits.textCharsMax, ...(description && { description }) });

/** A whole number; never beyond 2^53 - 1, where a double would round it. */
export const integer = (minimum: number, description?: string) => between(minimum, Number.MAX_SAFE_INTEGER, description);

export const between = (minimum: number, maximum: number, description?: string) =>
  Type.Integer({ minimum, maximum, ...(description && { description }) });

/** An instant with its zone. The pattern rejects the calendar suffixes that the format alone accepts. */
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

export const oneOf = <const W extends readonly string[]>(values: W, description?: string): TUnsafe<W[number]> =>
  Type.Unsafe<W[number]>({ type: "string", enum: [...values], ...(description && { description }) });

/** An object whose keys are data. Written with additionalProperties because a pattern such as `.*` would skip keys with line ends. */
export const map = <S extends TSchema>(values: S, options: object = {}): TUnsafe<Record<string, Static<S>>> =>
  Type.Unsafe<Record<string, Static<S>>>({ type: "object", additionalProperties: values, ...options });

/** An object that is passed through unread. */
export const openObject = (description?: string, options: object = {}): TUnsafe<JsonObject> =>
  Type.Unsafe<JsonObject>({ type: "object", ...(description && { description }), ...options });

export const anyJson = (description?: string): TUnsafe<JsonValue> => Type.Unsafe<JsonValue>(description ? { description } : {});

export const optionalObject = <P extends TProperties>(properties: P) => Type.Optional(Type.Object(properties));

export const objectList = <P extends TProperties>(properties: P) => list(Type.Object(properties));

export const nullable = <S extends TSchema>(schema: S, description?: string) =>
  Type.Union([schema, Type.Null()], { ...(description && { description }) });

/** With this flag an unknown package is a warning instead of an error. */
export const allowUnknownFlag = () =>
  Type.Boolean({ description: "Accept packages that no worker has registered yet; their nodes wait until one does." });
