// The one place that lists every field of a document's row.

import { type DocRow, docId, type Tenant } from "../../storage/rows.ts";
import type { UnitOfWork } from "./unit-of-work.ts";

/** The next revision of a document; `before` is the present one, null where there is none. */
export function nextRevision(
  work: UnitOfWork,
  [tenant, collection, name]: readonly [Tenant, collection: string, name: string],
  before: DocRow | null,
  fields: Pick<DocRow, "due" | "sort" | "terms" | "body">,
): DocRow {
  return {
    kind: "doc",
    id: docId(tenant, collection, name),
    tenant,
    collection,
    rev: (before?.rev ?? 0) + 1,
    at: work.now,
    due: fields.due,
    sort: fields.sort,
    terms: fields.terms,
    body: fields.body,
  };
}
