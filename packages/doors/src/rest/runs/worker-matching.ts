// Workers as runs ask about them: how many could take a node now, and who is called so. Why a worker could not is the placement route's.

import { firstFailedRule, requirementsOf, type StoreReader, toCandidate, type WorkerId } from "@astraflow/engine";
import type { PlanNode } from "@astraflow/graph";

export async function fittingWorkerCounter(reader: StoreReader, tenant: string): Promise<(node: PlanNode) => number> {
  const { items } = await reader.page({ page: "workers", tenant });
  const candidates = items.map((row) => toCandidate(row, {}));
  return (node) => {
    const needs = requirementsOf(tenant, node);
    return candidates.filter((one) => firstFailedRule(needs, one, null).code === "fits").length;
  };
}

/** Workers of one name that runs are looked for by. */
const sameNameMax = 100;

/** By instance id, though it may be unknown by now, and all that have it as their name. */
export async function findWorkerIds(reader: StoreReader, tenant: string, idOrName: string): Promise<WorkerId[]> {
  const { items } = await reader.page({ page: "workers", tenant });
  const named = items.filter(({ name }) => name === idOrName).slice(0, sameNameMax);
  return [...new Set([`${tenant}/${idOrName}`, ...named.map(({ id }) => id)])];
}
