// What an autoscaler needs to know of the caller's tenant: how much work waits, and how much its workers can take.

import { readCondition, type StoreReader } from "@astraflow/engine";
import type { Scaling } from "@astraflow/protocol";
import { drainReasonsOf, isSaturated, readWorkerDescription } from "@astraflow/services";
import type { RouteHandler } from "../requests/rest-call.ts";

/** Open tasks of a tenant that are counted: whoever sees so many adds workers, whatever the exact number. */
export const countedTasksMax = 10_000;

export function scalingHandlers({ reader }: { readonly reader: StoreReader }): Record<"getScaling", RouteHandler> {
  return {
    async getScaling(call) {
      const { tenant } = call.identity;
      const [depth, { items, head }] = await Promise.all([
        reader.page({ page: "depth", tenant, max: countedTasksMax }),
        reader.page({ page: "workers", tenant }),
      ]);
      const tasksIn = (phase: "ready" | "leased"): number => depth.items.find((one) => one.phase === phase)?.tasks ?? 0;
      const queued = tasksIn("ready");
      const running = tasksIn("leased");
      const isPartial = depth.items.reduce((sum, one) => sum + one.tasks, 0) >= countedTasksMax;
      const workers = { online: 0, away: 0, lost: 0, saturated: 0, draining: 0 };
      let slots = 0;
      for (const worker of items) {
        const condition = readCondition(worker.condition);
        const isDraining = drainReasonsOf(worker, condition).length > 0;
        if (worker.phase !== "enrolled") workers[worker.phase] += 1;
        if (worker.phase !== "online") continue;
        if (isSaturated(worker, condition)) workers.saturated += 1;
        if (isDraining) workers.draining += 1;
        else if (condition.healthy) slots += readWorkerDescription(worker).slots ?? 0;
      }
      const free = Math.max(0, slots - running);
      const body: Scaling = {
        queued,
        running,
        isPartial,
        slots,
        free,
        workers,
        wantedSlots: queued + running,
        asOf: head,
      };
      return { body };
    },
  };
}
