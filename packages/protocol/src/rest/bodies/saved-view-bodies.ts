// REST bodies about saved views: named filters of a list.

import type { Static } from "typebox";
import { Fault, fault } from "../../faults/fault.ts";
import type { FaultCode } from "../../faults/fault-codes.ts";
import { limits } from "../../json/limits.ts";
import { exceedsBytes } from "../../json/read-json.ts";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageAsOf } from "./body-parts.ts";

export const viewPages = ["runs", "workers", "workflows", "queues", "letters", "audit", "events"] as const;

export const viewLimits = {
  /** Of all its people and tokens together. */
  perTenantMax: 1_000,
  queryKeysMax: 64,
  /** As JSON, in UTF-8. */
  queryBytesMax: 4_096,
  columnsMax: 64,
} as const;

const singleLine = (minLength: number, maxLength: number) =>
  t.string({ minLength, maxLength, pattern: "^[^\\u0000-\\u001f\\u007f]*$" });
const viewName = () => singleLine(1, limits.nameCharsMax);
const viewQueryMap = () =>
  t.map(t.string({ maxLength: viewLimits.queryBytesMax }), t.published({ maxProperties: viewLimits.queryKeysMax }));
const viewQuery = () =>
  t.union([singleLine(0, viewLimits.queryBytesMax), viewQueryMap()], {
    description: `The filter: names and words of the page's query, at most ${viewLimits.queryKeysMax}, or one line of text; ${viewLimits.queryBytesMax} bytes of JSON.`,
  });
const sharedDescription = "Everybody of the tenant sees it; only its owner and admins change it.";

const viewContent = {
  name: viewName(),
  page: t.oneOf(viewPages),
  query: viewQuery(),
  columns: t.optional(t.list(viewName(), viewLimits.columnsMax)),
};
export const ViewRequestSchema = t.object({
  ...viewContent,
  shared: t.optional(t.boolean({ description: `${sharedDescription} False where it is left out.` })),
});
export type ViewRequest = Static<typeof ViewRequestSchema>;

const viewFields = {
  viewId: t.id(),
  ...viewContent,
  shared: t.boolean({ description: sharedDescription }),
  ownerId: t.id("A user's id or a token's name."),
  revision: t.integer(1, "Raised by every change, and its ETag."),
  createdAt: t.instant(),
  updatedAt: t.instant(),
};
export const SavedViewSchema = t.object(viewFields);
export type SavedView = Static<typeof SavedViewSchema>;
export const ViewDetailSchema = t.object({ ...viewFields, asOf: asOfPosition() });
export const ViewListSchema = pageAsOf(SavedViewSchema);

const readViewBody = createBodyReader(ViewRequestSchema, {
  ignoredKeys: ["viewId", "ownerId", "revision", "createdAt", "updatedAt", "asOf"],
});
export function readViewRequest(value: unknown): ViewRequest | Fault {
  const body = readViewBody(value);
  if (body instanceof Fault) return body;
  const { queryKeysMax, queryBytesMax } = viewLimits;
  const refuseQuery = (code: FaultCode, expected: string): Fault =>
    fault(code, `body.query ${expected}`, { path: "body.query", expected });
  if (typeof body.query === "object" && Object.keys(body.query).length > queryKeysMax)
    return refuseQuery("E.REQUEST.INVALID", `must have at most ${queryKeysMax} names`);
  if (exceedsBytes(JSON.stringify(body.query), queryBytesMax))
    return refuseQuery("E.REQUEST.TOO_LARGE", `must have at most ${queryBytesMax} bytes as JSON`);
  return body;
}
