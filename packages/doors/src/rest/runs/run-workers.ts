// How many workers could take a node now, for whoever plans a run. Why each of the others could not is the placement route's.

import { candidateOf, needsOf, type Reader, ruleFor } from "@astraflow/engine";
import type { PlanNode } from "@astraflow/graph";

export async function workersFor(reader: Reader, tenant: string): Promise<(node: PlanNode) => number> {
  const { items } = await reader.page({ page: "workers", tenant });
  const candidates = items.map((row) => candidateOf(row, {}));
  return (node) => {
    const needs = needsOf(tenant, node);
    return candidates.filter((one) => ruleFor(needs, one, null).code === "fits").length;
  };
}
