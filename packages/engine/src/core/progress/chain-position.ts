// Where a middleware chain is in the plan of its run.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { TaskRow } from "../../storage/rows.ts";
import type { RunProgress } from "../nodes/run-progress.ts";
import { planOfScope, scopeOf, type TaskPath, taskPathOf } from "../rows/task-path.ts";

/** The scope of a chain's host, the plan of that scope, and the host. */
export interface ChainPosition {
  readonly scope: TaskPath;
  readonly plan: Plan;
  readonly host: PlanNode;
}

/** The chain that a row belongs to, as host, call of the host, or middleware. */
export function findChain(progress: RunProgress, row: TaskRow): ChainPosition {
  const scope = scopeOf(taskPathOf(row));
  const plan = planOfScope(progress.plan, scope);
  const node = progress.nodeOf(row);
  const host = plan?.nodes[node.host ?? node.ordinal];
  if (plan === null || host === undefined) throw new Error(`run ${progress.run.id} has no chain for ${row.id}`);
  return { scope, plan, host };
}
