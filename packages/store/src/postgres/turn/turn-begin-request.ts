// What a turn asks for, as one call of the function that begins turns. What it answers is read in answer.ts.

import type { RowKey, TaskListQuery, TurnRequest, WorkerId } from "@astraflow/engine";
import { rootOf, splitKey } from "@astraflow/engine";
import type { RowKind } from "../../common/row-shape.ts";
import { functionCallSql, isStorable, numberArrayLiteral, textArrayLiteral, textLiteral } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";
import { beginTurnFunction } from "../sql/turn-functions.ts";

export interface BeginRequest {
  readonly callSql: string;
  /** The lists asked for, in the order in which the answer counts them. */
  readonly open: readonly OpenList[];
  readonly range: readonly Extract<TaskListQuery, { of: "range" }>[];
  readonly held: readonly Extract<TaskListQuery, { of: "held" }>[];
  readonly look: readonly Extract<TaskListQuery, { of: "line" }>[];
  /** Roots that will be taken or found busy. */
  readonly roots: ReadonlySet<RowKey>;
}

type OpenList = Extract<TaskListQuery, { of: "open" }>;

/** Who asks, and how its time is told. Left out when rows are added to a turn that has begun. */
export interface TurnBeginRequester {
  readonly replica: string;
  readonly epoch: number;
  readonly nonce: string;
  readonly born: number;
  readonly scale: number;
  readonly ahead: number;
}

export type RowsToLoad = Pick<TurnRequest, "rows" | "lists"> &
  Partial<TurnRequest> & { readonly addresses?: readonly WorkerId[] };

export function createBeginRequest(
  load: RowsToLoad,
  caller: TurnBeginRequester | null,
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
  const held = load.lists.filter((list) => list.of === "held");
  const look = load.lists.filter((list) => list.of === "line");
  const range = load.lists.filter((list) => list.of === "range");
  for (const list of [...open, ...range]) addRoot(`run/${list.run}`);
  const claims = mergeClaims(load.claims ?? []);
  const skip = skippedIdsByKind(load.skip ?? []);
  const call = functionCallSql(`${schemaName}.${beginTurnFunction.name}`, {
    ...(caller === null ? {} : { ...caller, replica: textLiteral(caller.replica) }),
    ...Object.fromEntries(Object.entries(ids).map(([kind, list]) => [kind, optionalTextArray(list)])),
    line: optionalTextArray([...claims.keys()]),
    limit: optionalNumberArray([...claims.values()]),
    open: optionalTextArray(open.map((list) => list.run)),
    open_from: optionalTextArray(open.map((list) => (list.after === "" ? `${list.run}.` : list.after))),
    open_limit: optionalNumberArray(open.map((list) => Math.max(0, list.limit))),
    range: optionalTextArray(range.map((list) => list.run)),
    range_from: optionalTextArray(range.map((list) => (list.after < `${list.run}.` ? `${list.run}.` : list.after))),
    range_to: optionalTextArray(range.map((list) => list.last)),
    range_limit: optionalNumberArray(range.map((list) => Math.max(0, list.limit))),
    guarded: optionalTextArray([...guarded]),
    held: optionalTextArray(held.map((list) => list.worker)),
    held_limit: optionalNumberArray(held.map((list) => Math.max(0, list.limit))),
    look: optionalTextArray(look.map((list) => list.line)),
    look_limit: optionalNumberArray(look.map((list) => Math.max(0, list.limit))),
    address: optionalTextArray((load.addresses ?? []).filter(isStorable)),
    due: optionalLimit(load.due),
    mail: optionalLimit(load.mail),
    skip_run: optionalTextArray(skip.run),
    skip_worker: optionalTextArray(skip.worker),
    skip_key: optionalTextArray(skip.key),
    skip_doc: optionalTextArray(skip.doc),
  });
  return { callSql: call, open, range, held, look, roots };
}

/** A line that is claimed twice is claimed once for both. */
function mergeClaims(claims: TurnRequest["claims"]): Map<string, number> {
  const limits = new Map<string, number>();
  for (const { line, limit } of claims) if (limit > 0) limits.set(line, (limits.get(line) ?? 0) + limit);
  return limits;
}

type SkippableKind = "run" | "worker" | "key" | "doc";

function skippedIdsByKind(skip: readonly RowKey[]): Record<SkippableKind, string[]> {
  const ids: Record<string, string[]> = { run: [], worker: [], key: [], doc: [] };
  for (const key of skip) {
    const [kind, id] = splitKey(rootOf(key));
    ids[kind]?.push(id);
  }
  return ids as Record<SkippableKind, string[]>;
}

const optionalTextArray = (list: readonly string[]): string | undefined =>
  list.length === 0 ? undefined : textArrayLiteral(list);
const optionalNumberArray = (list: readonly number[]): string | undefined =>
  list.length === 0 ? undefined : numberArrayLiteral(list);
const optionalLimit = (limit: number | undefined): number | undefined => (limit !== undefined && limit > 0 ? limit : undefined);
