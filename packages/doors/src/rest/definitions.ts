// Workflows as they are submitted, made ready for the engine: checked, in their canonical text, with its digest. All three depend on
// the definition alone, and most submits repeat one, so the last few are remembered. Nothing here knows runs or tenants.

import { canonicalText, checkWorkflow, type Problem } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";

/** A workflow with problems may not run, so its text and digest are left empty. */
export interface Definition {
  readonly problems: readonly Problem[];
  readonly body: string;
  readonly digest: string;
}

export const definitionLimits = {
  entriesMax: 64,
  /** Characters of one definition; larger ones are made ready each time. */
  charsMax: 256 * 1024,
} as const;

/** Found again only where it is the same word for word: blanks are gone by then, another order of keys is another text. */
export function createDefinitions(digest: (text: string) => string): (workflow: Workflow) => Definition {
  const known = new Map<string, Definition>();
  return (workflow) => {
    const text = JSON.stringify(workflow);
    const found = known.get(text);
    if (found !== undefined) {
      // Put last again: the first is the one that was longest unused.
      known.delete(text);
      known.set(text, found);
      return found;
    }
    const problems = checkWorkflow(workflow);
    if (problems.length > 0) return { problems, body: "", digest: "" };
    const body = canonicalText(workflow);
    const made = { problems, body, digest: digest(body) };
    if (text.length > definitionLimits.charsMax) return made;
    known.set(text, made);
    for (const oldest of known.keys()) {
      if (known.size <= definitionLimits.entriesMax) break;
      known.delete(oldest);
    }
    return made;
  };
}
