// Plans of definitions as they are kept, made once for a text that is read again and again: a definition never changes, and one of 10,000
// nodes takes a while. Bounded; what was used longest ago goes first.

import { compilePlan, type Plan } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";

const planLimits = { entriesMax: 32, charsMax: 32 * 1024 * 1024 } as const;

const known = new Map<string, Plan>();
let chars = 0;

/** The plan of a definition's JSON text. */
export function planOfText(text: string): Plan {
  const plan = known.get(text) ?? compilePlan(JSON.parse(text) as Workflow);
  if (known.delete(text)) chars -= text.length;
  known.set(text, plan);
  chars += text.length;
  for (const oldest of known.keys()) {
    if (known.size <= planLimits.entriesMax && chars <= planLimits.charsMax) break;
    known.delete(oldest);
    chars -= oldest.length;
  }
  return plan;
}
