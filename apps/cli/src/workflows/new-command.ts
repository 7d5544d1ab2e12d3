// `astra workflows new`: writes a small workflow that runs at once, as a file to begin with.

import { randomUUID } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import type { CommandContext, TextInput } from "../api/command-context.ts";
import { type ExitCode, errorMessage, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { createExampleWorkflow, type ExampleName } from "./example-workflows.ts";

interface NewWorkflowInput extends TextInput<never, "file"> {
  readonly example: ExampleName;
}

/** Never replaces a file; `-` is stdout. */
export async function createWorkflowFile(
  { terminal, json }: Pick<CommandContext, "terminal" | "json">,
  { file = "workflow.json", example }: NewWorkflowInput,
): Promise<ExitCode> {
  const workflow = createExampleWorkflow(example, randomUUID);
  const text = JSON.stringify(workflow, null, 2);
  if (file === "-") {
    terminal.print(text);
    return exitCodes.ok;
  }
  if (existsSync(file))
    throw usageFailure(`${file} exists and is not replaced. Name another file.`, `astra workflows new my-${example}.json`);
  try {
    writeFileSync(file, `${text}\n`, { flag: "wx" });
  } catch (cause) {
    throw usageFailure(`${file} cannot be written (${errorMessage(cause)}).`);
  }
  terminal.print(json ? JSON.stringify({ file, example, workflowId: workflow.id }) : file);
  terminal.info(`wrote ${file}; next: astra run ${file}`);
  terminal.info(`then: astra nodes search shows what else a node can be, astra workflows validate ${file} checks your changes`);
  return exitCodes.ok;
}
