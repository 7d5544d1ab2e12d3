// What a frame offers to the nodes inside: the parameters of its container, its item, its index, what the iteration before brought. Read
// from rows, and only where a node asks.

import type { IterationScope } from "@astraflow/graph";
import type { RunRow, TaskId, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { containerOf, type Slot, taskAt } from "../rows/slot.ts";

/** What a frame's row keeps as its parameters. */
interface FrameParams {
  readonly index: number;
  readonly item?: unknown;
  readonly last?: unknown;
}

export const frameText = (values: FrameParams): string => JSON.stringify(values);

export class FrameOffer implements IterationScope {
  readonly #board: Board;
  readonly #run: RunRow;
  readonly #scope: Slot;
  #own: FrameParams | null = null;

  constructor(board: Board, run: RunRow, scope: Slot) {
    this.#board = board;
    this.#run = run;
    this.#scope = scope;
  }

  get parameters(): unknown {
    return paramsOfHost(rowAt(this.#board, taskAt(this.#run.id, containerOf(this.#scope))));
  }
  get item(): unknown {
    return this.#values.item;
  }
  get index(): number {
    return this.#values.index;
  }
  get last(): unknown {
    return this.#values.last ?? {};
  }

  get #values(): FrameParams {
    this.#own ??= JSON.parse(rowAt(this.#board, taskAt(this.#run.id, this.#scope)).params ?? "{}") as FrameParams;
    return this.#own;
  }
}

function rowAt(board: Board, id: TaskId): TaskRow {
  const row = board.task(id);
  if (row === null) throw new Error(`task ${id} has no row`);
  return row;
}

/** A list of thousands would else be read again for each of its items. Of no consequence besides: a text has one meaning. */
const readLast = new Map<TaskId, { readonly text: string; readonly value: unknown }>();
const readLastMax = 16;

/** The parameters of a container's row. */
export function paramsOfHost(row: TaskRow): unknown {
  const text = row.params ?? "{}";
  const known = readLast.get(row.id);
  if (known?.text === text) return known.value;
  const value = JSON.parse(text) as unknown;
  readLast.delete(row.id);
  if (readLast.size >= readLastMax) readLast.delete(readLast.keys().next().value as TaskId);
  readLast.set(row.id, { text, value });
  return value;
}
