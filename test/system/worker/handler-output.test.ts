import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeMisbehavingPackage, misbehavingWorkflow, startMisbehavingWorker } from "../harness/misbehaving-package.ts";
import { spawnAstra, withTimeout } from "../harness/processes.ts";

const handlers = {
  talk: `async () => {
    console.log("hello", { a: 1 });
    await new Promise((go) => setImmediate(go));
    console.error("trouble");
    process.stdout.write("raw\\n");
    return {};
  }`,
  fail: `() => { (function inner() { throw new Error("no luck", { cause: new TypeError("the root of it") }); })(); }`,
};

async function startInstallation(args: readonly string[] = []) {
  const scheduler = await startScheduler();
  const worker = await startMisbehavingWorker(scheduler.ws, makeMisbehavingPackage(handlers), args);
  const api = new SchedulerApi(scheduler.http);
  const run = async (handler: string) => api.waitForRunEnd((await api.startRun(misbehavingWorkflow(handler), handler)).runId);
  const astra = async (...command: string[]) => {
    const process = spawnAstra([...command, "--url", scheduler.http, "--token", "dev-token"]);
    await withTimeout(process.ended, command.join(" "), process.stderr);
    return process.stdout();
  };
  return { worker, run, astra };
}

describe("what handlers print and throw", () => {
  it.each([[[]], [["--threads", "0"]]])(
    "[W203] what a handler prints is output of its attempt, and the worker prints its ready line alone, with %j",
    async (args) => {
      const { worker, run, astra } = await startInstallation(args);

      const { runId } = await run("talk");
      const logs = await astra("runs", "logs", runId);

      for (const text of ["hello { a: 1 }", "trouble", "raw"]) expect(logs).toContain(text);
      expect(worker.stdout().trim().split("\n")).toHaveLength(1);
      expect(worker.stderr()).not.toContain("trouble");
    },
  );

  it("[W202] the stack of a handler's error, trimmed to its package, is in the run, its export, its logs and the worker's log", async () => {
    const { worker, run, astra } = await startInstallation();

    const failed = await run("fail");
    const logs = await astra("runs", "logs", failed.runId);
    const exported = await astra("runs", "export", failed.runId);

    const stack = String(failed.nodes?.[0]?.error?.details?.["stack"]);
    expect(stack).toMatch(/^Error: no luck\n {4}at inner \(main\.mjs:\d+:\d+\)\n/);
    expect(stack).toContain("caused by TypeError: the root of it\n    at inner (main.mjs:");
    expect(stack).not.toContain("handler-executor");
    for (const text of [logs, exported, worker.stderr()]) expect(text).toContain("at inner (main.mjs:");
  });
});
