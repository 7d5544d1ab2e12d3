// Effects that follow from what a turn records: facts about workers that also go to the scheduler's log, and latencies for the metrics.

import type { MetricSamples, WorkerNotice } from "../../interface/effect.ts";
import type { Fact, RowKey, Tenant } from "../../storage/rows.ts";

const alarmingFacts = new Set(["worker.lost", "worker.strained", "worker.saturated", "worker.cloned"]);
const recoveryFacts = new Set(["worker.relieved", "worker.unsaturated"]);

/** Joins, leaves, drains and kicks are logged where they happen, at the doors. */
export function workerNoticeFor(tenant: Tenant, subject: RowKey, event: string, data: Fact["data"]): WorkerNotice | null {
  if (!subject.startsWith("worker/")) return null;
  // 1x WARN, 2x DEGRADED, 3x UNHEALTHY, and back.
  const isGood = event === "worker.liveness" ? data["to"] === "fresh" : recoveryFacts.has(event);
  if (!isGood && !alarmingFacts.has(event) && event !== "worker.liveness") return null;
  return { type: "worker", tenant, worker: subject.slice("worker/".length), event, isRecovery: isGood, data };
}

/** How long results took, collected over a turn and emitted once: no effect for each. By tenant and node type. A command undone later may leave one behind; no decision depends on it. */
export class ResultLatencies {
  readonly #byTenant = new Map<Tenant, Map<string, number[]>>();

  observe(tenant: Tenant, nodeType: string, ms: number): void {
    let types = this.#byTenant.get(tenant);
    if (types === undefined) this.#byTenant.set(tenant, (types = new Map()));
    const values = types.get(nodeType);
    if (values === undefined) types.set(nodeType, [ms]);
    else values.push(ms);
  }

  toMetricSamples(): MetricSamples[] {
    const counted: MetricSamples[] = [];
    for (const [tenant, types] of this.#byTenant)
      for (const [nodeType, values] of types)
        counted.push({ type: "count", name: "result_latency_ms", labels: { tenant, node_type: nodeType }, values });
    return counted;
  }
}
