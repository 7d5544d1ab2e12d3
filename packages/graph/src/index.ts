// The public API of the workflow model.

export { knownParametersOf } from "./check/check-values.ts";
export { checkWorkflow, findUnknownFieldWarnings } from "./check/check-workflow.ts";
export {
  checkPackages,
  type NodeTypeDescription,
  type PackageCatalogue,
  resolveFromCatalogue,
  type WorkflowCheckOptions,
} from "./check/package-catalogue.ts";
export type { GraphProblem } from "./check/problem-list.ts";
export { applyEdits, type WorkflowEdit } from "./edits/apply-edits.ts";
export { type EditConflict, findEditConflicts } from "./edits/edit-conflicts.ts";
export { editLimits, readEdits } from "./edits/read-edits.ts";
export { type DiffLine, diffWorkflows, type WorkflowDiff } from "./edits/workflow-diff.ts";
export { collectIterationOutputs, isConditionMet, resolveIterationParams, resolveLoopItems } from "./plan/iterations.ts";
export { fillResults, findParamsProblem, findResultsProblem, findSchemaProblem, withDefaults } from "./plan/node-schemas.ts";
export {
  type PresetNode,
  planStart,
  type ReusedResult,
  type StartOptions,
  type StartPlan,
  type StartProblem,
} from "./plan/partial-start.ts";
export { compilePlan, compilePlanInSteps, resolveParams } from "./plan/plan-compiler.ts";
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
} from "./plan/plan-types.ts";
export { declaredUnrepeatable } from "./plan/workflow-index.ts";
export type { SchemaProblem } from "./schema/keywords.ts";
export { type BindingPath, parseBindingPath, valueAt, withValueAt } from "./values/binding-path.ts";
export { canonicalJson } from "./values/canonical-json.ts";
export { findRemoteValuePart, type RemoteValuePart } from "./values/remote-value.ts";
export {
  listPatchChanges,
  type MergedResults,
  type MergeLimits,
  mergeResults,
  type ResultPatchOperation,
} from "./values/result-merge.ts";
export { compareVersions } from "./values/version-order.ts";
