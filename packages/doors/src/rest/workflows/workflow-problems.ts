// What is wrong with a workflow, as a route says it: all of it in a list, or the first of it in a refusal.

import { checkWorkflow, resolveWorkflow } from "@astraflow/graph";
import {
  Fault,
  fault,
  type JsonValue,
  previewCharsMax,
  readWorkflow,
  type Workflow,
  type WorkflowProblem,
} from "@astraflow/protocol";
import type { Catalogue } from "../../catalogue.ts";

/** Problems that one answer names; more are counted. */
export const problemsMax = 100;

/** Judged as it would run: with the catalogue's schemas, ports and roles where the author left them out. */
export const problemsOf = (workflow: Workflow, catalogue: Catalogue): WorkflowProblem[] =>
  checkWorkflow(resolveWorkflow(workflow, catalogue), catalogue);

export const isError = ({ severity }: WorkflowProblem): boolean => severity === "error";

/** Throws where there is more than a warning. */
export function refuseErrors(problems: readonly WorkflowProblem[]): void {
  const errors = problems.filter(isError);
  const [first] = errors;
  if (first === undefined) return;
  const more = errors.length > 1 ? `; and ${errors.length - 1} more ${errors.length === 2 ? "problem" : "problems"}` : "";
  throw fault("E.WORKFLOW.INVALID", `${first.message}${more}`, {
    path: first.path,
    ...(first.node !== undefined && { node: first.node }),
    problems: errors.slice(0, problemsMax),
    total: errors.length,
  });
}

/** A workflow of the right shape, under this id where it names none. */
export function workflowIn(value: JsonValue, id: string): Workflow {
  const isNameless = typeof value === "object" && value !== null && !Array.isArray(value) && (value["id"] ?? null) === null;
  const workflow = readWorkflow(isNameless ? { ...value, id } : value);
  if (workflow instanceof Fault) throw workflow;
  return workflow;
}

/** Read with every list that shows the workflow, so it has a bound of its own. */
export function sizedWorkflow(workflow: Workflow): Workflow {
  if ((workflow.previewImage?.length ?? 0) <= previewCharsMax) return workflow;
  throw fault("E.REQUEST.TOO_LARGE", `workflow.previewImage may have ${previewCharsMax} characters`, {
    path: "workflow.previewImage",
    limit: previewCharsMax,
  });
}

/** The value with this id, where it is an object that names none. */
export function named(value: JsonValue, id: string): JsonValue {
  const isNameless = typeof value === "object" && value !== null && !Array.isArray(value) && (value["id"] ?? null) === null;
  return isNameless ? { ...value, id } : value;
}
