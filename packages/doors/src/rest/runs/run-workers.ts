// Workers as runs ask about them: how many could take a node now, and who is called so. Why a worker could not is the placement route's.

import { candidateOf, needsOf, type Reader, ruleFor, type WorkerId } from "@astraflow/engine";
import type { PlanNode } from "@astraflow/graph";

export async function workersFor(reader: Reader, tenant: string): Promise<(node: PlanNode) => number> {
  const { items } = await reader.page({ page: "workers", tenant });
  const candidates = items.map((row) => candidateOf(row, {}));
  return (node) => {
    const needs = needsOf(tenant, node);
    return candidates.filter((one) => ruleFor(needs, one, null).code === "fits").length;
  };
}

/** Workers of one name that runs are looked for by. */
const namesakesMax = 100;

/** By instance id, though it may be unknown by now, and all that have it as their name. */
export async function workersCalled(reader: Reader, tenant: string, word: string): Promise<WorkerId[]> {
  const { items } = await reader.page({ page: "workers", tenant });
  const named = items.filter(({ name }) => name === word).slice(0, namesakesMax);
  return [...new Set([`${tenant}/${word}`, ...named.map(({ id }) => id)])];
}
