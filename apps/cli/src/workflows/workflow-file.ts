// Workflows in files: read, and refused with everything that is wrong with their fields.

import { checkWorkflow } from "@astraflow/graph";
import { Fault, findWorkflowFaults, readWorkflow, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import { readJsonFile } from "../api/input-file.ts";
import { CliFailure, exitCodes, faultFailure } from "../output/cli-failure.ts";

/** A file may also hold a whole request with its workflow. */
export function readWorkflowValue(file: string): { readonly value: unknown; readonly source: string } {
  const { value, source } = readJsonFile(file);
  return { value: typeof value === "object" && value !== null && "workflow" in value ? value.workflow : value, source };
}

export function readWorkflowFile(file: string): Workflow {
  const { value, source } = readWorkflowValue(file);
  const workflow = readWorkflow(value);
  if (workflow instanceof Fault) throw workflowFailure(value, workflow, source);
  return workflow;
}

const faultsMax = 200;

/** Names every invalid field of the workflow, not only the first. */
export function workflowFailure(value: unknown, first: Fault, source: string): CliFailure {
  const faults = findWorkflowFaults(value, faultsMax);
  if (faults.length < 2) return faultFailure(first, source);
  const problems = faults.map(({ message }) => ({ message }));
  const message = `${source}: ${faults.length} fields of the workflow are wrong.`;
  return new CliFailure(exitCodes.usage, { error: first.code, message, details: { problems } });
}

/** What is wrong with the fields, or else with the graph; without the schemas of packages, which only a scheduler has. */
export function findLocalProblems(value: unknown): WorkflowProblem[] {
  const workflow = readWorkflow(value);
  if (!(workflow instanceof Fault)) return checkWorkflow(workflow);
  return findWorkflowFaults(value, faultsMax).map(({ code, message, details }) => {
    const path = String(details?.["path"] ?? "").replace(/^workflow/, "");
    return { path: path.replaceAll(".", "/"), code, message, severity: "error" };
  });
}
