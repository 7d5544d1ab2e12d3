// Documents by their words. They are written seldom and one by one, so their index is kept turn by turn; those without words, which
// are most of what a scheduler writes for itself, are not in it.

import { type DocRow, searchWords } from "@astraflow/engine";
import { documentIdRange, indexedWordsOf, type PageFor, parseDocumentCursor } from "../../common/page-filters.ts";
import type { SqliteCells, SqliteConnection } from "../file/connection.ts";

const insertWordsSql = "INSERT INTO doc_words (rowid, words) SELECT no, ? FROM doc WHERE id = ?";
const deleteWordsSql = "DELETE FROM doc_words WHERE rowid = (SELECT no FROM doc WHERE id = ?)";

/** Before a document's row is changed or goes: its words are found by its row. */
export function unindexDocument(connection: SqliteConnection, before: DocRow, after: DocRow | null): void {
  if (before.terms !== "" && before.terms !== after?.terms) connection.run(connection.prepare(deleteWordsSql), [before.id]);
}

/** After its row has been written. */
export function indexDocument(connection: SqliteConnection, before: DocRow | null, after: DocRow): void {
  if (after.terms === "" || after.terms === before?.terms) return;
  connection.run(connection.prepare(insertWordsSql), [`${collectionWord(after)} ${indexedWordsOf(after.terms)}`, after.id]);
}

function foundDocumentsSql(query: Pick<PageFor<"docs">, "prefix" | "order">, isAfter: boolean): string {
  const [sign, way] = query.order === "desc" ? ["<", " DESC"] : [">", ""];
  const named = query.prefix ? " AND doc.id >= ? AND doc.id < ?" : "";
  const after = isAfter ? ` AND (doc.sort, doc.id) ${sign} (?, ?)` : "";
  return `SELECT doc.sort, doc.id FROM doc_words CROSS JOIN doc ON doc.no = doc_words.rowid
    WHERE doc_words MATCH ? AND doc.tenant = ? AND doc.collection = ?${named}${after} ORDER BY doc.sort${way}, doc.id${way} LIMIT ?`;
}

/** Places of documents that hold all words, in the order of their list: all that are found are sorted, so ask for what is rare. */
export function searchDocuments(connection: SqliteConnection, query: PageFor<"docs">, limit: number): SqliteCells[] {
  const words = searchWords(query.search ?? "").map((word) => `"${word}"*`);
  const match = [`"${collectionWord(query)}"`, ...words].join(" ");
  const after = parseDocumentCursor(query.after);
  const { above, below } = documentIdRange(query);
  const range = query.prefix ? [above, below] : [];
  const from = after === null ? [] : [after.sort, after.id];
  return connection.all(
    foundDocumentsSql(query, after !== null),
    match,
    query.tenant,
    query.collection,
    ...range,
    ...from,
    limit,
  );
}

/** A word nobody writes, made of letters and digits: the tenant and the collection. */
function collectionWord({ tenant, collection }: { readonly tenant: string; readonly collection: string }): string {
  return `\u{e000}${Buffer.from(`${tenant}/${collection}`).toString("hex")}`;
}
