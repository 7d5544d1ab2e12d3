// What the bodies of the REST API share: the log position they are true at, pages of items, and how a request body is read.

import type { Static, TSchema } from "typebox";
import type { Fault } from "../../faults/fault.ts";
import { isRecord } from "../../json/json-value.ts";
import * as t from "../../schema/field-types.ts";
import { createSchemaReader, type SchemaReaderOptions } from "../../schema/schema-reader.ts";

export const asOfPosition = () => t.integer(0, "Position of the tenant's log at which this is true.");

const pageFields = <S extends TSchema>(items: S) => ({
  items: t.array(items),
  nextCursor: t.nullable(t.string(), "null at the end."),
});
export const pageOf = <S extends TSchema>(items: S) => t.object({ ...pageFields(items), asOf: t.optional(asOfPosition()) });
/** A page that always states its log position. */
export const pageAsOf = <S extends TSchema>(items: S) => t.object({ ...pageFields(items), asOf: asOfPosition() });

export interface BodyReaderOptions extends Partial<SchemaReaderOptions> {
  /** Fields that the server fills in: somebody who reads the object, changes it and sends it back has them in the body. */
  readonly ignoredKeys?: readonly string[];
}

/** A reader of request bodies. A misspelt field must not count as left out, so unknown keys are refused unless the options say otherwise. */
export function createBodyReader<S extends TSchema>(
  schema: S,
  { ignoredKeys = [], ...options }: BodyReaderOptions = {},
): (value: unknown) => Static<S> | Fault {
  const reader = createSchemaReader(schema, { code: "E.REQUEST.INVALID", subject: "body", unknownKeys: "refuse", ...options });
  return (value) => reader.read(ignoredKeys.length === 0 ? value : withoutKeys(value, ignoredKeys));
}

function withoutKeys(value: unknown, keys: readonly string[]): unknown {
  if (!isRecord(value) || !keys.some((key) => Object.hasOwn(value, key))) return value;
  const rest = { ...value };
  for (const key of keys) delete rest[key];
  return rest;
}
