// The run that the demo page starts: the welcome journey of the examples, so that there is something to watch. It needs the example
// package `example.pkg` on a worker.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Fault, limits, readJson, readWorkflow, type Workflow } from "@astraflow/protocol";

const file = fileURLToPath(new URL("../../../../docs/examples/welcome-journey.json", import.meta.url));

export const demoWorkflow: Workflow = readDemoWorkflow();

/** A broken installation says so at once, and not when somebody presses the button. */
function readDemoWorkflow(): Workflow {
  const value = readJson(readFileSync(file), limits.json.request);
  const workflow = value instanceof Fault ? value : readWorkflow(value);
  if (workflow instanceof Fault) throw workflow;
  return workflow;
}
