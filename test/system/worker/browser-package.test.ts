// The package `browser` on a real Chromium: the workflow that the specification prints, a page that stays at its worker, a screenshot that
// is downloaded, and what is left when pages, hosts and workers end.

import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { JsonObject, Run, Workflow } from "@astraflow/protocol";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { browserPackageNames, readBrowserPackage } from "../../../scripts/browser-packages.ts";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { chromiumProgram, readPrintedWorkflow, serveLoginPage } from "../harness/login-page.ts";
import { startMisbehavingWorker } from "../harness/misbehaving-package.ts";
import { makeTemporaryFolder, pollUntil, repositoryRoot, withTimeout } from "../harness/processes.ts";

const viewport = { width: 1280, height: 720 };
const crawler = browserPackageNames[1];

/** The package under the name of the printed workflow, beside the modules of this repository. */
async function makePackages(): Promise<string> {
  const root = makeTemporaryFolder();
  symlinkSync(join(repositoryRoot, "node_modules"), join(root, "node_modules"));
  const folder = join(root, "packages", crawler.name, crawler.version);
  for (const { name, content } of await readBrowserPackage(crawler)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return join(root, "packages");
}

const openPageId = "2b2c3fcb-9c18-4ca2-9b5a-8ad4deb1f164";
const clickId = "8f5dea1f-6a13-4e43-843f-5361c40f8f5a";

/** The printed workflow with more nodes behind it, each on the same page and after the one before. */
function withMoreNodes(workflow: Workflow, more: readonly { type: string; parameters?: JsonObject }[]): Workflow {
  let before = clickId;
  const nodes = [...workflow.nodes];
  const edges = [...workflow.edges];
  for (const { type, parameters = {} } of more) {
    const id = crypto.randomUUID();
    nodes.push({ id, type, label: type, package: crawler, position: { x: 0, y: 0 }, parameters });
    const edge = (source: string, port: string, target: string) => ({
      id: crypto.randomUUID(),
      source: { node: source, port },
      target: { node: id, port: target },
    });
    edges.push(edge(before, "done", "trigger"), edge(openPageId, "page", "page"));
    before = id;
  }
  return { ...workflow, id: crypto.randomUUID(), nodes, edges };
}

async function startInstallation(workers: readonly string[] = ["left", "right"]) {
  const packages = await makePackages();
  const scheduler = await startScheduler();
  const processes = [];
  for (const name of workers) processes.push(await startMisbehavingWorker(scheduler.ws, packages, ["--max-parallel", "1"], name));
  const api = new SchedulerApi(scheduler.http);
  const run = async (workflow: Workflow): Promise<Run> =>
    api.waitForRunEnd((await api.startRun(workflow, crypto.randomUUID())).runId);
  return { api, scheduler, processes, run };
}

const nodeOf = (run: Run, label: string) => run.nodes?.find((node) => node.label === label);

/** The processes of Chromium that descend from a process. */
function chromiumPids(ancestor: number): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const parents = new Map(pids.map((pid) => [Number(pid), readParent(pid)]));
  const descends = (pid: number): boolean => {
    for (let at = parents.get(pid); at !== undefined && at > 1; at = parents.get(at)) if (at === ancestor) return true;
    return false;
  };
  return [...parents.keys()].filter((pid) => descends(pid) && isChromium(pid));
}

/** 0 for one that ended while we looked. */
function readParent(pid: string): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 4).split(" ")[0]);
  } catch {
    return 0;
  }
}

/** Not one that ended, also if nobody has waited for it yet. */
function isChromium(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/exe`).includes("chromium");
  } catch {
    return false;
  }
}

describe("the package browser on a real Chromium", () => {
  beforeEach((context) => {
    if (!existsSync(chromiumProgram)) context.skip(`there is no Chromium at ${chromiumProgram}: apt-get install chromium`);
  });

  it("[W1040] the workflow that the specification prints runs on a real page, and both of its tasks at the worker that has the page", async () => {
    const { run } = await startInstallation();
    const site = await serveLoginPage();

    // More than there are slots: whoever has one is given the next task, unless the task has to wait for the worker of its page.
    const runs = await Promise.all(Array.from({ length: 4 }, () => run(readPrintedWorkflow(site.url))));

    for (const done of runs) {
      expect(done.error ?? null).toBeNull();
      expect(done.status).toBe("succeeded");
      const opened = nodeOf(done, "Open Base Page");
      const clicked = nodeOf(done, "Click Login");
      expect(opened?.result).toMatchObject({ status: "SUCCEEDED", done: true, page: { url: site.url, title: "Sign in" } });
      expect(clicked?.result).toMatchObject({ status: "SUCCEEDED", done: true });
      expect(clicked?.workerName).toBe(opened?.workerName);
    }
    expect(new Set(runs.map((done) => nodeOf(done, "Open Base Page")?.workerName))).toEqual(new Set(["left", "right"]));
    expect(site.clicks).toEqual(Array(4).fill("/clicked?user=nobody"));
  });

  it("[W1041] a page is written into, read and photographed by later nodes at its worker, and the picture can be downloaded", async () => {
    const { run, api } = await startInstallation();
    const site = await serveLoginPage();
    const workflow = withMoreNodes(readPrintedWorkflow(site.url), [
      { type: "playwright.input", parameters: { selector: "#user", value: "ada" } },
      { type: "playwright.click", parameters: { selector: "#login-button" } },
      { type: "playwright.extract", parameters: { selector: ".note", all: true } },
      { type: "playwright.screenshot", parameters: { filename: "login.png" } },
      { type: "playwright.close_page" },
    ]);

    const done = await run(workflow);

    expect(done.error ?? null).toBeNull();
    expect(new Set(done.nodes?.map(({ workerName }) => workerName)).size).toBe(1);
    expect(site.clicks).toEqual(["/clicked?user=nobody", "/clicked?user=ada"]);
    expect(nodeOf(done, "playwright.extract")?.result).toMatchObject({ value: "one", values: ["one", "two"], count: 2 });
    const taken = nodeOf(done, "playwright.screenshot")?.result as { screenshot: Record<string, string | number> } | undefined;
    const screenshot = taken?.screenshot ?? {};
    expect(screenshot).toMatchObject({ filename: "login.png", mimeType: "image/png", ...viewport });
    const answer = await api.send("GET", String(screenshot["downloadUrl"]));
    const bytes = Buffer.from(await answer.arrayBuffer());
    expect(answer.headers.get("content-type")).toBe("image/png");
    expect(bytes.length).toBe(screenshot["sizeBytes"]);
    expect(bytes.subarray(1, 4).toString()).toBe("PNG");
    expect({ width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }).toEqual(viewport);
    const listed = await api.get<{ items: { type: string; metadata?: JsonObject }[] }>(`/api/v1/runs/${done.runId}/artifacts`);
    expect(listed.items).toMatchObject([{ type: "file", metadata: { stored: { resourceId: screenshot["resourceId"] } } }]);
  });

  it("[W1042] Chromium ends with its last page, with its worker's drain and with kill -9 of its worker", async () => {
    const { run, processes } = await startInstallation();
    const site = await serveLoginPage();
    const [drained, killed] = processes;
    if (drained === undefined || killed === undefined) throw new Error("there is no worker");
    const inUse = (): number[] => [...chromiumPids(drained.pid), ...chromiumPids(killed.pid)];

    await run(withMoreNodes(readPrintedWorkflow(site.url), [{ type: "playwright.close_page" }]));
    await pollUntil("the end of Chromium without a page", async () => inUse().length === 0);
    for (const [worker, signal] of [[drained, "SIGTERM"] as const, [killed, "SIGKILL"] as const]) {
      await pollUntil(`a page at the worker that gets ${signal}`, async () => {
        await run(readPrintedWorkflow(site.url));
        return chromiumPids(worker.pid).length > 0;
      });
      const left = chromiumPids(worker.pid);
      worker.kill(signal);
      await withTimeout(worker.ended, "the end of the worker");

      await pollUntil(`the end of Chromium after ${signal}`, async () => !left.some(isChromium));
      expect(left.filter(isChromium)).toEqual([]);
    }
  });
});

describe("the package browser without Chromium", () => {
  it("[W1051] a task of a worker without Chromium fails with where it was looked for and what to install", async () => {
    vi.stubEnv("BROWSER_EXECUTABLE", "/no/such/chromium");
    onTestFinished(() => void vi.unstubAllEnvs());
    const { run } = await startInstallation(["bare"]);

    const { status, error } = await run(readPrintedWorkflow("http://127.0.0.1:9/"));

    expect(status).toBe("failed");
    expect(error?.message).toContain(
      "this worker has no Chromium: /no/such/chromium cannot be executed; install it (Debian: apt-get install chromium) or set BROWSER_EXECUTABLE",
    );
  });
});
