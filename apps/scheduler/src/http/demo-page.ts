// The page at "/", ready to be served: the HTML file with its settings filled in. The token is handed out only in dev mode, where it
// is no secret.

import { readFileSync } from "node:fs";
import { demoWorkflow } from "./demo-workflow.ts";

const pageFile = new URL("./demo-page.html", import.meta.url);

export function readDemoPage({ token }: { readonly token: string | null }): string {
  return readFileSync(pageFile, "utf8")
    .replace(`{"token":null}`, () => toScriptJson({ token }))
    .replace("/*DEMO*/", () => `return ${toScriptJson(demoWorkflow)};`);
}

/** JSON inside a script element: `</script>` in a text must not end it. */
function toScriptJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}
