// What the bodies of the REST API share: the log position they are true at, pages of items, and how a request body is read.

import type { Static, TSchema } from "typebox";
import type { Fault } from "../../faults/fault.ts";
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

/** A reader of request bodies; unknown keys are dropped unless the options say otherwise. */
export function createBodyReader<S extends TSchema>(
  schema: S,
  options: Partial<SchemaReaderOptions> = {},
): (value: unknown) => Static<S> | Fault {
  const reader = createSchemaReader(schema, { code: "E.REQUEST.INVALID", subject: "body", unknownKeys: "drop", ...options });
  return (value) => reader.read(value);
}
