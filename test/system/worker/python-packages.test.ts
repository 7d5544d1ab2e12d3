// Packages for Python on real processes: the adapter and the manifest as the specification prints them, a flood beside a neighbour, and
// kill -9 of host and worker.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readManifest } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { startMisbehavingWorker } from "../harness/misbehaving-package.ts";
import { oneNode, readPrintedFile, readPrintedManifest } from "../harness/printed-package.ts";
import { makeTemporaryFolder, pollUntil } from "../harness/processes.ts";

function writeFiles(root: string, files: Readonly<Record<string, string>>): string {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

const pythonManifest = (name: string, entrypoint: string, handlers: readonly string[]): string =>
  JSON.stringify({
    schemaVersion: "1.0.0",
    name,
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint, capabilities: handlers.map((one) => `${name}.${one}`), idempotency: "per_request" }],
    python: { requires: ">=3.10" },
    nodes: handlers.map((handler) => ({
      type: `${name}.${handler}`,
      status: "published",
      category: "Tests",
      label: handler,
      adapter: "main",
      handler,
      schema: {},
    })),
  });

describe("packages for Python on real processes", () => {
  it("[W784] the adapter that the specification prints runs as printed, with its feedback in the run", async () => {
    const packages = writeFiles(makeTemporaryFolder(), {
      "summaries/1.0.0/manifest.json": pythonManifest("summaries", "summaries.runnable:Summarise", ["summarise"]),
      "summaries/1.0.0/adapters/summaries/__init__.py": "",
      "summaries/1.0.0/adapters/summaries/printed.py": readPrintedFile("summarise_adapter.py"),
      // The two methods that the print leaves to its reader.
      "summaries/1.0.0/adapters/summaries/runnable.py": `
from summaries.printed import SummariseAdapter

class Summarise(SummariseAdapter):
    async def _load_articles(self, urls):
        return ["article of " + url for url in urls]

    async def _llm_stream(self, articles):
        for article in articles:
            yield article + ". "
`,
    });
    const scheduler = await startScheduler();
    await startMisbehavingWorker(scheduler.ws, packages);
    const api = new SchedulerApi(scheduler.http);
    const workflow = oneNode("summaries.summarise", { name: "summaries", version: "1.0.0" }, { urls: ["a", "b"] });

    const { runId } = await api.startRun(workflow, "k");
    const run = await api.waitForRunEnd(runId);
    const logs = await api.get<{ items: { channel?: string; text?: string }[] }>(`/api/v1/runs/${runId}/logs`);

    expect(run.status).toBe("succeeded");
    expect(JSON.stringify(run.nodes)).toContain("article of a. article of b. ");
    expect(logs.items.filter(({ channel }) => channel === "log").map(({ text }) => text)).toEqual(["Loaded 2 articles"]);
    expect(
      logs.items
        .filter(({ channel }) => channel === "llm")
        .map(({ text }) => text)
        .join(""),
    ).toBe("article of a. article of b. ");
  });

  it("[W784] the manifest that the specification prints is valid, and its adapter runs from the layout beside it", async () => {
    const manifest = readPrintedManifest();
    expect(readManifest(manifest)).toMatchObject({ name: "playwright", version: "2025.10.0" });
    const packages = writeFiles(makeTemporaryFolder(), {
      "playwright/2025.10.0/manifest.json": JSON.stringify(manifest),
      "playwright/2025.10.0/adapters/playwright/adapter.py": `
class PlaywrightAdapter:
    def open_page(self, ctx):
        ctx.feedback.emit_text("opened " + ctx.params["url"])
        return {"status": "SUCCEEDED", "outputs": {"page": {"url": ctx.params["url"]}, "done": True}}
`,
    });
    const scheduler = await startScheduler();
    await startMisbehavingWorker(scheduler.ws, packages);
    const api = new SchedulerApi(scheduler.http);
    const workflow = oneNode(
      "playwright.open_page",
      { name: "playwright", version: "2025.10.0" },
      { url: "https://example.com" },
    );

    const { runId } = await api.startRun(workflow, "k");
    const run = await api.waitForRunEnd(runId);

    expect(run.status).toBe("succeeded");
    expect(JSON.stringify(run.nodes)).toContain('"url":"https://example.com"');
  });

  it("[W788] kill -9 of a worker ends its hosts and the programs they have started", async () => {
    const packages = writeFiles(makeTemporaryFolder(), {
      "marks/manifest.json": pythonManifest("marks", "marks", ["wait"]),
      "marks/marks.py": `
import os, subprocess, time
def wait(ctx):
    child = subprocess.Popen(["sleep", "3600"])
    ctx.feedback.send_nowait(metadata={"results": {"pids": [os.getpid(), child.pid]}})
    time.sleep(3600)
`,
    });
    const scheduler = await startScheduler();
    const worker = await startMisbehavingWorker(scheduler.ws, packages);
    const api = new SchedulerApi(scheduler.http);
    const name = { name: "marks", version: "1.0.0" };
    const { runId } = await api.startRun(oneNode("marks.wait", name), "k");
    const pids = await pollUntil("the processes of the task", async () => {
      const text = JSON.stringify((await api.getRun(runId)).nodes);
      const found = /"pids":\[(\d+),(\d+)\]/.exec(text);
      return found === null ? null : [Number(found[1]), Number(found[2])];
    });

    worker.kill("SIGKILL");
    await worker.ended;

    const left = () => pids.filter((pid) => existsSync(`/proc/${pid}/exe`));
    await pollUntil("the end of host and program", async () => left().length === 0);
    expect(left()).toEqual([]);
  });
});
