// A page with a login button, and the workflow of the specification that opens and clicks it.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Workflow } from "@astraflow/protocol";
import { onTestFinished } from "vitest";
import { readPrintedFile } from "./printed-package.ts";

/** Where Debian installs it, which is where the package looks first. */
export const chromiumProgram = "/usr/bin/chromium";

/** Every click is told to the server. */
export async function serveLoginPage() {
  const clicks: string[] = [];
  const server = createServer((request, response) => {
    if (request.url?.startsWith("/clicked") === true) {
      clicks.push(request.url);
      return response.writeHead(204).end();
    }
    response.setHeader("content-type", "text/html");
    return response.end(`<!doctype html><title>Sign in</title>
      <input id="user" value="nobody"><button id="login-button">Log in</button><p class="note">one</p><p class="note">two</p>
      <script>
        const button = document.getElementById("login-button");
        button.onclick = async () => {
          const user = document.getElementById("user").value;
          await fetch("/clicked?user=" + user);
          document.title = "Welcome " + user;
        };
      </script>`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, clicks };
}

/** As printed; only the address is that of the test. */
export function readPrintedWorkflow(url: string): Workflow {
  const workflow = JSON.parse(readPrintedFile("workflow.json")) as Workflow;
  const [open, ...others] = workflow.nodes;
  if (open === undefined) throw new Error("the printed workflow has no nodes");
  return { ...workflow, nodes: [{ ...open, parameters: { ...open.parameters, url } }, ...others] };
}
