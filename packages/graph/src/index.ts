// The workflow model's entrance.
export { canonicalText } from "./canonical.ts";
export { type CatalogueNode, type CheckCatalogue, type CheckOptions, checkPackages, resolveWorkflow } from "./catalogue.ts";
export { checkWorkflow } from "./check.ts";
export { conflictsOf, type EditConflict } from "./conflicts.ts";
export { diffWorkflows, type WorkflowDiff } from "./diff.ts";
export type { DiffLine } from "./diff-summary.ts";
export { editLimits, readEdits } from "./edit-reader.ts";
export { applyEdits, type Edit } from "./edits.ts";
export { frameOutputs, frameParams, holds, itemsOf } from "./frames.ts";
export { type KeptPart, keptPartIn } from "./kept.ts";
export { type BindingPath, readPath, valueAt, withValueAt } from "./path.ts";
export { paramsOf, planOf } from "./plan.ts";
export type {
  Condition,
  Container,
  ContainerRetry,
  FrameInput,
  FrameOutput,
  FrameValues,
  Input,
  Loop,
  Outcome,
  Plan,
  PlanNode,
  Policy,
} from "./plan-types.ts";
export type { Problem } from "./problem.ts";
export { changesOf, type Merged, type MergeLimits, mergeResults, type ResultChange } from "./results.ts";
export { filledResults, paramsProblem, resultsProblem, schemaProblem, withDefaults } from "./schema.ts";
export type { SchemaProblem } from "./schema-words.ts";
export { type GivenNode, planStart, type Reused, type Start, type StartOptions, type StartProblem } from "./start.ts";
export { compareVersions } from "./version.ts";
