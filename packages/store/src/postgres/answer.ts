// What the function that begins turns answers, read into rows and keys. It belongs to begin-sql.ts: one names the fields, the other
// reads them.

import type { Mail, Millis, Row, RowKey, TaskListQuery, TaskRow, WorkerRow } from "@astraflow/engine";
import { keyOf } from "@astraflow/engine";
import { dueKinds, type Kind, rootKinds, sharedKinds } from "./columns.ts";
import type { Request } from "./request.ts";
import { type Cells, rowOf } from "./rows.ts";

type Counted = readonly [number, Cells];

/** The JSON as it comes; what was not asked for is null. */
export interface Reply {
  readonly now: Millis | null;
  /** What the clock said; `now` is later where more had been stored. */
  readonly instant: Millis | null;
  readonly next: Millis | null;
  readonly busy: readonly RowKey[];
  readonly loose: readonly RowKey[];
  readonly claimed: readonly Cells[] | null;
  readonly brought: readonly Cells[] | null;
  readonly dueWorker: readonly Cells[] | null;
  readonly dueKey: readonly Cells[] | null;
  readonly dueDoc: readonly Cells[] | null;
  readonly guarded: readonly Cells[] | null;
  readonly range: readonly Counted[] | null;
  readonly open: readonly Counted[] | null;
  readonly held: readonly Counted[] | null;
  readonly look: readonly Counted[] | null;
  readonly address: readonly Cells[] | null;
  readonly mail: readonly (readonly [seq: number, id: string, body: string])[] | null;
  readonly [rows: string]: unknown;
}

/** Every row under a root that is now ours. */
export function rowsOf(reply: Reply): Row[] {
  const rows: Row[] = [];
  const add = (kind: Kind, cells: readonly Cells[] | null | undefined) => {
    for (const one of cells ?? []) rows.push(rowOf(kind, one));
  };
  for (const kind of [...rootKinds, ...sharedKinds, "task"] as const) add(kind, reply[kind] as readonly Cells[] | null);
  add("task", reply.claimed);
  add("run", reply.brought);
  add("worker", reply.dueWorker);
  add("key", reply.dueKey);
  add("doc", reply.dueDoc);
  add("doc", reply.guarded);
  for (const [, cells] of [...(reply.open ?? []), ...(reply.range ?? [])]) rows.push(rowOf("task", cells));
  return rows;
}

export function claimedKeysOf(reply: Reply): RowKey[] {
  return (reply.claimed ?? []).map((cells): RowKey => `task/${String(cells[0])}`);
}

/** The keys of rows that were due when the function looked, of all kinds. */
export function dueKeysOf(reply: Reply): RowKey[] {
  return dueKinds.flatMap((kind) =>
    ((reply[`due_${kind}`] as readonly string[] | null) ?? []).map((id): RowKey => `${kind}/${id}`),
  );
}

/** Rows whose time has come, oldest first, ties by key. */
export function inOrderOfDue(rows: readonly Row[], now: Millis, limit: number): Row[] {
  return rows
    .flatMap((row) => ("due" in row && row.due !== null && row.due <= now ? [{ row, due: row.due, key: keyOf(row) }] : []))
    .sort((a, b) => a.due - b.due || (a.key < b.key ? -1 : 1))
    .slice(0, limit)
    .map((one) => one.row);
}

/** Each list that was asked for with its tasks, in its order. */
export function listsOf(reply: Reply, request: Request): [TaskListQuery, TaskRow[]][] {
  const lists: [TaskListQuery, TaskRow[]][] = [];
  for (const [asked, counted] of [
    [request.open, reply.open],
    [request.range, reply.range],
    [request.held, reply.held],
    [request.look, reply.look],
  ] as const) {
    const found = asked.map((list): [TaskListQuery, TaskRow[]] => [list, []]);
    for (const [at, cells] of counted ?? []) found[at - 1]?.[1].push(rowOf("task", cells) as TaskRow);
    lists.push(...found);
  }
  return lists;
}

/** Workers that were looked at and not taken. */
export function addressesOf(reply: Reply): WorkerRow[] {
  return (reply.address ?? []).map((cells) => rowOf("worker", cells) as WorkerRow);
}

export function mailOf(reply: Reply, replica: string, epoch: number): { seq: number; mail: Mail }[] {
  return (reply.mail ?? []).map(([seq, id, body]) => ({ seq, mail: { replica, epoch, id, body } }));
}

/** The order of a line. */
export function byStanding(a: TaskRow, b: TaskRow): number {
  return a.band - b.band || (a.rank ?? 0) - (b.rank ?? 0) || (a.id < b.id ? -1 : 1);
}
