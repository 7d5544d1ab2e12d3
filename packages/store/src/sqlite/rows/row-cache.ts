// A cache of rows in two generations: what was used since the last turn-over survives it, the rest is dropped at once; a hit is one look-up.
// Bounded by the number of rows and by the length of their texts.

import type { Row } from "@astraflow/engine";
import { mapKinds, type RowKind } from "../../common/row-shape.ts";

const newGeneration = () => mapKinds(() => new Map<string, Row>());

export interface RowCacheLimits {
  readonly cacheRows: number;
  /** Characters of the texts of all rows together. */
  readonly cacheChars: number;
}

export class RowCache {
  readonly #limits: RowCacheLimits;
  #young = newGeneration();
  #old = newGeneration();
  #youngRows = 0;
  #oldRows = 0;
  #youngChars = 0;
  #oldChars = 0;

  constructor(limits: RowCacheLimits) {
    this.#limits = limits;
  }

  /** An upper bound: a row in two generations counts twice. */
  get size(): number {
    return this.#youngRows + this.#oldRows;
  }

  /** An upper bound, like `size`. */
  get chars(): number {
    return this.#youngChars + this.#oldChars;
  }

  get(kind: RowKind, id: string): Row | undefined {
    const young = this.#young[kind].get(id);
    if (young !== undefined) return young;
    const old = this.#old[kind].get(id);
    if (old !== undefined) this.#insert(kind, id, old);
    return old;
  }

  set(row: Row): void {
    this.#insert(row.kind, row.id, row);
  }

  delete(kind: RowKind, id: string): void {
    const young = this.#young[kind].get(id);
    if (young !== undefined) {
      this.#young[kind].delete(id);
      this.#youngRows--;
      this.#youngChars -= longTextChars(young);
    }
    const old = this.#old[kind].get(id);
    if (old === undefined) return;
    this.#old[kind].delete(id);
    this.#oldRows--;
    this.#oldChars -= longTextChars(old);
  }

  #insert(kind: RowKind, id: string, row: Row): void {
    const rows = this.#young[kind];
    const replaced = rows.get(id);
    rows.set(id, row);
    this.#youngChars += longTextChars(row);
    if (replaced === undefined) this.#youngRows++;
    else this.#youngChars -= longTextChars(replaced);
    const { cacheRows, cacheChars } = this.#limits;
    if (this.#youngRows * 2 < cacheRows && this.#youngChars * 2 < cacheChars) return;
    this.#old = this.#young;
    this.#oldRows = this.#youngRows;
    this.#oldChars = this.#youngChars;
    this.#young = newGeneration();
    this.#youngRows = 0;
    this.#youngChars = 0;
  }
}

/** Lengths of the fields that may be long; ids and names are bounded by the number of rows. */
function longTextChars(row: Row): number {
  switch (row.kind) {
    case "task":
      return lengthOf(row.params) + lengthOf(row.state) + lengthOf(row.result) + lengthOf(row.error);
    case "run":
      return row.about.length + lengthOf(row.marks) + lengthOf(row.bindings) + lengthOf(row.cursor) + lengthOf(row.error);
    case "worker":
      return row.about.length + row.condition.length;
    case "workflow":
    case "doc":
      return row.body.length;
    case "route":
      return row.needs.length;
    case "key":
    case "ask":
      return 0;
  }
}

const lengthOf = (text: string | null): number => (text === null ? 0 : text.length);
