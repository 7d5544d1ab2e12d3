// Last images of rows, bounded by count. Two generations instead of a list: what was used since the last turn-over survives it, the
// rest goes at once, and a hit costs one look-up. Ended tasks and runs live in a small corner of their own and leave first.

import type { Row } from "@astraflow/engine";
import { hasEnded } from "../unit-check.ts";
import { columnsByKind, type Kind } from "./columns.ts";

type Generation = Record<Kind, Map<string, Row>>;

function newGeneration(): Generation {
  const generation: Partial<Generation> = {};
  for (const kind of Object.keys(columnsByKind) as Kind[]) generation[kind] = new Map();
  return generation as Generation;
}

export class RowCache {
  readonly #rowsMax: number;
  readonly #endedMax: number;
  #young = newGeneration();
  #old = newGeneration();
  #ended = newGeneration();
  #youngRows = 0;
  #oldRows = 0;
  #endedRows = 0;

  constructor(rowsMax: number) {
    this.#endedMax = Math.floor(rowsMax / 16);
    this.#rowsMax = rowsMax - this.#endedMax;
  }

  /** An upper bound: a row in two generations counts twice. */
  get size(): number {
    return this.#youngRows + this.#oldRows + this.#endedRows;
  }

  get(kind: Kind, id: string): Row | undefined {
    const young = this.#young[kind].get(id);
    if (young !== undefined) return young;
    const old = this.#old[kind].get(id);
    if (old === undefined) return this.#ended[kind].get(id);
    this.#keep(kind, id, old);
    return old;
  }

  set(row: Row): void {
    if (!hasEnded(row)) {
      // A row that lives again must not be found dead once its young image has gone.
      if (this.#ended[row.kind].delete(row.id)) this.#endedRows--;
      return this.#keep(row.kind, row.id, row);
    }
    this.#forget(row.kind, row.id);
    if (this.#endedRows >= this.#endedMax) {
      this.#ended = newGeneration();
      this.#endedRows = 0;
    }
    if (!this.#ended[row.kind].has(row.id)) this.#endedRows++;
    this.#ended[row.kind].set(row.id, row);
  }

  delete(kind: Kind, id: string): void {
    this.#forget(kind, id);
    if (this.#ended[kind].delete(id)) this.#endedRows--;
  }

  clear(): void {
    this.#young = newGeneration();
    this.#old = newGeneration();
    this.#ended = newGeneration();
    this.#youngRows = 0;
    this.#oldRows = 0;
    this.#endedRows = 0;
  }

  #keep(kind: Kind, id: string, row: Row): void {
    const rows = this.#young[kind];
    const size = rows.size;
    rows.set(id, row);
    if (rows.size === size) return;
    this.#youngRows++;
    if (this.#youngRows * 2 <= this.#rowsMax) return;
    this.#old = this.#young;
    this.#oldRows = this.#youngRows;
    this.#young = newGeneration();
    this.#youngRows = 0;
  }

  #forget(kind: Kind, id: string): void {
    if (this.#young[kind].delete(id)) this.#youngRows--;
    if (this.#old[kind].delete(id)) this.#oldRows--;
  }
}
