// What is wrong with a workflow: all problems as a list, or the first of them as a fault.

import { checkPackages, checkWorkflow, resolveFromCatalogue, type WorkflowCheckOptions } from "@astraflow/graph";
import {
  Fault,
  fault,
  findWorkflowFaults,
  isRecord,
  type JsonValue,
  previewCharsMax,
  readWorkflow,
  type Workflow,
  type WorkflowProblem,
} from "@astraflow/protocol";
import type { Catalogue, CatalogueCache } from "../catalogue/catalogue.ts";
import { uuidFromText } from "../documents/derived-names.ts";

/** Problems listed in one answer; further ones are only counted. */
const problemsMax = 100;

/** Checks it as it would run: with the catalogue's schemas, ports and roles where the author left them out. */
export const findProblemsIn = (workflow: Workflow, catalogue: Catalogue, options?: WorkflowCheckOptions): WorkflowProblem[] =>
  checkWorkflow(resolveFromCatalogue(workflow, catalogue), catalogue, options);

export const isError = ({ severity }: WorkflowProblem): boolean => severity === "error";

/** Problems of a workflow as it would run now. */
export async function findProblems(
  catalogues: CatalogueCache,
  tenant: string,
  workflow: Workflow,
  options?: WorkflowCheckOptions,
) {
  const check = (catalogue: Catalogue, stepsMax?: number) => ({
    problems: findProblemsIn(workflow, catalogue, { ...options, stepsMax }),
  });
  return (await catalogues.check(tenant, check)).problems;
}

/** Packages that workflows from elsewhere use and this tenant lacks. Their versions and types are not checked: they may be gone by now. */
export async function findPackageProblems(
  catalogues: CatalogueCache,
  tenant: string,
  workflows: readonly Workflow[],
  options: WorkflowCheckOptions,
): Promise<readonly WorkflowProblem[]> {
  const check = (catalogue: Catalogue) => ({
    problems: workflows.flatMap((workflow) => checkPackages(workflow, catalogue, options)),
  });
  return (await catalogues.check(tenant, check)).problems;
}

/** Throws if there is an error among the problems. */
export function throwOnErrors(problems: readonly WorkflowProblem[]): void {
  const refusal = invalidWorkflowFault(problems);
  if (refusal !== null) throw refusal;
}

/** What the answer to a saving says of a workflow that was accepted. */
export function warningsField(problems: readonly WorkflowProblem[]): { readonly problems?: readonly WorkflowProblem[] } {
  const warnings = problems.filter((problem) => !isError(problem)).slice(0, problemsMax);
  return warnings.length === 0 ? {} : { problems: warnings };
}

/** Null if there are only warnings. */
export function invalidWorkflowFault(problems: readonly WorkflowProblem[]): Fault | null {
  const errors = problems.filter(isError);
  const [first] = errors;
  if (first === undefined) return null;
  const more = errors.length > 1 ? `; and ${errors.length - 1} more ${errors.length === 2 ? "problem" : "problems"}` : "";
  const isTooCostly = errors.every(({ code }) => code === "E.WORKFLOW.TOO_COSTLY");
  return fault(isTooCostly ? "E.WORKFLOW.TOO_COSTLY" : "E.WORKFLOW.INVALID", `${first.message}${more}`, {
    path: first.path,
    ...(first.node !== undefined && { node: first.node }),
    problems: errors.slice(0, problemsMax),
    total: errors.length,
  });
}

/** Parses a workflow, with this id if it has none. */
export function parseWorkflow(value: JsonValue, id: string): Workflow {
  const workflow = readWorkflow(withDefaultId(value, id));
  if (workflow instanceof Fault) throw workflow;
  return workflow;
}

/** Reads `allowUnknown`, which stands beside the fields of the workflow in the body. */
export function readAllowUnknown(body: JsonValue): boolean {
  const value = isRecord(body) ? (body["allowUnknown"] ?? false) : false;
  if (typeof value === "boolean") return value;
  throw fault("E.REQUEST.INVALID", "body.allowUnknown must be true or false", { path: "body.allowUnknown" });
}

/** Every list of workflows contains the preview, so it has a limit of its own. */
export function checkPreviewSize(workflow: Workflow): Workflow {
  if ((workflow.previewImage?.length ?? 0) <= previewCharsMax) return workflow;
  throw fault("E.REQUEST.TOO_LARGE", `workflow.previewImage may have ${previewCharsMax} characters`, {
    path: "workflow.previewImage",
    limit: previewCharsMax,
  });
}

/** Adds the id if the value is an object without one. */
function withDefaultId(value: JsonValue, id: string): JsonValue {
  const isNameless = typeof value === "object" && value !== null && !Array.isArray(value) && (value["id"] ?? null) === null;
  return isNameless ? { ...value, id } : value;
}

/** All problems of a workflow that is only checked, not saved. A new one may have no id yet. */
export async function validateWorkflow(
  catalogues: CatalogueCache,
  tenant: string,
  body: JsonValue,
): Promise<{ readonly isValid: boolean; readonly problems: readonly WorkflowProblem[]; readonly asOf: number }> {
  const options = { allowUnknown: readAllowUnknown(body) };
  const sent = withDefaultId(body, uuidFromText("new"));
  const workflow = readWorkflow(sent);
  const check = (catalogue: Catalogue, stepsMax?: number) => ({
    problems:
      workflow instanceof Fault
        ? findWorkflowFaults(sent, problemsMax).map(toProblem)
        : findProblemsIn(workflow, catalogue, { ...options, stepsMax }),
    asOf: catalogue.asOf,
  });
  const { problems, asOf } = await catalogues.check(tenant, check);
  const errors = problems.filter(isError);
  const shown = problems.length <= problemsMax ? problems : [...errors, ...problems.filter((one) => !isError(one))];
  return { isValid: errors.length === 0, problems: shown.slice(0, problemsMax), asOf };
}

/** A fault of the schema as a problem like those of the graph. */
function toProblem({ code, message, details }: Fault): WorkflowProblem {
  const path = typeof details?.["path"] === "string" ? details["path"] : "";
  return { path: path.replace(/^workflow/, "").replaceAll(".", "/"), code, message, severity: "error" };
}
