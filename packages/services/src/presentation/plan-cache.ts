// Plans of definitions as they are kept, made once for a text that is read again and again: a definition never changes, and one of 10,000
// nodes takes a while. Bounded; what was used longest ago goes first.

import { compilePlan, type Plan } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";

const planCacheLimits = { entriesMax: 32, charsMax: 32 * 1024 * 1024 } as const;

const cachedPlans = new Map<string, Plan>();
let cachedChars = 0;

/** The plan of a definition's JSON text. */
export function cachedPlanOf(text: string): Plan {
  const plan = cachedPlans.get(text) ?? compilePlan(JSON.parse(text) as Workflow);
  if (cachedPlans.delete(text)) cachedChars -= text.length;
  cachedPlans.set(text, plan);
  cachedChars += text.length;
  for (const oldest of cachedPlans.keys()) {
    if (cachedPlans.size <= planCacheLimits.entriesMax && cachedChars <= planCacheLimits.charsMax) break;
    cachedPlans.delete(oldest);
    cachedChars -= oldest.length;
  }
  return plan;
}
