// The nodes of a run as a tree: middlewares below their host, iterations below their container, nodes below their iteration. Pure; built from
// the plan, which has the structure, and the tasks, whose ids name iteration and call.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { FollowedNode } from "./followed-run.ts";
import { isFinalStatus } from "./run-status.ts";

export interface RunTreeRow {
  readonly slot: string;
  readonly depth: number;
  readonly label: string;
  readonly kind: "node" | "middleware" | "call" | "iteration";
  readonly node: PlanNode;
  /** Null: not reached yet. */
  readonly status: FollowedNode | null;
  /** Of a loop: how many iterations are known, and how many of them have ended. */
  readonly iterations?: { readonly known: number; readonly ended: number };
  /** Labels of the nodes it waits for. */
  readonly waitsFor: readonly string[];
}

export interface TaskIndex {
  readonly bySlot: ReadonlyMap<string, FollowedNode>;
  /** Numbers of the iterations of each container, and of the calls of each node, ascending. */
  readonly iterations: ReadonlyMap<string, readonly number[]>;
  readonly calls: ReadonlyMap<string, readonly number[]>;
}

export const taskSlot = (taskId: string, runId: string): string => taskId.slice(runId.length + 1);

/** Indexes all tasks once, for all rows. */
export function indexTasks(runId: string, nodes: Iterable<FollowedNode>): TaskIndex {
  const bySlot = new Map<string, FollowedNode>();
  const iterations = new Map<string, Set<number>>();
  const calls = new Map<string, Set<number>>();
  for (const node of nodes) {
    const slot = taskSlot(node.taskId, runId);
    bySlot.set(slot, node);
    // Every iteration and call above it exists too, even without a task of its own.
    for (const { index } of slot.matchAll(/[*~]/g)) {
      const owner = slot.slice(0, index);
      const number = Number.parseInt(slot.slice(index + 1), 10);
      const of = slot[index] === "*" ? iterations : calls;
      of.set(owner, (of.get(owner) ?? new Set()).add(number));
    }
  }
  return { bySlot, iterations: sortNumbers(iterations), calls: sortNumbers(calls) };
}

const sortNumbers = (sets: Map<string, Set<number>>): Map<string, readonly number[]> =>
  new Map([...sets].map(([owner, numbers]) => [owner, [...numbers].sort((a, b) => a - b)]));

/** All rows in the order in which they are shown. */
export function listTreeRows(plan: Plan, taskIndex: TaskIndex, scope = "", depth = 0): RunTreeRow[] {
  return plan.nodes
    .filter((node) => node.host === null)
    .flatMap((node) => nodeRows({ plan, tree: taskIndex, scope, depth }, node));
}

interface TreeScope {
  readonly plan: Plan;
  readonly tree: TaskIndex;
  readonly scope: string;
  readonly depth: number;
}

function nodeRows(treeScope: TreeScope, node: PlanNode): RunTreeRow[] {
  const { tree: taskIndex, scope, depth } = treeScope;
  const slot = nodeSlot(scope, node.ordinal);
  const own: RunTreeRow = {
    slot,
    depth,
    label: node.label,
    kind: "node",
    node,
    status: taskIndex.bySlot.get(slot) ?? null,
    waitsFor: unfinishedPredecessors(treeScope, node),
    ...countIterations(taskIndex, node, slot),
  };
  const middlewares = node.chain.flatMap((ordinal): RunTreeRow[] => {
    const middleware = treeScope.plan.nodes[ordinal];
    return middleware === undefined ? [] : [middlewareRow(treeScope, middleware)];
  });
  const calls = (taskIndex.calls.get(slot) ?? []).flatMap((call, _, all) =>
    callRows(treeScope, node, `${slot}~${call}`, all.length),
  );
  return [own, ...middlewares, ...calls, ...containerRows(treeScope, node, slot, depth + 1)];
}

const nodeSlot = (scope: string, ordinal: number): string => (scope === "" ? String(ordinal) : `${scope}/${ordinal}`);

function middlewareRow({ tree: taskIndex, scope, depth }: TreeScope, node: PlanNode): RunTreeRow {
  const slot = nodeSlot(scope, node.ordinal);
  // The outermost middleware has one task, inner ones one per call: the last one has the current status.
  const last = taskIndex.calls.get(slot)?.at(-1);
  const status = taskIndex.bySlot.get(slot) ?? taskIndex.bySlot.get(`${slot}~${last}`) ?? null;
  return { slot, depth: depth + 1, label: node.label, kind: "middleware", node, status, waitsFor: [] };
}

/** A single call has no row of its own; several calls have one each. */
function callRows({ plan, tree: taskIndex, scope, depth }: TreeScope, node: PlanNode, slot: string, calls: number): RunTreeRow[] {
  const number = slot.slice(slot.lastIndexOf("~") + 1);
  const status = taskIndex.bySlot.get(slot) ?? null;
  const own: RunTreeRow = { slot, depth: depth + 1, label: `call ${number}`, kind: "call", node, status, waitsFor: [] };
  return [...(calls > 1 ? [own] : []), ...containerRows({ plan, tree: taskIndex, scope, depth }, node, slot, depth + 1)];
}

/** The iterations of a loop with their nodes; of another container only its nodes, unless it was tried several times. */
function containerRows({ tree: taskIndex }: TreeScope, node: PlanNode, slot: string, depth: number): RunTreeRow[] {
  const { container } = node;
  if (container === null) return [];
  const iterations = taskIndex.iterations.get(slot) ?? [];
  const isPlain = container.loop === null && iterations.length < 2;
  return iterations.flatMap((number) => {
    const iterationSlot = `${slot}*${number}`;
    const body = listTreeRows(container.body, taskIndex, iterationSlot, isPlain ? depth : depth + 1);
    if (isPlain) return body;
    const status = iterationStatus(taskIndex, node, iterationSlot);
    const index = status.frame?.index ?? number;
    const label = container.loop === null ? `try ${number + 1}` : `#${index}`;
    return [{ slot: iterationSlot, depth, label, kind: "iteration" as const, node, status, waitsFor: [] }, ...body];
  });
}

function countIterations(taskIndex: TaskIndex, node: PlanNode, slot: string): Pick<RunTreeRow, "iterations"> {
  if (node.container === null || node.container.loop === null) return {};
  const iterations = taskIndex.iterations.get(slot) ?? [];
  const isOver = (number: number): boolean => isFinalStatus(iterationStatus(taskIndex, node, `${slot}*${number}`).status);
  return { iterations: { known: iterations.length, ended: iterations.filter(isOver).length } };
}

/** The stream has no events of iterations: their status follows from the nodes inside. */
function iterationStatus(taskIndex: TaskIndex, node: PlanNode, iterationSlot: string): FollowedNode {
  const own = taskIndex.bySlot.get(iterationSlot);
  if (own !== undefined && isFinalStatus(own.status)) return own;
  const body = node.container?.body.nodes.filter(({ host }) => host === null) ?? [];
  const inside = body.map(({ ordinal }) => taskIndex.bySlot.get(`${iterationSlot}/${ordinal}`)?.status ?? "queued");
  const isOver = inside.every(isFinalStatus);
  const status = inside.includes("failed") ? "failed" : isOver ? "succeeded" : "running";
  return { nodeId: node.id, taskId: "", ...own, status };
}

function unfinishedPredecessors({ plan, tree: taskIndex, scope }: TreeScope, node: PlanNode): string[] {
  const open = node.before.filter((ordinal) => {
    const status = taskIndex.bySlot.get(nodeSlot(scope, ordinal))?.status;
    return status !== "succeeded" && status !== "skipped";
  });
  return [...new Set(open.map((ordinal) => plan.nodes[ordinal]?.label ?? ""))];
}

/** The path of a task: `Map › #3 › Personalise`. */
export function describeTaskPath(plan: Plan, slot: string): string {
  const labels: string[] = [];
  let level: Plan | null = plan;
  for (const step of slot.split("/")) {
    const [, ordinal, call, iteration] = /^(\d+)(?:~(\d+))?(?:\*(\d+))?$/.exec(step) ?? [];
    const node: PlanNode | undefined = level?.nodes[Number(ordinal)];
    const host = level?.nodes[node?.host ?? -1];
    if (host !== undefined) labels.push(host.label);
    labels.push(node?.label ?? step);
    // A call of a host must not look like the host itself; most middlewares are called once.
    if (call !== undefined && (host === undefined || call !== "1")) labels.push(`call ${call}`);
    if (iteration !== undefined && (node?.container?.loop ?? null) !== null) labels.push(`#${iteration}`);
    level = node?.container?.body ?? null;
  }
  return labels.join(" › ");
}
