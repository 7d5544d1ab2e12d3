import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeMisbehavingPackage, misbehavingWorkflow, startMisbehavingWorker } from "../harness/misbehaving-package.ts";
import { makeTemporaryFolder, pollUntil, withTimeout } from "../harness/processes.ts";

/** Short, so that a worker that was killed is taken for dead within the test. */
const shortLease = { flags: ["--heartbeat", "500", "--lease", "3000"] };

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** The watcher of a worker: its child that is a program of the runtime. */
function findWatcher(worker: number): number | null {
  for (const entry of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const parent = Number(
        readFileSync(`/proc/${entry}/stat`, "latin1")
          .replace(/^.*\) . /s, "")
          .split(" ")[0],
      );
      if (parent === worker && readFileSync(`/proc/${entry}/cmdline`, "latin1").includes("process-watchdog-main"))
        return Number(entry);
    } catch {
      continue; // it ended while it was looked at
    }
  }
  return null;
}

it("[W185] killing a worker also ends the processes of its handlers, and its task is run again to its end", async () => {
  const scheduler = await startScheduler(shortLease);
  const api = new SchedulerApi(scheduler.http);
  const packagesDir = makeMisbehavingPackage();
  const worker = await startMisbehavingWorker(scheduler.ws, packagesDir);
  const pidFile = join(makeTemporaryFolder(), "pid");
  const { runId } = await api.startRun(misbehavingWorkflow("start", { pid: pidFile }), "k");
  const group = await pollUntil("the handler's process", async () => Number(readFileSync(pidFile, "utf8")));
  const watcher = await pollUntil("the watcher", async () => findWatcher(worker.pid));
  // What the handler reports comes after the news of its processes: the watcher knows them by then.
  await pollUntil("the handler's report", async () =>
    (await api.listRunFacts(runId)).some(({ data }) => JSON.stringify(data).includes('"stage":"waiting"')),
  );
  expect(isAlive(-group)).toBe(true);

  worker.kill("SIGKILL");
  await withTimeout(worker.ended, "the end of the worker");
  await pollUntil("the end of the group", async () => !isAlive(-group));
  await pollUntil("the end of the watcher", async () => !isAlive(watcher));
  await startMisbehavingWorker(scheduler.ws, packagesDir, [], "rough-2");

  const run = await api.waitForRunEnd(runId);
  expect(run).toMatchObject({ status: "succeeded", nodes: [{ attempt: 2, result: { by: "second" } }] });
});
