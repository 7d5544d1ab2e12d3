// Lists of documents for people: pages of those that the caller may see, bounded in number and in size.

import type { DocRow, PageQuery, StoreReader } from "@astraflow/engine";
import type { StoredRecord } from "./documents.ts";
import { decodeCursor, encodeCursor } from "./page-cursors.ts";

export interface DocumentListOptions<T> {
  readonly limit: number;
  readonly cursor: string | undefined;
  /** What is shown of a document; null: nothing. */
  readonly view: (doc: DocRow) => T | null;
  /** Tells that neither this document nor any after it is to be shown. */
  readonly isEnd?: (doc: DocRow) => boolean;
}

const documentListLimits = {
  /** Bodies are read so few at first, because each may be megabytes; then as many as those before let expect. */
  stepFirst: 4,
  stepMax: 50,
  /** A page ends behind the body that crosses this. */
  charsMax: 4 * 1024 * 1024,
  /** Looks at the store for one page, where most of what is there is not shown. */
  stepsMax: 100,
} as const;

export async function listDocuments<T>(
  reader: StoreReader,
  query: Omit<Extract<PageQuery, { page: "docs" }>, "page" | "limit" | "after">,
  options: DocumentListOptions<T>,
): Promise<{ readonly items: T[]; readonly nextCursor: string | null; readonly asOf: number }> {
  const items: T[] = [];
  let after = decodeCursor(options.cursor, (text) => text !== "");
  let chars = 0;
  let seen = 0;
  for (let steps = 1; ; steps += 1) {
    // Never more than are wanted: the cursor of a page is the one of its last document.
    const limit = Math.min(options.limit - items.length, nextStepSize(seen, chars));
    const page = await reader.page({ page: "docs", ...query, limit, ...(after !== undefined && { after }) });
    const end = page.items.findIndex((doc) => options.isEnd?.(doc) ?? false);
    for (const doc of end < 0 ? page.items : page.items.slice(0, end)) {
      chars += doc.body.length;
      const item = options.view(doc);
      if (item !== null) items.push(item);
    }
    seen += page.items.length;
    if (page.next === null || end >= 0) return { items, nextCursor: null, asOf: page.head };
    after = page.next;
    if (items.length >= options.limit || chars >= documentListLimits.charsMax || steps >= documentListLimits.stepsMax)
      return { items, nextCursor: encodeCursor(after), asOf: page.head };
  }
}

/** How many more such bodies fit, at least one. */
function nextStepSize(seen: number, chars: number): number {
  if (seen === 0) return documentListLimits.stepFirst;
  const fitting = Math.floor(((documentListLimits.charsMax - chars) * seen) / Math.max(1, chars));
  return Math.min(documentListLimits.stepMax, Math.max(1, fitting));
}

const pagesReadMax = 10;

/** A page of the records that the caller may see. If a page of the store has none, the next ones are read, up to a limit. */
export async function readVisiblePage<T>(
  list: (from: { readonly after?: string }) => Promise<{ items: readonly StoredRecord<T>[]; next: string | null; head: number }>,
  isVisible: (record: T) => boolean,
  start?: string,
): Promise<{ items: readonly StoredRecord<T>[]; next: string | null; head: number }> {
  for (let after = start, pagesRead = 1; ; pagesRead += 1) {
    const { items, next, head } = await list(after === undefined ? {} : { after });
    const found = items.filter(({ record }) => isVisible(record));
    if (found.length > 0 || next === null || pagesRead >= pagesReadMax) return { items: found, next, head };
    after = next;
  }
}
