// The workflow model's entrance.
export { canonicalJson } from "./canonical.ts";
export {
  checkPackages,
  type NodeTypeDescription,
  type PackageCatalogue,
  resolveFromCatalogue,
  type WorkflowCheckOptions,
} from "./catalogue.ts";
export { checkWorkflow } from "./check.ts";
export { type EditConflict, findEditConflicts } from "./conflicts.ts";
export { diffWorkflows, type WorkflowDiff } from "./diff.ts";
export type { DiffLine } from "./diff-summary.ts";
export { editLimits, readEdits } from "./edit-reader.ts";
export { applyEdits, type WorkflowEdit } from "./edits.ts";
export { collectIterationOutputs, isConditionMet, resolveIterationParams, resolveLoopItems } from "./frames.ts";
export { findRemoteValuePart, type RemoteValuePart } from "./kept.ts";
export { type BindingPath, parseBindingPath, valueAt, withValueAt } from "./path.ts";
export { compilePlan, resolveParams } from "./plan.ts";
export type {
  ContainerLoop,
  ContainerPlan,
  ContainerRetry,
  EdgeInput,
  IterationInput,
  IterationOutput,
  IterationScope,
  LoopCondition,
  NodeOutcome,
  Plan,
  PlanNode,
  PlanPolicy,
} from "./plan-types.ts";
export type { GraphProblem } from "./problem.ts";
export { listPatchChanges, type MergedResults, type MergeLimits, mergeResults, type ResultChange } from "./results.ts";
export { fillResults, findParamsProblem, findResultsProblem, findSchemaProblem, withDefaults } from "./schema.ts";
export type { SchemaProblem } from "./schema-words.ts";
export { type PresetNode, planStart, type ReusedResult, type StartOptions, type StartPlan, type StartProblem } from "./start.ts";
export { compareVersions } from "./version.ts";
