// Workflows as they are submitted, made ready for the engine: filled in from the catalogue, checked, in their canonical text, with its digest.
// All of it depends on the definition and the catalogue alone, and most submits repeat one, so the last few are remembered. Nothing here
// knows runs or tenants.

import {
  canonicalJson,
  checkWorkflow,
  type GraphProblem,
  type PackageCatalogue,
  resolveFromCatalogue,
  type WorkflowCheckOptions,
} from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";

/** A workflow with errors may not run, so its text and digest are left empty. */
export interface CheckedDefinition {
  readonly problems: readonly GraphProblem[];
  readonly body: string;
  readonly digest: string;
  /** Digest of the workflow as it was sent, which no catalogue changes. */
  sentDigest(): string;
  /** With schemas, ports and defaults of the catalogue where the author left them out. */
  readonly workflow: Workflow;
}

export const definitionCacheLimits = {
  entriesMax: 64,
  /** Characters of one definition; larger ones are made ready each time. */
  charsMax: 256 * 1024,
} as const;

interface CachedDefinition {
  readonly definition: CheckedDefinition;
  /** What it was checked against; another catalogue may say otherwise. */
  readonly catalogue: PackageCatalogue;
  /** Decides how bad an unknown package is. */
  readonly allowUnknown: boolean;
}

/** Found again only where it is the same word for word: blanks are gone by then, another order of keys is another text. */
export function createDefinitionCache(
  digest: (text: string) => string,
): (workflow: Workflow, catalogue: PackageCatalogue, options?: WorkflowCheckOptions) => CheckedDefinition {
  const cached = new Map<string, CachedDefinition>();
  return (workflow, catalogue, { allowUnknown = false } = {}) => {
    const text = JSON.stringify(workflow);
    const found = cached.get(text);
    if (found !== undefined) {
      // Put last again: the first is the one that was longest unused.
      cached.delete(text);
      if (found.catalogue === catalogue && found.allowUnknown === allowUnknown) {
        cached.set(text, found);
        return found.definition;
      }
    }
    const definition = prepareDefinition(workflow, catalogue, { allowUnknown }, digest);
    if (text.length > definitionCacheLimits.charsMax || definition.body === "") return definition;
    cached.set(text, { definition, catalogue, allowUnknown });
    for (const oldest of cached.keys()) {
      if (cached.size <= definitionCacheLimits.entriesMax) break;
      cached.delete(oldest);
    }
    return definition;
  };
}

function prepareDefinition(
  sent: Workflow,
  catalogue: PackageCatalogue,
  options: WorkflowCheckOptions,
  digest: (text: string) => string,
): CheckedDefinition {
  const workflow = resolveFromCatalogue(sent, catalogue);
  const problems = checkWorkflow(workflow, catalogue, options);
  let known: string | null = null;
  const sentDigest = (): string => (known ??= digest(canonicalJson(sent)));
  if (problems.some(({ severity }) => severity === "error")) return { problems, body: "", digest: "", workflow, sentDigest };
  const body = canonicalJson(workflow);
  return { problems, body, digest: digest(body), workflow, sentDigest };
}
