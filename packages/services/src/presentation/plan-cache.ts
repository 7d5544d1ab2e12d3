// Plans of definitions, compiled once for a text that is read again and again: a definition never changes, and a large one takes a while.

import { compilePlan, type Plan } from "@astraflow/graph";
import { LruMap, type Workflow } from "@astraflow/protocol";

/** A definition as answers need it: its plan, and the names that the plan leaves out. */
export interface CompiledDefinition {
  readonly plan: Plan;
  readonly workflowId: string;
  /** For people, by the subgraph's id. */
  readonly subgraphNames: ReadonlyMap<string, string>;
}

const cachedDefinitions = new LruMap<string, CompiledDefinition>({
  entriesMax: 32,
  weightMax: 32 * 1024 * 1024,
  weightOf: (_definition, text) => text.length,
});

export function cachedDefinitionOf(text: string): CompiledDefinition {
  const cached = cachedDefinitions.get(text);
  if (cached !== undefined) return cached;
  const compiled = compileDefinition(text);
  cachedDefinitions.set(text, compiled);
  return compiled;
}

export function compileDefinition(text: string): CompiledDefinition {
  const workflow = JSON.parse(text) as Workflow;
  const names = (workflow.subgraphs ?? []).map(
    ({ id, metadata, definition }) => [id, metadata?.label ?? definition.metadata.name] as const,
  );
  return { plan: compilePlan(workflow), workflowId: workflow.id, subgraphNames: new Map(names) };
}

/** The plan of a definition's JSON text. */
export const cachedPlanOf = (text: string): Plan => cachedDefinitionOf(text).plan;
