// What a turn asks for, as one call of the function that begins turns. What it answers is read in answer.ts.

import type { RowKey, TaskListQuery, TurnRequest, WorkerId } from "@astraflow/engine";
import { rootOf, splitKey } from "@astraflow/engine";
import { isStorable, type Kind } from "./columns.ts";
import { callText, numberArray, textArray, textValue } from "./literal.ts";
import { beginFunction } from "./migrations.ts";
import { schema } from "./schema.ts";

export interface Request {
  readonly call: string;
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
export interface Asker {
  readonly replica: string;
  readonly epoch: number;
  readonly nonce: string;
  readonly born: number;
  readonly scale: number;
  readonly ahead: number;
}

export type Wish = Pick<TurnRequest, "rows" | "lists"> & Partial<TurnRequest> & { readonly addresses?: readonly WorkerId[] };

export function requestOf(wish: Wish, asker: Asker | null, hasTaken: (root: RowKey) => boolean): Request {
  const roots = new Set<RowKey>();
  const ids: Record<Kind, string[]> = { run: [], task: [], worker: [], key: [], route: [], workflow: [], ask: [], doc: [] };
  const addRoot = (root: RowKey) => {
    if (roots.has(root) || hasTaken(root)) return;
    roots.add(root);
    const [kind, id] = splitKey(root);
    ids[kind].push(id);
  };
  const tasks = new Set<string>();
  const guarded = new Set<string>();
  for (const key of wish.rows) {
    // No table can hold such a name, so there is nothing to lock and nothing to find.
    if (!isStorable(key)) continue;
    const root = rootOf(key);
    addRoot(root);
    if (key.startsWith("task/")) tasks.add(key.slice(5));
    else if (root !== key) guarded.add(key.slice(4));
  }
  ids.task.push(...tasks);
  const open = wish.lists.filter((list) => list.of === "open");
  const held = wish.lists.filter((list) => list.of === "held");
  const look = wish.lists.filter((list) => list.of === "line");
  const range = wish.lists.filter((list) => list.of === "range");
  for (const list of [...open, ...range]) addRoot(`run/${list.run}`);
  const claims = claimsOf(wish.claims ?? []);
  const skip = skipOf(wish.skip ?? []);
  const call = callText(`${schema}.${beginFunction.name}`, {
    ...(asker === null ? {} : { ...asker, replica: textValue(asker.replica) }),
    ...Object.fromEntries(Object.entries(ids).map(([kind, list]) => [kind, texts(list)])),
    line: texts([...claims.keys()]),
    limit: numbers([...claims.values()]),
    open: texts(open.map((list) => list.run)),
    open_from: texts(open.map((list) => (list.after === "" ? `${list.run}.` : list.after))),
    open_limit: numbers(open.map((list) => Math.max(0, list.limit))),
    range: texts(range.map((list) => list.run)),
    range_from: texts(range.map((list) => (list.after < `${list.run}.` ? `${list.run}.` : list.after))),
    range_to: texts(range.map((list) => list.last)),
    range_limit: numbers(range.map((list) => Math.max(0, list.limit))),
    guarded: texts([...guarded]),
    held: texts(held.map((list) => list.worker)),
    held_limit: numbers(held.map((list) => Math.max(0, list.limit))),
    look: texts(look.map((list) => list.line)),
    look_limit: numbers(look.map((list) => Math.max(0, list.limit))),
    address: texts((wish.addresses ?? []).filter(isStorable)),
    due: positive(wish.due),
    mail: positive(wish.mail),
    skip_run: texts(skip.run),
    skip_worker: texts(skip.worker),
    skip_key: texts(skip.key),
    skip_doc: texts(skip.doc),
  });
  return { call, open, range, held, look, roots };
}

/** A line that is claimed twice is claimed once for both. */
function claimsOf(claims: TurnRequest["claims"]): Map<string, number> {
  const limits = new Map<string, number>();
  for (const { line, limit } of claims) if (limit > 0) limits.set(line, (limits.get(line) ?? 0) + limit);
  return limits;
}

type Skipped = "run" | "worker" | "key" | "doc";

function skipOf(skip: readonly RowKey[]): Record<Skipped, string[]> {
  const ids: Record<string, string[]> = { run: [], worker: [], key: [], doc: [] };
  for (const key of skip) {
    const [kind, id] = splitKey(rootOf(key));
    ids[kind]?.push(id);
  }
  return ids as Record<Skipped, string[]>;
}

const texts = (list: readonly string[]): string | undefined => (list.length === 0 ? undefined : textArray(list));
const numbers = (list: readonly number[]): string | undefined => (list.length === 0 ? undefined : numberArray(list));
const positive = (limit: number | undefined): number | undefined => (limit !== undefined && limit > 0 ? limit : undefined);
