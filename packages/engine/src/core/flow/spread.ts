// Fan-outs that are larger than a turn: so many nodes are reached at once, the rest by a cursor, turn after turn. The cursor of the top level
// stands in the run's row, that of a frame in the frame's; the run's own time limit is kept beside its cursor.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { Millis, RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { type Slot, slotIn, taskAt, topLevel } from "../rows/slot.ts";
import type { Spread } from "../rows/state.ts";
import type { Tools } from "../tools.ts";
import { tasksAt } from "./inside.ts";
import { countReach, enterNode, type Flow, hasRoom, isLookedAt, paramsIn, reachNode } from "./reach.ts";

/** What the cursor of a live run says. */
interface Pending {
  readonly limit: Millis | null;
  readonly reach: readonly Spread[];
  /** Nodes that wait for nobody in this run, where those are not the plan's own. */
  readonly starts?: readonly number[];
}

const pendingOf = (run: RunRow): Pending | null =>
  run.cursor === null || run.phase === "ending" ? null : (JSON.parse(run.cursor) as Pending);

/** When the run must be over, whatever its row is due for. */
export const limitOf = (run: RunRow): Millis | null => {
  const pending = pendingOf(run);
  return pending === null ? run.due : pending.limit;
};

export const isSpreading = (run: RunRow): boolean => pendingOf(run) !== null;

/** The run with what this turn had no room for. */
export function withSpreads(run: RunRow, left: readonly Spread[], now: Millis, starts?: readonly number[]): RunRow {
  if (left.length === 0) return run;
  const before = pendingOf(run);
  const kept = starts ?? before?.starts;
  const pending: Pending = {
    limit: limitOf(run),
    reach: [...(before?.reach ?? []), ...left],
    ...(kept !== undefined && { starts: kept }),
  };
  return { ...run, cursor: JSON.stringify(pending), due: now };
}

/** Goes on where the last turn stopped. What does not fit into this one either is in `flow.left`. */
export function resumeSpreads(board: Board, tools: Tools, run: RunRow, plan: Plan, flow: Flow): void {
  const pending = pendingOf(run);
  if (pending === null || !hasRoom(board, tools, flow)) return;
  board.put({ ...run, cursor: null, due: pending.limit });
  const starts = pending.starts ?? plan.starts;
  const { left } = spread(board, tools, run, { scope: topLevel, plan, starts }, pending.reach, flow);
  board.put(withSpreads(board.run(run.id) as RunRow, left, board.now, pending.starts));
}

interface Field {
  readonly scope: Slot;
  readonly plan: Plan;
  readonly starts: readonly number[];
}

/** Reaches as many nodes as the turn has room for. `opened`: nodes of the scope that are open now and were not before. */
export function spread(
  board: Board,
  tools: Tools,
  run: RunRow,
  field: Field,
  reach: readonly Spread[],
  flow: Flow,
): { readonly opened: number; readonly left: Spread[] } {
  const { scope, plan } = field;
  needRows(board, run, field, reach, tools.settings.sweepTasksMax);
  const left: Spread[] = [];
  let opened = 0;
  for (const one of reach) {
    const targets = targetsOf(field, one.from);
    let { at } = one;
    let source: TaskRow | null = null;
    for (; at < targets.length && hasRoom(board, tools, flow); at++) {
      const node = plan.nodes[targets[at] as number] as PlanNode;
      if (one.from !== null) source ??= sourceIn(board, run, scope, one.from);
      opened +=
        source === null
          ? startNode(board, tools, run, scope, node, flow)
          : reachNode(board, tools, run, scope, node, source, flow);
    }
    if (at < targets.length) left.push({ from: one.from, at });
  }
  return { opened, left };
}

const targetsOf = ({ plan, starts }: Field, from: number | null): readonly number[] =>
  from === null ? starts : (plan.nodes[from]?.after ?? []);

function sourceIn(board: Board, run: RunRow, scope: Slot, ordinal: number): TaskRow {
  const row = board.task(taskAt(run.id, slotIn(scope, ordinal)));
  if (row === null) throw new Error(`node ${ordinal} of ${run.id} ${scope} has no row`);
  return row;
}

function startNode(board: Board, tools: Tools, run: RunRow, scope: Slot, node: PlanNode, flow: Flow): number {
  countReach(board, flow);
  enterNode(board, tools, run, slotIn(scope, node.ordinal), node, paramsIn(board, tools, run, scope, node), flow);
  return 1;
}

/** One node leads to one other that waits for it alone: nothing is read but the source, by whoever reaches it. */
function isStep(run: RunRow, field: Field, reach: readonly Spread[]): boolean {
  const [first] = reach;
  if (first === undefined || reach.length > 1) return false;
  const targets = targetsOf(field, first.from);
  if (targets.length > first.at + 1) return false;
  const node = field.plan.nodes[targets[first.at] ?? -1];
  return node === undefined || !isLookedAt(run, field.scope, node);
}

/** What the next `most` nodes will be reached with is read in two rounds, however many: sources and joins, then what the joins wait for. */
function needRows(board: Board, run: RunRow, field: Field, reach: readonly Spread[], most: number): void {
  const { scope, plan } = field;
  if (isStep(run, field, reach)) return;
  const read = (ordinals: Iterable<number>) =>
    tasksAt(
      board,
      [...ordinals].map((ordinal) => taskAt(run.id, slotIn(scope, ordinal))),
    );
  const sources = new Set<number>();
  const arrivals = new Map<number, number>();
  let room = most;
  for (const { from, at } of reach) {
    if (room <= 0) break;
    const next = targetsOf(field, from).slice(at, at + room);
    if (next.length > 0 && from !== null) sources.add(from);
    for (const ordinal of next)
      if (isLookedAt(run, scope, plan.nodes[ordinal] as PlanNode)) arrivals.set(ordinal, (arrivals.get(ordinal) ?? 0) + 1);
    room -= next.length;
  }
  const rows = read([...arrivals.keys(), ...sources]);
  const complete = [...arrivals].flatMap(([ordinal, count], at) => {
    const node = plan.nodes[ordinal] as PlanNode;
    return (rows[at]?.needs ?? node.before.length) <= count ? [node] : [];
  });
  read(new Set(complete.flatMap(({ inputs }) => inputs.map(({ source }) => source))));
}
