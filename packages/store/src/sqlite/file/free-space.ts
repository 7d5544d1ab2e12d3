// Gives pages that removed rows have left back to the disk. Files that were made without this ability keep them: new rows reuse them.

import type { DatabaseSync } from "node:sqlite";

/** Before the first table: a file keeps the mode it was made with. */
export const autoVacuumPragma = "PRAGMA auto_vacuum = INCREMENTAL";
const incrementalMode = 2;

/** New rows need free pages anyway: this many are kept, and this share of the file. */
const freePagesKept = 1_024;
const freeShareKept = 0.1;

export interface FreeSpace {
  readonly pageBytes: number;
  readonly pages: number;
  readonly freePages: number;
  /** Whether free pages can be given back while the store is in use. */
  readonly canShrink: boolean;
}

export function readFreeSpace(db: DatabaseSync): FreeSpace {
  const number = (pragma: string): number => Number(Object.values(db.prepare(`PRAGMA ${pragma}`).get() ?? {})[0] ?? 0);
  return {
    pageBytes: number("page_size"),
    pages: number("page_count"),
    freePages: number("freelist_count"),
    canShrink: number("auto_vacuum") === incrementalMode,
  };
}

/** Answers how many pages went, in a transaction of its own. */
export function releaseFreePages(db: DatabaseSync, pagesMax: number): number {
  const { pages, freePages, canShrink } = readFreeSpace(db);
  const excess = freePages - Math.max(freePagesKept, Math.ceil(pages * freeShareKept));
  if (!canShrink || excess <= 0) return 0;
  db.exec(`PRAGMA incremental_vacuum(${Math.min(pagesMax, excess)})`);
  return pages - readFreeSpace(db).pages;
}
