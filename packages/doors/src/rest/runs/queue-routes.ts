// The routes about waiting work: queues, the number for an autoscaler, and why one node waits.

import { explainPlacement, listQueues, type RunServices, readQueueMetric } from "@astraflow/services";
import type { RouteHandler } from "../requests/rest-call.ts";

export const queueHandlers = (runs: RunServices): Record<"listQueues" | "getKedaMetric" | "getPlacement", RouteHandler> => ({
  listQueues: async ({ identity }) => ({
    body: await listQueues(runs.reader, identity.tenant, runs.environment.clock.now()),
  }),
  getKedaMetric: async ({ identity, query: { pool, package: packageName } }) => ({
    body: await readQueueMetric(runs.reader, identity.tenant, { pool, packageName }),
  }),
  getPlacement: async ({ identity, params }) => ({
    body: await explainPlacement(runs, identity.tenant, params["runId"] ?? "", params["nodeId"] ?? ""),
  }),
});
