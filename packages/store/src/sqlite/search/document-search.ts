// Full-text search of documents. They are written seldom, so their index is kept turn by turn; those without words are not in it.

import { type DocRow, searchWords } from "@astraflow/engine";
import {
  type DocumentPosition,
  documentIdRange,
  indexedWordsOf,
  type PageFor,
  parseDocumentCursor,
} from "../../common/page-filters.ts";
import type { SqliteConnection } from "../file/connection.ts";

const insertWordsSql = "INSERT INTO doc_words (rowid, words) SELECT no, ? FROM doc WHERE id = ?";
const deleteWordsSql = "DELETE FROM doc_words WHERE rowid = (SELECT no FROM doc WHERE id = ?)";

/** Before a document's row is changed or goes: its words are found by its row. */
export function unindexDocument(connection: SqliteConnection, before: DocRow, after: DocRow | null): void {
  if (before.terms !== "" && before.terms !== after?.terms) connection.write(deleteWordsSql, before.id);
}

/** After its row has been written. */
export function indexDocument(connection: SqliteConnection, before: DocRow | null, after: DocRow): void {
  if (after.terms === "" || after.terms === before?.terms) return;
  connection.write(insertWordsSql, `${collectionWord(after)} ${indexedWordsOf(after.terms)}`, after.id);
}

type DocumentList = Pick<PageFor<"docs">, "prefix" | "order">;

/** Names, cursor and order of a list; its values are those of `documentListValues`. */
export function documentBoundsSql({ prefix, order }: DocumentList, isAfter: boolean): string {
  const [sign, way] = order === "desc" ? ["<", " DESC"] : [">", ""];
  const named = prefix ? " AND doc.id >= ? AND doc.id < ?" : "";
  const after = isAfter ? ` AND (doc.sort, doc.id) ${sign} (?, ?)` : "";
  return `${named}${after} ORDER BY doc.sort${way}, doc.id${way}`;
}

export function documentListValues(query: PageFor<"docs">, after: DocumentPosition | null): string[] {
  const { above, below } = documentIdRange(query);
  const names = query.prefix ? [above, below] : [];
  return [query.tenant, query.collection, ...names, ...(after === null ? [] : [after.sort, after.id])];
}

/** Places of documents that hold all words, in the order of their list: all that are found are sorted, so ask for what is rare. */
export function searchDocuments(connection: SqliteConnection, query: PageFor<"docs">, limit: number): DocumentPosition[] {
  const words = searchWords(query.search ?? "").map((word) => `"${word}"*`);
  const match = [`"${collectionWord(query)}"`, ...words].join(" ");
  const after = parseDocumentCursor(query.after);
  const sql = `SELECT doc.sort, doc.id FROM doc_words CROSS JOIN doc ON doc.no = doc_words.rowid
    WHERE doc_words MATCH ? AND doc.tenant = ? AND doc.collection = ?${documentBoundsSql(query, after !== null)} LIMIT ?`;
  const found = connection.all(sql, match, ...documentListValues(query, after), limit);
  return found.map(([sort, id]) => ({ sort: String(sort), id: String(id) }));
}

/** A word nobody writes, made of letters and digits: the tenant and the collection. */
function collectionWord({ tenant, collection }: { readonly tenant: string; readonly collection: string }): string {
  return `\u{e000}${Buffer.from(`${tenant}/${collection}`).toString("hex")}`;
}
