// Rows from the cells of an answer, which come in the order of row-shape.ts. Statements that select them are elsewhere.

import type { RunRow, TaskRow } from "@astraflow/engine";
import { runOf } from "@astraflow/engine";
import type { RowKind, RowOfKind } from "../../common/row-shape.ts";
import { columnsOf } from "./columns.ts";

export type ResultCells = readonly unknown[];

/** The one place that believes the database: whether the columns fit the row's phase, the engine checks when it loads the row. */
export function decodeRow<K extends RowKind>(kind: K, cells: ResultCells): RowOfKind<K> {
  const columns = kind === "task" ? taskColumns(cells) : kind === "run" ? runColumns(cells) : columnsOfKind(kind, cells);
  return columns as unknown as RowOfKind<K>;
}

function columnsOfKind(kind: RowKind, cells: ResultCells): Record<string, unknown> {
  const row: Record<string, unknown> = { kind };
  for (const [at, { field, isDerived }] of columnsOf(kind).entries()) if (!isDerived) row[field] = cells[at];
  return row;
}

/**
 * Tasks and runs come by the hundred and are copied with every move. A literal makes objects that are quick to make and to copy; with
 * their fields added in a loop, copying a task was the dearest step of its end.
 */
function taskColumns(cells: ResultCells): Record<keyof TaskRow, unknown> {
  const id = cells[0] as string;
  return {
    kind: "task",
    id,
    run: runOf(id),
    phase: cells[1],
    route: cells[2],
    pin: cells[3],
    line: cells[4],
    band: cells[5],
    rank: cells[6],
    needs: cells[7],
    fence: cells[8],
    attempt: cells[9],
    deliveries: cells[10],
    failures: cells[11],
    worker: cells[12],
    boot: cells[13],
    epoch: cells[14],
    acked: cells[15],
    key: cells[16],
    due: cells[17],
    readyAt: cells[18],
    grantedAt: cells[19],
    endedAt: cells[20],
    params: cells[21],
    result: cells[22],
    error: cells[23],
    state: cells[24],
  };
}

function runColumns(cells: ResultCells): Record<keyof RunRow, unknown> {
  return {
    kind: "run",
    id: cells[0],
    tenant: cells[1],
    phase: cells[2],
    workflow: cells[3],
    client: cells[4],
    band: cells[5],
    open: cells[6],
    verdict: cells[7],
    cursor: cells[8],
    createdAt: cells[9],
    startedAt: cells[10],
    endedAt: cells[11],
    due: cells[12],
    error: cells[13],
    label: cells[14],
    source: cells[15],
    about: cells[16],
    marks: cells[17],
    bindings: cells[18],
  };
}
