// How long results took, collected over a turn and emitted once, so that no effect is made for each.

import type { MetricSamples } from "../../interface/effect.ts";
import type { Tenant } from "../../storage/rows.ts";

/** By tenant and node type. A command undone later may leave one behind; no decision depends on it. */
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
