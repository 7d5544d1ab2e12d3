// The call of the function that begins turns, and what its reply means. begin-function.ts names the arguments and the fields of the reply.

import type { Mail, Millis, Row, RowKey, TaskListQuery, TaskRow, TurnRequest, WorkerId } from "@astraflow/engine";
import { keyOf, rootOf, runKey, splitKey } from "@astraflow/engine";
import { compareDeadlines } from "../../common/row-order.ts";
import { dueKinds, type RowKind } from "../../common/row-shape.ts";
import { beginTurnFunction } from "../sql/begin-function.ts";
import { decodeRow, listOf, type ResultCells, rootKinds, sharedKinds } from "../sql/columns.ts";
import { functionCallSql, isStorable, numberArrayLiteral, textArrayLiteral } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";

export interface BeginRequest {
  readonly callSql: string;
  /** The lists asked for, by the field of the reply that has them, in the order in which it counts them. */
  readonly lists: Readonly<Record<"open" | "range" | "held" | "look", readonly TaskListQuery[]>>;
  /** Roots that will be taken or found busy. */
  readonly roots: ReadonlySet<RowKey>;
}

type RowsToLoad = Pick<TurnRequest, "rows" | "lists"> & Partial<TurnRequest> & { readonly addresses?: readonly WorkerId[] };

/** `caller`: arguments that say who asks and how its time is told; none when rows are added to a turn that has begun. */
export function createBeginRequest(
  load: RowsToLoad,
  caller: Readonly<Record<string, string | number>>,
  hasTaken: (root: RowKey) => boolean,
): BeginRequest {
  const roots = new Set<RowKey>();
  const ids: Record<RowKind, string[]> = { run: [], task: [], worker: [], key: [], route: [], workflow: [], ask: [], doc: [] };
  const addRoot = (root: RowKey) => {
    if (roots.has(root) || hasTaken(root)) return;
    roots.add(root);
    const [kind, id] = splitKey(root);
    ids[kind].push(id);
  };
  const tasks = new Set<string>();
  const guarded = new Set<string>();
  for (const key of load.rows) {
    // No table can hold such a name, so there is nothing to lock and nothing to find.
    if (!isStorable(key)) continue;
    const root = rootOf(key);
    addRoot(root);
    if (key.startsWith("task/")) tasks.add(key.slice(5));
    else if (root !== key) guarded.add(key.slice(4));
  }
  ids.task.push(...tasks);
  const open = load.lists.filter((list) => list.of === "open");
  const range = load.lists.filter((list) => list.of === "range");
  const held = load.lists.filter((list) => list.of === "held");
  const look = load.lists.filter((list) => list.of === "line");
  for (const list of [...open, ...range]) addRoot(runKey(list.run));
  const claims = mergeClaims(load.claims ?? []);
  const skip = skippedIdsByKind(load.skip ?? []);
  const callSql = functionCallSql(`${schemaName}.${beginTurnFunction.name}`, {
    ...caller,
    ...Object.fromEntries(Object.entries(ids).map(([kind, list]) => [kind, textsArgument(list)])),
    line: textsArgument([...claims.keys()]),
    limit: numbersArgument([...claims.values()]),
    open: textsArgument(open.map((list) => list.run)),
    open_from: textsArgument(open.map((list) => (list.after === "" ? `${list.run}.` : list.after))),
    open_limit: limitsArgument(open),
    range: textsArgument(range.map((list) => list.run)),
    range_from: textsArgument(range.map((list) => (list.after < `${list.run}.` ? `${list.run}.` : list.after))),
    range_to: textsArgument(range.map((list) => list.last)),
    range_limit: limitsArgument(range),
    guarded: textsArgument([...guarded]),
    held: textsArgument(held.map((list) => list.worker)),
    held_limit: limitsArgument(held),
    look: textsArgument(look.map((list) => list.line)),
    look_limit: limitsArgument(look),
    address: textsArgument((load.addresses ?? []).filter(isStorable)),
    due: limitArgument(load.due),
    mail: limitArgument(load.mail),
    skip_run: textsArgument(skip.run),
    skip_worker: textsArgument(skip.worker),
    skip_key: textsArgument(skip.key),
    skip_doc: textsArgument(skip.doc),
  });
  return { callSql, lists: { open, range, held, look }, roots };
}

/** A line that is claimed twice is claimed once for both. */
function mergeClaims(claims: TurnRequest["claims"]): Map<string, number> {
  const limits = new Map<string, number>();
  for (const { line, limit } of claims) if (limit > 0) limits.set(line, (limits.get(line) ?? 0) + limit);
  return limits;
}

function skippedIdsByKind(skip: readonly RowKey[]) {
  const ids = { run: [] as string[], worker: [] as string[], key: [] as string[], doc: [] as string[] };
  for (const key of skip) {
    const [kind, id] = splitKey(rootOf(key));
    if (kind in ids) ids[kind as keyof typeof ids].push(id);
  }
  return ids;
}

// An empty list or a limit of zero is left out: the function's default stands.
const textsArgument = (texts: readonly string[]) => (texts.length === 0 ? undefined : textArrayLiteral(texts));
const numbersArgument = (numbers: readonly number[]) => (numbers.length === 0 ? undefined : numberArrayLiteral(numbers));
const limitsArgument = (lists: readonly TaskListQuery[]) => numbersArgument(lists.map(({ limit }) => Math.max(0, limit)));
const limitArgument = (limit: number | undefined) => (limit !== undefined && limit > 0 ? limit : undefined);

/** The JSON as it comes: rows, lists and ids under the names that begin-function.ts gives them; what was not asked for is null. */
export interface TurnBeginReply {
  readonly now: Millis | null;
  /** What the clock said; `now` is later where more had been stored. */
  readonly instant: Millis | null;
  readonly next: Millis | null;
  readonly busy: readonly RowKey[];
  readonly loose: readonly RowKey[];
  readonly mail: readonly (readonly [seq: number, id: string, body: string])[] | null;
  readonly [field: string]: unknown;
}

/** Fields with rows under roots that are now ours. */
export const rowFields: readonly (readonly [field: string, kind: RowKind])[] = [
  ...[...rootKinds, ...sharedKinds, "task" as const].map((kind) => [kind, kind] as const),
  ["claimed", "task"],
  ["brought", "run"],
  ["dueWorker", "worker"],
  ["dueKey", "key"],
  ["dueDoc", "doc"],
  ["guarded", "doc"],
];

export function claimedKeysOf(reply: TurnBeginReply): RowKey[] {
  return listOf<ResultCells>(reply.claimed).map((cells): RowKey => `task/${String(cells[0])}`);
}

/** The keys of rows that were due when the function looked, of all kinds. */
export function dueKeysOf(reply: TurnBeginReply): RowKey[] {
  return dueKinds.flatMap((kind) => listOf<string>(reply[`due_${kind}`]).map((id): RowKey => `${kind}/${id}`));
}

/** Rows whose time has come, oldest first. */
export function sortByDueTime(rows: readonly Row[], now: Millis, limit: number): Row[] {
  return rows
    .flatMap((row) => ("due" in row && row.due !== null && row.due <= now ? [{ row, due: row.due, key: keyOf(row) }] : []))
    .sort(compareDeadlines)
    .slice(0, limit)
    .map((one) => one.row);
}

/** Each list that was asked for with its tasks, in its order. */
export function decodeTaskLists(reply: TurnBeginReply, request: BeginRequest): [TaskListQuery, TaskRow[]][] {
  return Object.entries(request.lists).flatMap(([field, asked]) => {
    const found = asked.map((list): [TaskListQuery, TaskRow[]] => [list, []]);
    for (const [at, cells] of listOf<readonly [number, ResultCells]>(reply[field]))
      found[at - 1]?.[1].push(decodeRow("task", cells));
    return found;
  });
}

export function decodeMail(reply: TurnBeginReply, replica: string, epoch: number): { seq: number; mail: Mail }[] {
  return (reply.mail ?? []).map(([seq, id, body]) => ({ seq, mail: { replica, epoch, id, body } }));
}
