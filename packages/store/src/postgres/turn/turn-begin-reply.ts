// What the function that begins turns answers, read into rows and keys. It belongs to begin-function.ts: one names the fields, the other
// reads them.

import type { Mail, Millis, Row, RowKey, TaskListQuery, TaskRow, WorkerRow } from "@astraflow/engine";
import { keyOf } from "@astraflow/engine";
import { dueKinds, type RowKind } from "../../common/row-shape.ts";
import { rootKinds, sharedKinds } from "../sql/columns.ts";
import { decodeRow, type ResultCells } from "../sql/row-decoder.ts";
import type { BeginRequest } from "./turn-begin-request.ts";

type NumberedCells = readonly [number, ResultCells];

/** The JSON as it comes; what was not asked for is null. */
export interface TurnBeginReply {
  readonly now: Millis | null;
  /** What the clock said; `now` is later where more had been stored. */
  readonly instant: Millis | null;
  readonly next: Millis | null;
  readonly busy: readonly RowKey[];
  readonly loose: readonly RowKey[];
  readonly claimed: readonly ResultCells[] | null;
  readonly brought: readonly ResultCells[] | null;
  readonly dueWorker: readonly ResultCells[] | null;
  readonly dueKey: readonly ResultCells[] | null;
  readonly dueDoc: readonly ResultCells[] | null;
  readonly guarded: readonly ResultCells[] | null;
  readonly range: readonly NumberedCells[] | null;
  readonly open: readonly NumberedCells[] | null;
  readonly held: readonly NumberedCells[] | null;
  readonly look: readonly NumberedCells[] | null;
  readonly address: readonly ResultCells[] | null;
  readonly mail: readonly (readonly [seq: number, id: string, body: string])[] | null;
  readonly [rows: string]: unknown;
}

/** Every row under a root that is now ours. */
export function decodeTakenRows(reply: TurnBeginReply): Row[] {
  const rows: Row[] = [];
  const add = (kind: RowKind, cells: readonly ResultCells[] | null | undefined) => {
    for (const one of cells ?? []) rows.push(decodeRow(kind, one));
  };
  for (const kind of [...rootKinds, ...sharedKinds, "task"] as const) add(kind, reply[kind] as readonly ResultCells[] | null);
  add("task", reply.claimed);
  add("run", reply.brought);
  add("worker", reply.dueWorker);
  add("key", reply.dueKey);
  add("doc", reply.dueDoc);
  add("doc", reply.guarded);
  for (const [, cells] of [...(reply.open ?? []), ...(reply.range ?? [])]) rows.push(decodeRow("task", cells));
  return rows;
}

export function claimedKeysOf(reply: TurnBeginReply): RowKey[] {
  return (reply.claimed ?? []).map((cells): RowKey => `task/${String(cells[0])}`);
}

/** The keys of rows that were due when the function looked, of all kinds. */
export function dueKeysOf(reply: TurnBeginReply): RowKey[] {
  return dueKinds.flatMap((kind) =>
    ((reply[`due_${kind}`] as readonly string[] | null) ?? []).map((id): RowKey => `${kind}/${id}`),
  );
}

/** Rows whose time has come, oldest first, ties by key. */
export function sortByDueTime(rows: readonly Row[], now: Millis, limit: number): Row[] {
  return rows
    .flatMap((row) => ("due" in row && row.due !== null && row.due <= now ? [{ row, due: row.due, key: keyOf(row) }] : []))
    .sort((a, b) => a.due - b.due || (a.key < b.key ? -1 : 1))
    .slice(0, limit)
    .map((one) => one.row);
}

/** Each list that was asked for with its tasks, in its order. */
export function decodeTaskLists(reply: TurnBeginReply, request: BeginRequest): [TaskListQuery, TaskRow[]][] {
  const lists: [TaskListQuery, TaskRow[]][] = [];
  for (const [asked, counted] of [
    [request.open, reply.open],
    [request.range, reply.range],
    [request.held, reply.held],
    [request.look, reply.look],
  ] as const) {
    const found = asked.map((list): [TaskListQuery, TaskRow[]] => [list, []]);
    for (const [at, cells] of counted ?? []) found[at - 1]?.[1].push(decodeRow("task", cells));
    lists.push(...found);
  }
  return lists;
}

/** Workers that were looked at and not taken. */
export function decodeAddresses(reply: TurnBeginReply): WorkerRow[] {
  return (reply.address ?? []).map((cells) => decodeRow("worker", cells));
}

export function decodeMail(reply: TurnBeginReply, replica: string, epoch: number): { seq: number; mail: Mail }[] {
  return (reply.mail ?? []).map(([seq, id, body]) => ({ seq, mail: { replica, epoch, id, body } }));
}

/** The order of a line. */
export function compareQueuedTasks(a: TaskRow, b: TaskRow): number {
  return a.band - b.band || (a.rank ?? 0) - (b.rank ?? 0) || (a.id < b.id ? -1 : 1);
}
