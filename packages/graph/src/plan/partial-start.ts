// Where a run begins and ends when it is not to run everything: nodes that are pinned, taken over from another run, or left out.
// Top level only. Nodes with given results start as ended; the rest of the plan runs as usual.

import { isObject } from "../values/binding-path.ts";
import { findResultsProblem } from "./node-schemas.ts";
import type { Plan, PlanNode } from "./plan-types.ts";

export interface StartOptions {
  /** Results to take instead of running a node, by node id. */
  readonly pins?: Readonly<Record<string, unknown>>;
  /** This node and all behind it run; what they need from elsewhere is pinned or taken over. */
  readonly from?: string;
  /** Only this node and what it needs run. */
  readonly to?: string;
  /** What a node returned in the reused run; null: nothing usable. */
  readonly reuse?: (node: string) => ReusedResult | null;
}

export interface ReusedResult {
  /** JSON text. */
  readonly result: string;
  readonly params?: string;
  readonly status?: "succeeded" | "skipped";
}

export interface PresetNode {
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

export interface StartPlan {
  /** By ordinal: nodes that do not run. */
  readonly given: Readonly<Record<number, PresetNode>>;
  /** Ordinals of nodes that run, ascending; middlewares go with their hosts. */
  readonly run: readonly number[];
  /** Not empty: the run cannot be started so. */
  readonly problems: readonly StartProblem[];
}

export function planStart(plan: Plan, options: StartOptions): StartPlan {
  const problems: StartProblem[] = [];
  const pinned = readPins(plan, options.pins ?? {}, problems);
  const from = findTopLevelNode(plan, options.from, "from", problems);
  const to = findTopLevelNode(plan, options.to, "to", problems);
  const preset = new Map<number, PresetNode>(pinned);
  if (from !== null && pinned.has(from.ordinal))
    problems.push({
      field: "from",
      node: from.id,
      message: `node ${from.id} is pinned, so the run cannot start there; remove the pin`,
    });
  const reachable = from === null ? null : reachableFrom([from.ordinal], (ordinal) => plan.nodes[ordinal]?.after ?? []);
  if (reachable !== null && to !== null && !reachable.has(to.ordinal))
    problems.push({ field: "to", node: to.id, message: `node ${to.id} is not behind node ${options.from}; nothing would run` });
  addReusedResults(plan, options.reuse, reachable, pinned, preset);
  const wanted = to === null ? null : nodesNeededBy(plan, to, preset);
  for (const node of plan.nodes) {
    if (node.host !== null || preset.has(node.ordinal)) continue;
    const isRunning = (reachable?.has(node.ordinal) ?? true) && (wanted?.has(node.ordinal) ?? true);
    if (!isRunning) preset.set(node.ordinal, { status: "skipped", result: "{}", why: "excluded" });
  }
  const run = plan.nodes.filter((node) => node.host === null && !preset.has(node.ordinal)).map((node) => node.ordinal);
  reportMissingResults(plan, run, preset, problems);
  return { given: Object.fromEntries(preset), run, problems };
}

function readPins(plan: Plan, pins: Readonly<Record<string, unknown>>, problems: StartProblem[]): Map<number, PresetNode> {
  const pinned = new Map<number, PresetNode>();
  for (const [id, results] of Object.entries(pins)) {
    const node = findTopLevelNode(plan, id, "pins", problems);
    if (node === null) continue;
    const wrong = isObject(results)
      ? findResultsProblem(node, results)?.message
      : `the pin of node ${id} must be an object of results`;
    if (wrong !== undefined) problems.push({ field: "pins", node: id, message: wrong });
    pinned.set(node.ordinal, { status: "succeeded", result: JSON.stringify(results ?? {}), why: "pin" });
  }
  return pinned;
}

function findTopLevelNode(
  plan: Plan,
  id: string | undefined,
  field: StartProblem["field"],
  problems: StartProblem[],
): PlanNode | null {
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

/** Results of another run are reused if no predecessor runs again or is pinned, or if the run starts after them. */
function addReusedResults(
  plan: Plan,
  reuse: StartOptions["reuse"],
  reachable: ReadonlySet<number> | null,
  pinned: ReadonlyMap<number, PresetNode>,
  preset: Map<number, PresetNode>,
): void {
  if (reuse === undefined) return;
  const rerun = reachable ?? reachableFrom(nodesToRunAgain(plan, reuse, pinned), (ordinal) => plan.nodes[ordinal]?.after ?? []);
  for (const node of plan.nodes) {
    if (node.host !== null || preset.has(node.ordinal) || rerun.has(node.ordinal)) continue;
    const reused = reuse(node.id);
    if (reused === null) continue;
    const { result, params, status = "succeeded" } = reused;
    preset.set(node.ordinal, { status, result, ...(params !== undefined && { params }), why: "reuse" });
  }
}

/** Without a beginning: nodes with nothing to take over, and those that follow a pin, whose value may be another than it was. */
function nodesToRunAgain(
  plan: Plan,
  reuse: (node: string) => ReusedResult | null,
  pinned: ReadonlyMap<number, PresetNode>,
): number[] {
  return plan.nodes
    .filter((node) => node.host === null)
    .filter((node) => node.before.some((before) => pinned.has(before)) || (!pinned.has(node.ordinal) && reuse(node.id) === null))
    .map((node) => node.ordinal);
}

/** Walks back from a node to the nodes with given results; what lies before those is not needed. */
function nodesNeededBy(plan: Plan, to: PlanNode, preset: ReadonlyMap<number, PresetNode>): ReadonlySet<number> {
  return reachableFrom([to.ordinal], (ordinal) => (preset.has(ordinal) ? [] : (plan.nodes[ordinal]?.before ?? [])));
}

function reachableFrom(start: readonly number[], next: (ordinal: number) => readonly number[]): Set<number> {
  const found = new Set<number>();
  const open = [...start];
  for (let ordinal = open.pop(); ordinal !== undefined; ordinal = open.pop()) {
    if (found.has(ordinal)) continue;
    found.add(ordinal);
    open.push(...next(ordinal));
  }
  return found;
}

function reportMissingResults(
  plan: Plan,
  run: readonly number[],
  preset: ReadonlyMap<number, PresetNode>,
  problems: StartProblem[],
): void {
  const reported = new Set<number>();
  for (const ordinal of run)
    for (const before of plan.nodes[ordinal]?.before ?? []) {
      if (preset.get(before)?.why !== "excluded" || reported.has(before)) continue;
      reported.add(before);
      const { id = "", label = "" } = plan.nodes[before] ?? {};
      const message = `node ${id} (${label}) does not run and has no results to take over, but node ${plan.nodes[ordinal]?.id} needs it; pin it or begin there`;
      problems.push({ field: "reuse", node: id, message });
    }
}
