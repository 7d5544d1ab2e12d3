// The page at "/", ready to be served: the HTML file with its settings and its workflow filled in. The token is handed out only in dev mode,
// where it is no secret. The run that it starts needs the example package `example.pkg` on a worker.

import { readFileSync } from "node:fs";
import { Fault, limits, readJson, readWorkflow, type Workflow } from "@astraflow/protocol";

const pageFile = new URL("./demo-page.html", import.meta.url);
const workflowFile = new URL("../../../../docs/examples/welcome-journey.json", import.meta.url);

export const demoWorkflow: Workflow = readDemoWorkflow();

/** A broken installation says so at once, and not when somebody presses the button. */
function readDemoWorkflow(): Workflow {
  const value = readJson(readFileSync(workflowFile), limits.json.request);
  const workflow = value instanceof Fault ? value : readWorkflow(value);
  if (workflow instanceof Fault) throw workflow;
  return workflow;
}

export function readDemoPage({ token }: { readonly token: string | null }): string {
  return readFileSync(pageFile, "utf8")
    .replace(`{"token":null}`, () => toScriptJson({ token }))
    .replace("/*DEMO*/", () => `return ${toScriptJson(demoWorkflow)};`);
}

/** JSON inside a script element: `</script>` in a text must not end it. */
function toScriptJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}
