// What is wrong with a workflow, as a route says it: all of it in a list, or the first of it in a refusal.

import { checkWorkflow, resolveFromCatalogue, type WorkflowCheckOptions } from "@astraflow/graph";
import {
  Fault,
  fault,
  type JsonValue,
  previewCharsMax,
  readWorkflow,
  type Workflow,
  type WorkflowProblem,
} from "@astraflow/protocol";
import type { Catalogue, CatalogueCache } from "../catalogue/catalogue.ts";

/** Problems that one answer names; more are counted. */
export const problemsMax = 100;

/** Judged as it would run: with the catalogue's schemas, ports and roles where the author left them out. */
export const findProblemsIn = (workflow: Workflow, catalogue: Catalogue, options?: WorkflowCheckOptions): WorkflowProblem[] =>
  checkWorkflow(resolveFromCatalogue(workflow, catalogue), catalogue, options);

export const isError = ({ severity }: WorkflowProblem): boolean => severity === "error";

/** What a judge says by the catalogue at hand; where that is an error, by what is there this instant: a worker may just have come. */
export async function checkWithFreshCatalogue<T>(
  catalogues: CatalogueCache,
  tenant: string,
  check: (catalogue: Catalogue) => T,
  problemsIn: (result: T) => readonly WorkflowProblem[],
): Promise<T> {
  const result = check(await catalogues.current(tenant));
  return problemsIn(result).some(isError) ? check(await catalogues.reload(tenant)) : result;
}

/** The problems of a workflow that is looked at once. */
export const findProblems = (
  catalogues: CatalogueCache,
  tenant: string,
  check: (catalogue: Catalogue) => WorkflowProblem[],
): Promise<WorkflowProblem[]> => checkWithFreshCatalogue(catalogues, tenant, check, (problems) => problems);

/** Throws where there is more than a warning. */
export function throwOnErrors(problems: readonly WorkflowProblem[]): void {
  const refusal = invalidWorkflowFault(problems);
  if (refusal !== null) throw refusal;
}

/** Null where there is nothing worse than a warning. */
export function invalidWorkflowFault(problems: readonly WorkflowProblem[]): Fault | null {
  const errors = problems.filter(isError);
  const [first] = errors;
  if (first === undefined) return null;
  const more = errors.length > 1 ? `; and ${errors.length - 1} more ${errors.length === 2 ? "problem" : "problems"}` : "";
  return fault("E.WORKFLOW.INVALID", `${first.message}${more}`, {
    path: first.path,
    ...(first.node !== undefined && { node: first.node }),
    problems: errors.slice(0, problemsMax),
    total: errors.length,
  });
}

/** A workflow of the right shape, under this id where it names none. */
export function parseWorkflow(value: JsonValue, id: string): Workflow {
  const isNameless = typeof value === "object" && value !== null && !Array.isArray(value) && (value["id"] ?? null) === null;
  const workflow = readWorkflow(isNameless ? { ...value, id } : value);
  if (workflow instanceof Fault) throw workflow;
  return workflow;
}

/** `allowUnknownFlag` beside the fields of a workflow, which is the body. */
export function readAllowUnknown(body: JsonValue): boolean {
  const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
  const value = isObject ? (body["allowUnknown"] ?? false) : false;
  if (typeof value === "boolean") return value;
  throw fault("E.REQUEST.INVALID", "body.allowUnknown must be true or false", { path: "body.allowUnknown" });
}

/** Read with every list that shows the workflow, so it has a bound of its own. */
export function checkPreviewSize(workflow: Workflow): Workflow {
  if ((workflow.previewImage?.length ?? 0) <= previewCharsMax) return workflow;
  throw fault("E.REQUEST.TOO_LARGE", `workflow.previewImage may have ${previewCharsMax} characters`, {
    path: "workflow.previewImage",
    limit: previewCharsMax,
  });
}

/** The value with this id, where it is an object that names none. */
export function withDefaultId(value: JsonValue, id: string): JsonValue {
  const isNameless = typeof value === "object" && value !== null && !Array.isArray(value) && (value["id"] ?? null) === null;
  return isNameless ? { ...value, id } : value;
}
