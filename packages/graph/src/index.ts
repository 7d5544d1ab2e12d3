// The workflow model's entrance.
export { canonicalText } from "./canonical.ts";
export { checkWorkflow, type Problem } from "./check.ts";
export { type BindingPath, readPath, valueAt, withValueAt } from "./path.ts";
export { type Input, type Outcome, type Plan, type PlanNode, type Policy, paramsOf, planOf } from "./plan.ts";
