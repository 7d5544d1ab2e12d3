// The nodes of a run as a tree, built from the plan, which has the structure, and the tasks, whose ids name iteration and call. Pure.

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
  readonly waitsFor: readonly string[];
}

export const taskSlot = (taskId: string, runId: string): string => taskId.slice(runId.length + 1);
const nodeSlot = (scope: string, ordinal: number): string => (scope === "" ? String(ordinal) : `${scope}/${ordinal}`);

export class RunTree {
  readonly #bySlot = new Map<string, FollowedNode>();
  /** Numbers of the iterations of each container, and of the calls of each node. */
  readonly #iterations = new Map<string, Set<number>>();
  readonly #calls = new Map<string, Set<number>>();

  constructor(runId: string, nodes: Iterable<FollowedNode>) {
    for (const node of nodes) {
      const slot = taskSlot(node.taskId, runId);
      this.#bySlot.set(slot, node);
      // Every iteration and call above it exists too, even without a task of its own.
      for (const { index } of slot.matchAll(/[*~]/g)) {
        const owner = slot.slice(0, index);
        const numbers = slot[index] === "*" ? this.#iterations : this.#calls;
        numbers.set(owner, (numbers.get(owner) ?? new Set()).add(Number.parseInt(slot.slice(index + 1), 10)));
      }
    }
  }

  /** All rows in the order in which they are shown. */
  rows(plan: Plan, scope = "", depth = 0): RunTreeRow[] {
    return plan.nodes.filter((node) => node.host === null).flatMap((node) => this.#nodeRows(plan, node, scope, depth));
  }

  #nodeRows(plan: Plan, node: PlanNode, scope: string, depth: number): RunTreeRow[] {
    const slot = nodeSlot(scope, node.ordinal);
    const own: RunTreeRow = {
      slot,
      depth,
      label: node.label,
      kind: "node",
      node,
      status: this.#bySlot.get(slot) ?? null,
      waitsFor: this.#unfinishedPredecessors(plan, node, scope),
      ...this.#countIterations(node, slot),
    };
    const middlewares = node.chain.flatMap((ordinal) => plan.nodes[ordinal] ?? []);
    const calls = sortedNumbers(this.#calls, slot);
    return [
      own,
      ...middlewares.map((middleware) => this.#middlewareRow(middleware, scope, depth + 1)),
      ...calls.flatMap((call) => this.#callRows(node, slot, call, calls.length > 1, depth + 1)),
      ...this.#containerRows(node, slot, depth + 1),
    ];
  }

  #middlewareRow(node: PlanNode, scope: string, depth: number): RunTreeRow {
    const slot = nodeSlot(scope, node.ordinal);
    // The outermost middleware has one task, inner ones one per call: the last one has the current status.
    const last = sortedNumbers(this.#calls, slot).at(-1);
    const status = this.#bySlot.get(slot) ?? this.#bySlot.get(`${slot}~${last}`) ?? null;
    return { slot, depth, label: node.label, kind: "middleware", node, status, waitsFor: [] };
  }

  /** A single call has no row of its own; several calls have one each. */
  #callRows(node: PlanNode, nodeSlotText: string, call: number, isOneOfSeveral: boolean, depth: number): RunTreeRow[] {
    const slot = `${nodeSlotText}~${call}`;
    const status = this.#bySlot.get(slot) ?? null;
    const own: RunTreeRow = { slot, depth, label: `call ${call}`, kind: "call", node, status, waitsFor: [] };
    return [...(isOneOfSeveral ? [own] : []), ...this.#containerRows(node, slot, depth)];
  }

  /** The iterations of a loop with their nodes; of another container only its nodes, unless it was tried several times. */
  #containerRows(node: PlanNode, slot: string, depth: number): RunTreeRow[] {
    const { container } = node;
    if (container === null) return [];
    const iterations = sortedNumbers(this.#iterations, slot);
    const isPlain = container.loop === null && iterations.length < 2;
    return iterations.flatMap((number): RunTreeRow[] => {
      const iterationSlot = `${slot}*${number}`;
      const body = this.rows(container.body, iterationSlot, isPlain ? depth : depth + 1);
      if (isPlain) return body;
      const status = this.#iterationStatus(node, iterationSlot);
      const label = container.loop === null ? `try ${number + 1}` : `#${status.frame?.index ?? number}`;
      return [{ slot: iterationSlot, depth, label, kind: "iteration", node, status, waitsFor: [] }, ...body];
    });
  }

  #countIterations(node: PlanNode, slot: string): Pick<RunTreeRow, "iterations"> {
    if (node.container === null || node.container.loop === null) return {};
    const iterations = sortedNumbers(this.#iterations, slot);
    const ended = iterations.filter((number) => isFinalStatus(this.#iterationStatus(node, `${slot}*${number}`).status));
    return { iterations: { known: iterations.length, ended: ended.length } };
  }

  /** The stream has no events of iterations: their status follows from the nodes inside. */
  #iterationStatus(node: PlanNode, iterationSlot: string): FollowedNode {
    const own = this.#bySlot.get(iterationSlot);
    if (own !== undefined && isFinalStatus(own.status)) return own;
    const body = node.container?.body.nodes.filter(({ host }) => host === null) ?? [];
    const inside = body.map(({ ordinal }) => this.#bySlot.get(`${iterationSlot}/${ordinal}`)?.status ?? "queued");
    const isOver = inside.every(isFinalStatus);
    const status = inside.includes("failed") ? "failed" : isOver ? "succeeded" : "running";
    return { nodeId: node.id, taskId: "", ...own, status };
  }

  #unfinishedPredecessors(plan: Plan, node: PlanNode, scope: string): string[] {
    const open = node.before.filter((ordinal) => {
      const status = this.#bySlot.get(nodeSlot(scope, ordinal))?.status;
      return status !== "succeeded" && status !== "skipped";
    });
    return [...new Set(open.map((ordinal) => plan.nodes[ordinal]?.label ?? ""))];
  }
}

const sortedNumbers = (numbers: ReadonlyMap<string, ReadonlySet<number>>, owner: string): number[] =>
  [...(numbers.get(owner) ?? [])].sort((a, b) => a - b);

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
