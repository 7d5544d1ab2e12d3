// Rows from the cells of an answer, which come in the order of row-shape.ts. Statements that select them are elsewhere.

import type { Row, RunRow, TaskRow } from "@astraflow/engine";
import { runOf } from "@astraflow/engine";
import type { RowKind } from "../../common/row-shape.ts";
import { columnsOf } from "./columns.ts";

export type ResultCells = readonly unknown[];

export function decodeRow(kind: RowKind, cells: ResultCells): Row {
  if (kind === "task") return decodeTask(cells);
  if (kind === "run") return decodeRun(cells);
  const row: Record<string, unknown> = { kind };
  for (const [at, { field, isDerived }] of columnsOf(kind).entries()) if (!isDerived) row[field] = cells[at];
  return row as unknown as Row;
}

/**
 * Tasks and runs come by the hundred and are copied with every move. A literal makes objects that are quick to make and to copy; with
 * their fields added in a loop, copying a task was the dearest step of its end.
 */
function decodeTask(cells: ResultCells): TaskRow {
  const id = cells[0] as string;
  return {
    kind: "task",
    id,
    run: runOf(id),
    phase: cells[1] as TaskRow["phase"],
    route: cells[2] as TaskRow["route"],
    pin: cells[3] as TaskRow["pin"],
    line: cells[4] as TaskRow["line"],
    band: cells[5] as TaskRow["band"],
    rank: cells[6] as TaskRow["rank"],
    needs: cells[7] as TaskRow["needs"],
    fence: cells[8] as TaskRow["fence"],
    attempt: cells[9] as TaskRow["attempt"],
    deliveries: cells[10] as TaskRow["deliveries"],
    failures: cells[11] as TaskRow["failures"],
    worker: cells[12] as TaskRow["worker"],
    boot: cells[13] as TaskRow["boot"],
    epoch: cells[14] as TaskRow["epoch"],
    acked: cells[15] as TaskRow["acked"],
    key: cells[16] as TaskRow["key"],
    due: cells[17] as TaskRow["due"],
    readyAt: cells[18] as TaskRow["readyAt"],
    grantedAt: cells[19] as TaskRow["grantedAt"],
    endedAt: cells[20] as TaskRow["endedAt"],
    params: cells[21] as TaskRow["params"],
    result: cells[22] as TaskRow["result"],
    error: cells[23] as TaskRow["error"],
    state: cells[24] as TaskRow["state"],
  };
}

function decodeRun(cells: ResultCells): RunRow {
  return {
    kind: "run",
    id: cells[0] as string,
    tenant: cells[1] as RunRow["tenant"],
    phase: cells[2] as RunRow["phase"],
    workflow: cells[3] as RunRow["workflow"],
    client: cells[4] as RunRow["client"],
    band: cells[5] as RunRow["band"],
    open: cells[6] as RunRow["open"],
    verdict: cells[7] as RunRow["verdict"],
    cursor: cells[8] as RunRow["cursor"],
    createdAt: cells[9] as RunRow["createdAt"],
    startedAt: cells[10] as RunRow["startedAt"],
    endedAt: cells[11] as RunRow["endedAt"],
    due: cells[12] as RunRow["due"],
    error: cells[13] as RunRow["error"],
    label: cells[14] as RunRow["label"],
    source: cells[15] as RunRow["source"],
    about: cells[16] as RunRow["about"],
    marks: cells[17] as RunRow["marks"],
    bindings: cells[18] as RunRow["bindings"],
  };
}
