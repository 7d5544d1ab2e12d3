// A cache of rows in two generations: what was used since the last turn-over survives it, the rest is dropped at once; a hit is one look-up.

import type { Row } from "@astraflow/engine";
import { mapKinds, type RowKind } from "../../common/row-shape.ts";

const newGeneration = () => mapKinds(() => new Map<string, Row>());

export class RowCache {
  readonly #rowsMax: number;
  #young = newGeneration();
  #old = newGeneration();
  #youngRows = 0;
  #oldRows = 0;

  constructor(rowsMax: number) {
    this.#rowsMax = rowsMax;
  }

  /** An upper bound: a row in two generations counts twice. */
  get size(): number {
    return this.#youngRows + this.#oldRows;
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
    if (this.#young[kind].delete(id)) this.#youngRows--;
    if (this.#old[kind].delete(id)) this.#oldRows--;
  }

  #insert(kind: RowKind, id: string, row: Row): void {
    const rows = this.#young[kind];
    const size = rows.size;
    rows.set(id, row);
    if (rows.size === size) return;
    this.#youngRows++;
    if (this.#youngRows * 2 < this.#rowsMax) return;
    this.#old = this.#young;
    this.#oldRows = this.#youngRows;
    this.#young = newGeneration();
    this.#youngRows = 0;
  }
}
