// The nodes of a run as a tree: middlewares below their host, iterations below their container, nodes below their iteration. Pure; made from
// the plan, which knows what belongs where, and the tasks, whose ids say which iteration and call they are.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { RunNodeStatus } from "@astraflow/protocol";

export interface Branch {
  readonly slot: string;
  readonly depth: number;
  readonly label: string;
  readonly kind: "node" | "middleware" | "call" | "iteration";
  readonly node: PlanNode;
  /** Null: not reached yet. */
  readonly status: RunNodeStatus | null;
  /** Of a loop: iterations known, and of them those that have ended. */
  readonly iterations?: { readonly known: number; readonly ended: number };
  /** What it waits for, by label. */
  readonly waitsFor: readonly string[];
}

export interface Tree {
  readonly bySlot: ReadonlyMap<string, RunNodeStatus>;
  /** Numbers of the iterations of each container, and of the calls of each node, ascending. */
  readonly frames: ReadonlyMap<string, readonly number[]>;
  readonly calls: ReadonlyMap<string, readonly number[]>;
}

export const slotOf = (taskId: string, runId: string): string => taskId.slice(runId.length + 1);

/** What there is of everything, found once for all branches. */
export function plantTree(runId: string, nodes: Iterable<RunNodeStatus>): Tree {
  const bySlot = new Map<string, RunNodeStatus>();
  const frames = new Map<string, Set<number>>();
  const calls = new Map<string, Set<number>>();
  for (const node of nodes) {
    const slot = slotOf(node.taskId, runId);
    bySlot.set(slot, node);
    // Every iteration and call on the way to it exists too, whether or not it has an entry of its own.
    for (const { index } of slot.matchAll(/[*~]/g)) {
      const owner = slot.slice(0, index);
      const number = Number.parseInt(slot.slice(index + 1), 10);
      const of = slot[index] === "*" ? frames : calls;
      of.set(owner, (of.get(owner) ?? new Set()).add(number));
    }
  }
  return { bySlot, frames: inOrder(frames), calls: inOrder(calls) };
}

const inOrder = (sets: Map<string, Set<number>>): Map<string, readonly number[]> =>
  new Map([...sets].map(([owner, numbers]) => [owner, [...numbers].sort((a, b) => a - b)]));

/** Every branch in the order it is shown. */
export function branchesOf(plan: Plan, tree: Tree, scope = "", depth = 0): Branch[] {
  return plan.nodes.filter((node) => node.host === null).flatMap((node) => nodeBranches({ plan, tree, scope, depth }, node));
}

interface Where {
  readonly plan: Plan;
  readonly tree: Tree;
  readonly scope: string;
  readonly depth: number;
}

function nodeBranches(where: Where, node: PlanNode): Branch[] {
  const { tree, scope, depth } = where;
  const slot = slotIn(scope, node.ordinal);
  const own: Branch = {
    slot,
    depth,
    label: node.label,
    kind: "node",
    node,
    status: tree.bySlot.get(slot) ?? null,
    waitsFor: openBefore(where, node),
    ...iterationsOf(tree, node, slot),
  };
  const middlewares = node.chain.flatMap((ordinal): Branch[] => {
    const middleware = where.plan.nodes[ordinal];
    return middleware === undefined ? [] : [middlewareBranch(where, middleware)];
  });
  const calls = (tree.calls.get(slot) ?? []).flatMap((call, _, all) => callBranches(where, node, `${slot}~${call}`, all.length));
  return [own, ...middlewares, ...calls, ...insideBranches(where, node, slot, depth + 1)];
}

const slotIn = (scope: string, ordinal: number): string => (scope === "" ? String(ordinal) : `${scope}/${ordinal}`);

function middlewareBranch({ tree, scope, depth }: Where, node: PlanNode): Branch {
  const slot = slotIn(scope, node.ordinal);
  // The outermost has one task a reach of its host, inner ones one a call: the last says how it is.
  const last = tree.calls.get(slot)?.at(-1);
  const status = tree.bySlot.get(slot) ?? tree.bySlot.get(`${slot}~${last}`) ?? null;
  return { slot, depth: depth + 1, label: node.label, kind: "middleware", node, status, waitsFor: [] };
}

/** A single call says nothing that its host does not; several are shown one by one. */
function callBranches({ plan, tree, scope, depth }: Where, node: PlanNode, slot: string, calls: number): Branch[] {
  const number = slot.slice(slot.lastIndexOf("~") + 1);
  const status = tree.bySlot.get(slot) ?? null;
  const own: Branch = { slot, depth: depth + 1, label: `call ${number}`, kind: "call", node, status, waitsFor: [] };
  return [...(calls > 1 ? [own] : []), ...insideBranches({ plan, tree, scope, depth }, node, slot, depth + 1)];
}

/** Iterations of a loop with what is in them; of a container that is no loop only what is in it, as long as it was tried once. */
function insideBranches({ tree }: Where, node: PlanNode, slot: string, depth: number): Branch[] {
  const { container } = node;
  if (container === null) return [];
  const frames = tree.frames.get(slot) ?? [];
  const isPlain = container.loop === null && frames.length < 2;
  return frames.flatMap((number) => {
    const frame = `${slot}*${number}`;
    const body = branchesOf(container.body, tree, frame, isPlain ? depth : depth + 1);
    if (isPlain) return body;
    const status = frameStatus(tree, node, frame);
    const index = status.frame?.index ?? number;
    const label = container.loop === null ? `try ${number + 1}` : `#${index}`;
    return [{ slot: frame, depth, label, kind: "iteration" as const, node, status, waitsFor: [] }, ...body];
  });
}

const ended: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled", "skipped"]);
export const hasEnded = (status: Pick<RunNodeStatus, "status"> | null): boolean => status !== null && ended.has(status.status);

function iterationsOf(tree: Tree, node: PlanNode, slot: string): Pick<Branch, "iterations"> {
  if (node.container === null || node.container.loop === null) return {};
  const frames = tree.frames.get(slot) ?? [];
  const isOver = (number: number): boolean => hasEnded(frameStatus(tree, node, `${slot}*${number}`));
  return { iterations: { known: frames.length, ended: frames.filter(isOver).length } };
}

/** Iterations come without a word of their own on the stream: then what is in them tells. */
function frameStatus(tree: Tree, node: PlanNode, frame: string): RunNodeStatus {
  const own = tree.bySlot.get(frame);
  if (own !== undefined && hasEnded(own)) return own;
  const body = node.container?.body.nodes.filter(({ host }) => host === null) ?? [];
  const inside = body.map(({ ordinal }) => tree.bySlot.get(`${frame}/${ordinal}`)?.status ?? "queued");
  const isOver = inside.every((status) => ended.has(status));
  const status = inside.includes("failed") ? "failed" : isOver ? "succeeded" : "running";
  return { nodeId: node.id, taskId: "", ...own, status };
}

function openBefore({ plan, tree, scope }: Where, node: PlanNode): string[] {
  const open = node.before.filter((ordinal) => {
    const status = tree.bySlot.get(slotIn(scope, ordinal))?.status;
    return status !== "succeeded" && status !== "skipped";
  });
  return [...new Set(open.map((ordinal) => plan.nodes[ordinal]?.label ?? ""))];
}

/** Where a task is, in words: `Map › #3 › Personalise`. */
export function pathOf(plan: Plan, slot: string): string {
  const words: string[] = [];
  let level: Plan | null = plan;
  for (const step of slot.split("/")) {
    const [, ordinal, call, frame] = /^(\d+)(?:~(\d+))?(?:\*(\d+))?$/.exec(step) ?? [];
    const node: PlanNode | undefined = level?.nodes[Number(ordinal)];
    const host = level?.nodes[node?.host ?? -1];
    if (host !== undefined) words.push(host.label);
    words.push(node?.label ?? step);
    // A call of a host must not look like the host itself; a middleware is called once by nearly everybody.
    if (call !== undefined && (host === undefined || call !== "1")) words.push(`call ${call}`);
    if (frame !== undefined && (node?.container?.loop ?? null) !== null) words.push(`#${frame}`);
    level = node?.container?.body ?? null;
  }
  return words.join(" › ");
}
