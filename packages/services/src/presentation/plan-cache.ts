// Plans of definitions, compiled once for a text that is read again and again: a definition never changes, and a large one takes a while.

import { compilePlan, type Plan } from "@astraflow/graph";
import { LruMap, type Workflow } from "@astraflow/protocol";

const cachedPlans = new LruMap<string, Plan>({
  entriesMax: 32,
  weightMax: 32 * 1024 * 1024,
  weightOf: (_plan, text) => text.length,
});

/** The plan of a definition's JSON text. */
export function cachedPlanOf(text: string): Plan {
  const cached = cachedPlans.get(text);
  if (cached !== undefined) return cached;
  const plan = compilePlan(JSON.parse(text) as Workflow);
  cachedPlans.set(text, plan);
  return plan;
}
