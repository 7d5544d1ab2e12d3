// Workflows prepared for the engine: completed from the catalogue, checked, as canonical text with its digest. All of it depends only on the
// definition and the catalogue, and most starts repeat a definition, so the last few are cached.

import {
  canonicalJson,
  checkWorkflow,
  findUnknownFieldWarnings,
  type GraphProblem,
  type PackageCatalogue,
  resolveFromCatalogue,
  type WorkflowCheckOptions,
} from "@astraflow/graph";
import { LruMap, type Workflow } from "@astraflow/protocol";

/** A workflow with errors may not run, so its text and digest are left empty. */
export interface CheckedDefinition {
  readonly problems: readonly GraphProblem[];
  readonly body: string;
  readonly digest: string;
  /** Digest of the workflow as it was sent, which no catalogue changes. */
  sentDigest(): string;
  /** Warnings about fields of the workflow as it was sent, which no catalogue changes either. */
  unknownFields(): readonly GraphProblem[];
  /** With schemas, ports and defaults of the catalogue where the author left them out. */
  readonly workflow: Workflow;
}

export const definitionCacheLimits = {
  entriesMax: 64,
  /** Characters of one definition; larger ones are prepared each time. */
  charsMax: 256 * 1024,
} as const;

interface CachedDefinition {
  readonly definition: CheckedDefinition;
  /** The catalogue it was checked against. */
  readonly catalogue: PackageCatalogue;
  /** Decides how bad an unknown package is. */
  readonly allowUnknown: boolean;
}

/** Found by its exact JSON text: another order of keys is another text. */
export function createDefinitionCache(
  digest: (text: string) => string,
): (workflow: Workflow, catalogue: PackageCatalogue, options?: WorkflowCheckOptions) => CheckedDefinition {
  const cached = new LruMap<string, CachedDefinition>({ entriesMax: definitionCacheLimits.entriesMax });
  return (workflow, catalogue, { allowUnknown = false, stepsMax } = {}) => {
    const text = JSON.stringify(workflow);
    const found = cached.get(text);
    if (found?.catalogue === catalogue && found.allowUnknown === allowUnknown) return found.definition;
    cached.delete(text);
    const definition = prepareDefinition(workflow, catalogue, { allowUnknown, stepsMax }, digest);
    if (text.length <= definitionCacheLimits.charsMax && definition.body !== "")
      cached.set(text, { definition, catalogue, allowUnknown });
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
  let warnings: readonly GraphProblem[] | null = null;
  const unknownFields = (): readonly GraphProblem[] => (warnings ??= findUnknownFieldWarnings(sent));
  const shared = { problems, workflow, sentDigest, unknownFields };
  if (problems.some(({ severity }) => severity === "error")) return { ...shared, body: "", digest: "" };
  const body = canonicalJson(workflow);
  return { ...shared, body, digest: digest(body) };
}
