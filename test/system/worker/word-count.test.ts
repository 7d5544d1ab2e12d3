// The packages `http`, `shell` and `files` in one workflow, on a real scheduler and worker.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { expect, it, onTestFinished, vi } from "vitest";
import { SchedulerApi, startScheduler, startWorker } from "../harness/installation.ts";
import { repositoryRoot } from "../harness/processes.ts";

/** Answers 503 at first: the retry policy of the node asks again. */
async function servePage(text: string) {
  let asked = 0;
  const server = createServer((_, response) => {
    asked++;
    if (asked === 1) return response.writeHead(503).end();
    return response.setHeader("content-type", "text/plain").end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, asked: () => asked };
}

function readWorkflow(url: string): Workflow {
  const text = readFileSync(join(repositoryRoot, "examples/workflows/word-count.json"), "utf8");
  const workflow = JSON.parse(text) as Workflow;
  const nodes = workflow.nodes.map((node) =>
    node.type === "http.request" ? { ...node, parameters: { ...node.parameters, url } } : node,
  );
  return { ...workflow, nodes };
}

async function startInstallation(env: Readonly<Record<string, string>>) {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { http, ws } = await startScheduler();
  await startWorker(ws, { packages: ["http", "shell", "files"] });
  const api = new SchedulerApi(http);
  return { api, run: async (workflow: Workflow) => api.waitForRunEnd((await api.startRun(workflow, "key")).runId) };
}

it("[W1359] the words of a page are fetched, counted by programs of the worker and stored as a file that can be downloaded", async () => {
  const page = await servePage("b a c a b a");
  const { api, run } = await startInstallation({
    HTTP_PACKAGE_PRIVATE_HOSTS: page.host,
    SHELL_PACKAGE_PROGRAMS: "/usr/bin/tr,/usr/bin/sort,/usr/bin/uniq,/usr/bin/head",
  });

  const done = await run(readWorkflow(`http://${page.host}/`));

  expect(done.error ?? null).toBeNull();
  expect(page.asked()).toBe(2);
  const kept = done.nodes?.find(({ label }) => label === "Keep list")?.result as { file: { downloadUrl: string } } | undefined;
  const answer = await api.send("GET", kept?.file.downloadUrl ?? "");
  expect((await answer.text()).split("\n").map((line) => line.trim())).toEqual(["3 a", "2 b", "1 c", ""]);
});

it("[W1359] at a worker without settings the workflow ends with E.RUNNER.REFUSED at once, whatever the retry policy of its node", async () => {
  const page = await servePage("");
  const { run } = await startInstallation({});

  const done = await run(readWorkflow(`http://${page.host}/`));

  expect(done).toMatchObject({ status: "failed", error: { code: "E.RUNNER.REFUSED" } });
  expect(done.error?.message).toContain("127.0.0.1 is not a public address");
  expect(done.nodes?.find(({ label }) => label === "Fetch page")).toMatchObject({ attempt: 1 });
  expect(page.asked()).toBe(0);
});
