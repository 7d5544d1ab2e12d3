// How a node is reached: its task is born, or the task that joins several branches counts down; a node that a worker runs enters its line,
// one that other tasks carry out becomes a host and is put on the list of what follows. What an end leads to is settle.ts.

import { type NodeOutcome, type Plan, type PlanNode, resolveIterationParams, resolveParams } from "@astraflow/graph";
import type { RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { enterLine, keyName } from "../place/line.ts";
import { blankTask } from "../rows/blank.ts";
import { containerOf, planIn, type Slot, slotIn, slotOf, taskAt, topLevel } from "../rows/slot.ts";
import type { Spread } from "../rows/state.ts";
import { isEnded, moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { tasksAt } from "./inside.ts";
import { leaveOut, marksOf } from "./marks.ts";
import { FrameOffer } from "./offer.ts";
import { failUnstarted, unfitParams } from "./params.ts";

/** What still follows from a command; worked off by settle.ts until nothing is left. */
export interface Flow {
  readonly next: Follow[];
  /** Task rows of the run that were opened (+) and ended (-) so far and are not yet counted in its row. */
  opened: number;
  /** Nodes reached by this flow so far. */
  reached: number;
  /** Fan-outs of the top level that are too large for this turn. */
  readonly left: Spread[];
}

type Follow =
  /** A row has ended: whoever waited for it goes on. */
  | { readonly type: "ended"; readonly row: TaskRow }
  /** A host was reached: its frames, or the outermost of its chain, are to be opened. */
  | { readonly type: "hosting"; readonly row: TaskRow };

export const newFlow = (): Flow => ({ next: [], opened: 0, reached: 0, left: [] });

/** So many a flow may always reach: in a crowded turn ordinary nodes go on at once, only large fan-outs wait. */
const ownReachMax = 16;

/** Whether another node may be reached in this turn. */
export function hasRoom(board: Board, tools: Tools, flow: Flow): boolean {
  const most = tools.settings.sweepTasksMax;
  return flow.reached < Math.min(ownReachMax, most) || board.reached < most;
}

export function countReach(board: Board, flow: Flow): void {
  flow.reached += 1;
  board.reached += 1;
}

/** A node is reached for the first time and waits for nobody more. */
export function enterNode(
  board: Board,
  tools: Tools,
  run: RunRow,
  slot: Slot,
  node: PlanNode,
  params: string,
  flow: Flow,
  born: TaskRow = bornTask(board, tools, run, slot, node, 0),
  isNew = true,
): void {
  if (isNew) flow.opened += 1;
  if (run.marks !== null && leaveOut(board, run, node, born, params, isNew, flow)) return;
  const unfit = node.chain.length === 0 ? unfitParams(node, params) : null;
  if (unfit !== null) return failUnstarted(board, tools.plans.of(board, run), run, node, born, params, unfit, isNew, flow);
  if (node.container === null && node.chain.length === 0) {
    enterLine(board, tools, run, node, born, params, isNew);
    return;
  }
  // A host takes no concurrency key: those that carry it out may.
  const host = moveTask({ ...born, key: null }, { type: "host", params }, board.now);
  if (isNew) board.bear(host);
  else board.put(host);
  board.tell(run, "task.hosting", { task: host.id, node: node.id });
  flow.next.push({ type: "hosting", row: host });
}

export function bornTask(board: Board, tools: Tools, run: RunRow, slot: Slot, node: PlanNode, needs: number): TaskRow {
  const route = tools.plans.route(board, tools.floor, run, node);
  return blankTask(taskAt(run.id, slot), run.id, route, node.policy.priority ?? run.band, needs, keyName(run, node));
}

/** One predecessor of a node has ended. Returns how many nodes of the scope this opened: a join is open from its first arrival on. */
export function reachNode(
  board: Board,
  tools: Tools,
  run: RunRow,
  scope: Slot,
  node: PlanNode,
  from: TaskRow,
  flow: Flow,
): number {
  countReach(board, flow);
  const slot = slotIn(scope, node.ordinal);
  const join = isLookedAt(run, scope, node) ? board.task(taskAt(run.id, slot)) : null;
  if (join === null && node.before.length === 1) {
    enterNode(board, tools, run, slot, node, paramsIn(board, tools, run, scope, node, from), flow);
    return 1;
  }
  if (join === null) {
    const waiting = bornTask(board, tools, run, slot, node, node.before.length - 1);
    board.bear(waiting);
    board.tell(run, "task.waiting", { task: waiting.id });
    flow.opened += 1;
    return 1;
  }
  // Skipped before all arrived, or given with the start: nobody waits here any more.
  if (isEnded(join)) return 0;
  const arrived = moveTask(join, { type: "arrive" }, board.now);
  if (join.needs > 1) board.put(arrived);
  else enterNode(board, tools, run, slot, node, paramsIn(board, tools, run, scope, node, from), flow, arrived, false);
  return 0;
}

/** Whether a node may have a row before it is reached: a join has one from its first arrival on, any other only where one was given. */
export const isLookedAt = (run: RunRow, scope: Slot, node: PlanNode): boolean =>
  node.before.length > 1 || (scope === topLevel && run.marks !== null && marksOf(run).isGiven === true);

/** The parameters that a node of a scope runs with, as text. `from`: a predecessor that is at hand. */
export function paramsIn(
  board: Board,
  tools: Tools,
  run: RunRow,
  scope: Slot,
  node: PlanNode,
  from: TaskRow | null = null,
): string {
  const near = from === null ? null : slotOf(from);
  const isNear = from !== null && node.inputs.every(({ source }) => slotIn(scope, source) === near);
  const outcome = isNear
    ? () => new TaskOutcome(from)
    : outcomesIn(board, tools, run, scope, new Set(node.inputs.map(({ source }) => source)), from);
  if (scope === topLevel) return JSON.stringify(resolveParams(node, outcome));
  const { container } = tools.plans.nodeOf(board, run, { id: taskAt(run.id, containerOf(scope)), run: run.id });
  if (container === null) throw new Error(`run ${run.id} has no container for ${scope}`);
  return JSON.stringify(resolveIterationParams(container, node, new FrameOffer(board, run, scope), outcome));
}

/** What nodes of a scope offer, by ordinal. Their rows are read together. */
export function outcomesIn(
  board: Board,
  tools: Tools,
  run: RunRow,
  scope: Slot,
  ordinals: ReadonlySet<number>,
  from: TaskRow | null = null,
): (ordinal: number) => NodeOutcome | null {
  if (ordinals.size === 0) return () => null;
  const plan = planAt(board, tools, run, scope);
  const wanted = new Set<number>();
  for (const ordinal of ordinals) for (const one of sources(plan, ordinal)) wanted.add(one);
  const near = from === null ? null : slotOf(from);
  const found = new Map<number, TaskRow>();
  const far = [...wanted].filter((ordinal) => slotIn(scope, ordinal) !== near);
  const rows = tasksAt(
    board,
    far.map((ordinal) => taskAt(run.id, slotIn(scope, ordinal))),
  );
  for (const [at, ordinal] of far.entries()) if (rows[at]) found.set(ordinal, rows[at]);
  if (from !== null) for (const ordinal of wanted) if (slotIn(scope, ordinal) === near) found.set(ordinal, from);
  return (ordinal) => {
    const row = sources(plan, ordinal).flatMap((one) => found.get(one) ?? [])[0];
    return row === undefined ? null : new TaskOutcome(row);
  };
}

/** The plan that the nodes of a scope belong to. */
function planAt(board: Board, tools: Tools, run: RunRow, scope: Slot): Plan {
  const plan = planIn(tools.plans.of(board, run), scope);
  if (plan === null) throw new Error(`run ${run.id} has no scope ${scope}`);
  return plan;
}

/** Where the values of a node are found. What an inner middleware offers stands in the result of its host, for it runs once a call. */
function sources(plan: Plan, ordinal: number): number[] {
  const host = plan.nodes[ordinal]?.host ?? null;
  return host === null ? [ordinal] : [ordinal, host];
}

/** Bodies are kept as text and only read where an edge carries a value out of them. */
export class TaskOutcome implements NodeOutcome {
  readonly #task: TaskRow;
  constructor(task: TaskRow) {
    this.#task = task;
  }
  get params(): unknown {
    return this.#task.params === null ? {} : (JSON.parse(this.#task.params) as unknown);
  }
  get results(): unknown {
    return this.#task.result === null ? {} : (JSON.parse(this.#task.result) as unknown);
  }
}
