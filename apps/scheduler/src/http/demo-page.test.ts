import { readWorkflow } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { demoWorkflow, readDemoPage } from "./demo-page.ts";

it("[O18] the demo page contains the dev token only if it is given one", () => {
  expect(readDemoPage({ token: null })).toContain(`id="settings">{"token":null}</script>`);
  expect(readDemoPage({ token: "dev-token" })).toContain(`{"token":"dev-token"}`);
  expect(readDemoPage({ token: "</script><script>" })).not.toContain("</script><script>");
});

it("[O18] the demo page contains a demo workflow that is valid", () => {
  expect(readWorkflow(demoWorkflow)).toEqual(demoWorkflow);
  expect(readDemoPage({ token: null })).toContain(`"name":"Welcome Journey"`);
});

it("[O18] the demo page shows the results of the last nodes, and names the command that prints one as a whole", () => {
  const page = readDemoPage({ token: null });

  expect(page).toContain("drawResults(run, definition, byNode),");
  expect(page).toContain("npx astra runs results ${run.runId} ${node.id}");
});

it("[O18] the demo page writes text from the log as text, never as markup", () => {
  expect(readDemoPage({ token: null })).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write/);
});
