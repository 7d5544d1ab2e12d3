// What every decision may use besides its unit of work: settings, the fleet, randomness, ids, and the cache of compiled plans.

import { compilePlan, type Plan, type PlanNode } from "@astraflow/graph";
import { LruMap, type Workflow } from "@astraflow/protocol";
import type { EngineSettings } from "../../interface/settings.ts";
import type { Millis, RouteId, RunRow, TaskRow } from "../../storage/rows.ts";
import type { Fleet } from "../fleet/fleet.ts";
import { requirementsOf, requirementsText } from "../fleet/route.ts";
import { nodeAt, taskPathOf } from "../rows/task-path.ts";
import type { UnitOfWork } from "./unit-of-work.ts";

export interface DecisionContext {
  readonly settings: EngineSettings;
  readonly fleet: Fleet;
  /** This scheduler in its present life. */
  readonly self: { readonly replica: string; readonly epoch: number };
  readonly plans: PlanCache;
  random(): number;
  nextId(now: Millis): string;
  /** For tests alone: the requeue that forgets its fence. */
  readonly forgetsFence: boolean;
}

interface CompiledPlan {
  readonly plan: Plan;
  /** Route of each node for this tenant; filled as they are met. */
  readonly routes: Map<PlanNode, RouteId>;
}

/** Workflow definitions never change under their digest, so what was compiled once serves every run of it. */
export class PlanCache {
  readonly #digest: (text: string) => string;
  readonly #compiled: LruMap<string, CompiledPlan>;

  constructor(digest: (text: string) => string, max: number) {
    this.#digest = digest;
    this.#compiled = new LruMap({ entriesMax: max, touchOnGet: false });
  }

  planOf(work: UnitOfWork, run: RunRow): Plan {
    return this.#compile(work, run.workflow).plan;
  }

  /** The node of a task; for an iteration its container. */
  nodeOf(work: UnitOfWork, run: RunRow, task: Pick<TaskRow, "id" | "run">): PlanNode {
    const node = nodeAt(this.planOf(work, run), taskPathOf(task));
    if (node === null) throw new Error(`run ${run.id} has no node for ${task.id}`);
    return node;
  }

  /** The route of a node; a new one is stored as a row and added to the fleet. */
  routeIdOf(work: UnitOfWork, fleet: Fleet, run: RunRow, node: PlanNode): RouteId {
    const compiled = this.#compile(work, run.workflow);
    const known = compiled.routes.get(node);
    if (known !== undefined && fleet.routes.has(known)) return known;
    const requirements = requirementsOf(run.tenant, node);
    const id = this.#digest(requirementsText(requirements));
    if (!fleet.routes.has(id)) {
      if (work.route(id) === null) work.put({ kind: "route", id, tenant: run.tenant, needs: requirementsText(requirements) });
      work.changeFleet({ type: "route", route: id, needs: requirements });
    }
    compiled.routes.set(node, id);
    return id;
  }

  #compile(work: UnitOfWork, workflow: string): CompiledPlan {
    const found = this.#compiled.get(workflow);
    if (found !== undefined) return found;
    const row = work.workflow(workflow);
    if (row === null) throw new Error(`workflow ${workflow} is not stored`);
    const compiled = { plan: compilePlan(JSON.parse(row.body) as Workflow), routes: new Map<PlanNode, RouteId>() };
    this.#compiled.set(workflow, compiled);
    return compiled;
  }
}
