// Where a run begins and ends when it is not to run everything: nodes that are pinned, taken over from another run, or left out.
// Top level only. What is given is born ended; the rest of the plan runs as ever.

import { isObject } from "./path.ts";
import type { Plan, PlanNode } from "./plan-types.ts";
import { resultsProblem } from "./schema.ts";

export interface StartOptions {
  /** Results to take instead of running a node, by node id. */
  readonly pins?: Readonly<Record<string, unknown>>;
  /** This node and all behind it run; what they need from elsewhere is pinned or taken over. */
  readonly from?: string;
  /** Only this node and what it needs run. */
  readonly to?: string;
  /** What a node returned in the run that is taken up again; null: nothing that can be used. */
  readonly reuse?: (node: string) => Reused | null;
}

export interface Reused {
  /** JSON text. */
  readonly result: string;
  readonly params?: string;
  readonly status?: "succeeded" | "skipped";
}

export interface GivenNode {
  readonly status: "succeeded" | "skipped";
  /** JSON text. */
  readonly result: string;
  readonly params?: string;
  readonly why: "pin" | "reuse" | "excluded";
}

export interface StartProblem {
  readonly field: "pins" | "from" | "to" | "reuse";
  readonly node: string;
  readonly message: string;
}

export interface Start {
  /** By ordinal: nodes that do not run. */
  readonly given: Readonly<Record<number, GivenNode>>;
  /** Ordinals of nodes that run, ascending; middlewares go with their hosts. */
  readonly run: readonly number[];
  /** Not empty: the run cannot be started so. */
  readonly problems: readonly StartProblem[];
}

export function planStart(plan: Plan, options: StartOptions): Start {
  const problems: StartProblem[] = [];
  const pinned = readPins(plan, options.pins ?? {}, problems);
  const from = nodeNamed(plan, options.from, "from", problems);
  const to = nodeNamed(plan, options.to, "to", problems);
  const given = new Map<number, GivenNode>(pinned);
  if (from !== null && pinned.has(from.ordinal))
    problems.push({
      field: "from",
      node: from.id,
      message: `node ${from.id} is pinned, so nothing can begin there; take its pin away`,
    });
  const reach = from === null ? null : spread([from.ordinal], (ordinal) => plan.nodes[ordinal]?.after ?? []);
  if (reach !== null && to !== null && !reach.has(to.ordinal))
    problems.push({ field: "to", node: to.id, message: `node ${to.id} is not behind node ${options.from}; nothing would run` });
  takeOver(plan, options.reuse, reach, pinned, given);
  const wanted = to === null ? null : neededBy(plan, to, given);
  for (const node of plan.nodes) {
    if (node.host !== null || given.has(node.ordinal)) continue;
    const isRunning = (reach?.has(node.ordinal) ?? true) && (wanted?.has(node.ordinal) ?? true);
    if (!isRunning) given.set(node.ordinal, { status: "skipped", result: "{}", why: "excluded" });
  }
  const run = plan.nodes.filter((node) => node.host === null && !given.has(node.ordinal)).map((node) => node.ordinal);
  nameMissing(plan, run, given, problems);
  return { given: Object.fromEntries(given), run, problems };
}

function readPins(plan: Plan, pins: Readonly<Record<string, unknown>>, problems: StartProblem[]): Map<number, GivenNode> {
  const pinned = new Map<number, GivenNode>();
  for (const [id, results] of Object.entries(pins)) {
    const node = nodeNamed(plan, id, "pins", problems);
    if (node === null) continue;
    const wrong = isObject(results)
      ? resultsProblem(node, results)?.message
      : `the pin of node ${id} must be an object of results`;
    if (wrong !== undefined) problems.push({ field: "pins", node: id, message: wrong });
    pinned.set(node.ordinal, { status: "succeeded", result: JSON.stringify(results ?? {}), why: "pin" });
  }
  return pinned;
}

function nodeNamed(plan: Plan, id: string | undefined, field: StartProblem["field"], problems: StartProblem[]): PlanNode | null {
  if (id === undefined) return null;
  const node = plan.nodes.find((one) => one.id === id);
  if (node === undefined) problems.push({ field, node: id, message: `there is no node ${id} at the top level of this workflow` });
  else if (node.host !== null)
    problems.push({
      field,
      node: id,
      message: `node ${id} is a middleware and runs with its host ${plan.nodes[node.host]?.id}; name that one`,
    });
  return node === undefined || node.host !== null ? null : node;
}

/** Results of another run stand where nothing before them runs anew, is pinned, or where the run begins further on. */
function takeOver(
  plan: Plan,
  reuse: StartOptions["reuse"],
  reach: ReadonlySet<number> | null,
  pinned: ReadonlyMap<number, GivenNode>,
  given: Map<number, GivenNode>,
): void {
  if (reuse === undefined) return;
  const fresh = reach ?? spread(changedBy(plan, reuse, pinned), (ordinal) => plan.nodes[ordinal]?.after ?? []);
  for (const node of plan.nodes) {
    if (node.host !== null || given.has(node.ordinal) || fresh.has(node.ordinal)) continue;
    const reused = reuse(node.id);
    if (reused === null) continue;
    const { result, params, status = "succeeded" } = reused;
    given.set(node.ordinal, { status, result, ...(params !== undefined && { params }), why: "reuse" });
  }
}

/** Without a beginning: nodes with nothing to take over, and those that follow a pin, whose value may be another than it was. */
function changedBy(plan: Plan, reuse: (node: string) => Reused | null, pinned: ReadonlyMap<number, GivenNode>): number[] {
  return plan.nodes
    .filter((node) => node.host === null)
    .filter((node) => node.before.some((before) => pinned.has(before)) || (!pinned.has(node.ordinal) && reuse(node.id) === null))
    .map((node) => node.ordinal);
}

/** Back from a node, no further than what is given: what lies before that is not needed. */
function neededBy(plan: Plan, to: PlanNode, given: ReadonlyMap<number, GivenNode>): ReadonlySet<number> {
  return spread([to.ordinal], (ordinal) => (given.has(ordinal) ? [] : (plan.nodes[ordinal]?.before ?? [])));
}

function spread(start: readonly number[], next: (ordinal: number) => readonly number[]): Set<number> {
  const found = new Set<number>();
  const open = [...start];
  for (let ordinal = open.pop(); ordinal !== undefined; ordinal = open.pop()) {
    if (found.has(ordinal)) continue;
    found.add(ordinal);
    open.push(...next(ordinal));
  }
  return found;
}

function nameMissing(plan: Plan, run: readonly number[], given: ReadonlyMap<number, GivenNode>, problems: StartProblem[]): void {
  const named = new Set<number>();
  for (const ordinal of run)
    for (const before of plan.nodes[ordinal]?.before ?? []) {
      if (given.get(before)?.why !== "excluded" || named.has(before)) continue;
      named.add(before);
      const { id = "", label = "" } = plan.nodes[before] ?? {};
      const message = `node ${id} (${label}) does not run and has no results to take over, but node ${plan.nodes[ordinal]?.id} needs it; pin it or begin there`;
      problems.push({ field: "reuse", node: id, message });
    }
}
