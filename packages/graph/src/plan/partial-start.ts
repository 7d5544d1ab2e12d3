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

export interface ReusedResult extends Pick<PresetNode, "result" | "params"> {
  readonly status?: PresetNode["status"];
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
  /** Pins that do not match the schema of their node, which does not enforce it. */
  readonly warnings: readonly StartProblem[];
}

export const planStart = (plan: Plan, options: StartOptions): StartPlan => new StartPlanner(plan, options).plan();

class StartPlanner {
  readonly #plan: Plan;
  readonly #options: StartOptions;
  readonly #problems: StartProblem[] = [];
  readonly #warnings: StartProblem[] = [];
  readonly #preset = new Map<number, PresetNode>();

  constructor(plan: Plan, options: StartOptions) {
    this.#plan = plan;
    this.#options = options;
  }

  plan(): StartPlan {
    const { pins = {}, from: fromId, to: toId } = this.#options;
    for (const [id, results] of Object.entries(pins)) this.#addPin(id, results);
    const pinned = new Set(this.#preset.keys());
    const from = this.#findTopLevelNode(fromId, "from");
    const to = this.#findTopLevelNode(toId, "to");
    if (from !== null && pinned.has(from.ordinal))
      this.#report("from", from.id, `node ${from.id} is pinned, so the run cannot start there; remove the pin`);
    const reachable = from === null ? null : this.#nodesAfter([from.ordinal]);
    if (reachable !== null && to !== null && !reachable.has(to.ordinal))
      this.#report("to", to.id, `node ${to.id} is not behind node ${fromId}; nothing would run`);
    this.#addReusedResults(reachable, pinned);
    const wanted = to === null ? null : this.#nodesNeededBy(to);
    for (const { ordinal } of this.#nodesWithoutResults())
      if (reachable?.has(ordinal) === false || wanted?.has(ordinal) === false)
        this.#preset.set(ordinal, { status: "skipped", result: "{}", why: "excluded" });
    const run = this.#nodesWithoutResults().map((node) => node.ordinal);
    this.#reportMissingResults(run);
    return { given: Object.fromEntries(this.#preset), run, problems: this.#problems, warnings: this.#warnings };
  }

  #report(field: StartProblem["field"], node: string, message: string): void {
    this.#problems.push({ field, node, message });
  }

  #nodesWithoutResults(): PlanNode[] {
    return this.#plan.nodes.filter((node) => node.host === null && !this.#preset.has(node.ordinal));
  }

  #addPin(id: string, results: unknown): void {
    const node = this.#findTopLevelNode(id, "pins");
    if (node === null) return;
    const mismatch = isObject(results) ? findResultsProblem(node, results) : null;
    if (!isObject(results)) this.#report("pins", id, `the pin of node ${id} must be an object of results`);
    else if (mismatch !== null && node.schemaMode === "enforce") this.#report("pins", id, mismatch.message);
    else if (mismatch !== null) this.#warnings.push({ field: "pins", node: id, message: mismatch.message });
    this.#preset.set(node.ordinal, { status: "succeeded", result: JSON.stringify(results ?? {}), why: "pin" });
  }

  #findTopLevelNode(id: string | undefined, field: StartProblem["field"]): PlanNode | null {
    if (id === undefined) return null;
    const node = this.#plan.nodes.find((one) => one.id === id);
    if (node?.host === null) return node;
    const host = this.#plan.nodes[node?.host ?? -1];
    this.#report(
      field,
      id,
      node === undefined
        ? `there is no node ${id} at the top level of this workflow`
        : `node ${id} is a middleware and runs with its host ${host?.id}; name that one`,
    );
    return null;
  }

  /** Results of another run are reused if no predecessor runs again or is pinned, or if the run starts after them. */
  #addReusedResults(reachable: ReadonlySet<number> | null, pinned: ReadonlySet<number>): void {
    const { reuse } = this.#options;
    if (reuse === undefined) return;
    // Without a beginning: nodes with nothing to take over, and those that follow a pin, whose value may be another than it was.
    const runsAgain = (node: PlanNode): boolean =>
      node.before.some((before) => pinned.has(before)) || (!pinned.has(node.ordinal) && reuse(node.id) === null);
    const topLevel = this.#plan.nodes.filter((node) => node.host === null);
    const rerun = reachable ?? this.#nodesAfter(topLevel.filter(runsAgain).map((node) => node.ordinal));
    for (const node of this.#nodesWithoutResults()) {
      const reused = rerun.has(node.ordinal) ? null : reuse(node.id);
      if (reused === null) continue;
      const { result, params, status = "succeeded" } = reused;
      this.#preset.set(node.ordinal, { status, result, ...(params !== undefined && { params }), why: "reuse" });
    }
  }

  /** These nodes and all behind them. */
  #nodesAfter(start: readonly number[]): Set<number> {
    return reachableFrom(start, (ordinal) => this.#plan.nodes[ordinal]?.after ?? []);
  }

  /** Walks back from a node to the nodes with given results; what lies before those is not needed. */
  #nodesNeededBy(to: PlanNode): Set<number> {
    return reachableFrom([to.ordinal], (ordinal) => (this.#preset.has(ordinal) ? [] : (this.#plan.nodes[ordinal]?.before ?? [])));
  }

  #reportMissingResults(run: readonly number[]): void {
    const { nodes } = this.#plan;
    const reported = new Set<number>();
    for (const ordinal of run)
      for (const before of nodes[ordinal]?.before ?? []) {
        if (this.#preset.get(before)?.why !== "excluded" || reported.has(before)) continue;
        reported.add(before);
        const { id = "", label = "" } = nodes[before] ?? {};
        const message = `node ${id} (${label}) does not run and has no results to take over, but node ${nodes[ordinal]?.id} needs it; pin it or begin there`;
        this.#report("reuse", id, message);
      }
  }
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
