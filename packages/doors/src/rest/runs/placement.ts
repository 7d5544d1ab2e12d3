// Why a node waits, on request: the same rules by which work is placed, over the rows as they are stored.

import {
  nodeAt,
  type Reader,
  type RunDetail,
  scopeOf,
  slotOf,
  stateOf,
  type TaskRow,
  type WorkerRow,
  whyWaits,
} from "@astraflow/engine";
import type { Plan, PlanNode } from "@astraflow/graph";
import type { JsonObject, Placement } from "@astraflow/protocol";
import type { Outside } from "../../outside.ts";
import type { Handler } from "../call.ts";
import { instanceIn } from "../workers/view-workers.ts";
import { findNode } from "./run-parts.ts";
import { findRun } from "./runs.ts";

export interface PlacementOptions {
  readonly reader: Reader;
  readonly outside: Outside;
  readonly ackDeadlineMs: number;
}

const placementLimits = {
  /** Workers whose load is looked at; of more only their rules are told. */
  loadsMax: 50,
  heldMax: 1_000,
} as const;

export function placementHandlers({ reader, outside, ackDeadlineMs }: PlacementOptions): Record<"getPlacement", Handler> {
  return {
    async getPlacement(call) {
      const { tenant } = call.identity;
      const { detail, head } = await findRun(reader, tenant, call.params["runId"] ?? "");
      const { task, node, plan } = await findNode(reader, detail, call.params["nodeId"] ?? "", ackDeadlineMs);
      const slot = slotOf({ id: node.taskId, run: detail.run.id });
      const planned = nodeAt(plan, slot) as PlanNode;
      const { items } = await reader.page({ page: "workers", tenant });
      const why = whyWaits(detail.run, task, planned, items, outside.clock.now(), {
        held: await loadsOf(reader, tenant, items, planned.type),
        before: predecessors(plan, detail, slot, planned),
      });
      const body: Placement = {
        runId: detail.run.id,
        nodeId: node.nodeId,
        ...(task !== null && { taskId: task.id }),
        status: node.status,
        summary: why.summary,
        reasons: why.reasons.map(({ code, facts }) => ({ code, facts: withNames(facts, items) })),
        workers: why.workers.map(({ worker, name, code, facts }) => ({
          workerId: instanceIn(worker),
          workerName: name,
          code,
          facts: facts as JsonObject,
        })),
        fixes: [...why.fixes],
        asOf: head,
      };
      return { body };
    },
  };
}

/** Workers are named as people know them; a fact that is no worker of the tenant stays as it is. */
function withNames(facts: Readonly<Record<string, unknown>>, workers: readonly WorkerRow[]): JsonObject {
  const { worker, ...rest } = facts;
  if (typeof worker !== "string") return facts as JsonObject;
  const known = workers.find(({ id }) => id === worker || instanceIn(id) === worker);
  return { ...rest, worker: known?.name ?? worker } as JsonObject;
}

/** The nodes it waits for, as far as they were reached. */
function predecessors(plan: Plan, detail: RunDetail, slot: string, node: PlanNode): { node: string; phase: string | null }[] {
  const scope = scopeOf(slot);
  const tasks = new Map(detail.tasks.map((task) => [slotOf(task), task]));
  return node.before.map((ordinal) => {
    const at = scope === "" ? String(ordinal) : `${scope}/${ordinal}`;
    return { node: nodeAt(plan, at)?.id ?? at, phase: tasks.get(at)?.phase ?? null };
  });
}

/** How full each worker is; what waits for a call of its chain takes no slot. */
async function loadsOf(
  reader: Reader,
  tenant: string,
  workers: readonly WorkerRow[],
  nodeType: string,
): Promise<Map<string, { busy: number; busyOfType: number }>> {
  const online = workers.filter((worker) => worker.phase === "online").slice(0, placementLimits.loadsMax);
  const { items: routes } = await reader.page({ page: "routes" });
  const types = new Map(routes.map((route) => [route.id, (JSON.parse(route.needs) as { nodeType?: string }).nodeType]));
  const loads = await Promise.all(
    online.map(async ({ id: worker }) => {
      const { held } = await reader.page({ page: "worker", tenant, worker, limit: placementLimits.heldMax });
      const busy = held.filter((task) => !isWaiting(task));
      return [
        worker,
        { busy: busy.length, busyOfType: busy.filter((task) => types.get(task.route) === nodeType).length },
      ] as const;
    }),
  );
  return new Map(loads);
}

const isWaiting = (task: TaskRow): boolean =>
  (stateOf(task).calls ?? []).some((call) => call.fence === task.fence && call.answer === undefined);
