// Last images of rows, bounded by count. Two generations instead of a list: what was used since the last turn-over survives it, the
// rest goes at once, and a hit costs one look-up.

import type { Row } from "@astraflow/engine";
import { columnsByKind, type Kind } from "./columns.ts";

type Generation = Record<Kind, Map<string, Row>>;

function newGeneration(): Generation {
  const generation: Partial<Generation> = {};
  for (const kind of Object.keys(columnsByKind) as Kind[]) generation[kind] = new Map();
  return generation as Generation;
}

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

  get(kind: Kind, id: string): Row | undefined {
    const young = this.#young[kind].get(id);
    if (young !== undefined) return young;
    const old = this.#old[kind].get(id);
    if (old !== undefined) this.#keep(kind, id, old);
    return old;
  }

  set(row: Row): void {
    this.#keep(row.kind, row.id, row);
  }

  delete(kind: Kind, id: string): void {
    if (this.#young[kind].delete(id)) this.#youngRows--;
    if (this.#old[kind].delete(id)) this.#oldRows--;
  }

  #keep(kind: Kind, id: string, row: Row): void {
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
