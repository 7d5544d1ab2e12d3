import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SchedulerApi } from "../harness/installation.ts";
import { type AstraProcess, makeTemporaryFolder, pollUntil, runAstra, spawnAstra, withTimeout } from "../harness/processes.ts";

/** Processes that were not started by us but must be gone too. */
const isAlive = (pid: number): boolean =>
  existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
}

const spawnAstraUp = (...args: string[]): AstraProcess =>
  spawnAstra(["up", "--listen", "127.0.0.1:0", "--data-dir", join(makeTemporaryFolder(), "var"), ...args]);

const stopAstraUp = async (one: AstraProcess) => {
  one.kill("SIGTERM");
  return withTimeout(one.ended, "the end of astra up", one.stderr);
};

describe("astra up", () => {
  it("[L10] astra up prints the scheduler's ready line once a worker has joined, runs the demo, serves the page, and one SIGTERM stops everything", async () => {
    const one = spawnAstraUp();
    const http = String((await one.ready())["http"]);
    const children = childrenOf(one.pid);

    expect(one.stdout().trim().split("\n")).toHaveLength(1);
    expect((await fetch(`${http}/`)).status).toBe(200);
    expect((await new SchedulerApi(http).listWorkers()).items).toMatchObject([{ id: "demo-worker", connected: true }]);
    await pollUntil("the demo run", async () => (await new SchedulerApi(http).listRuns())[0]?.status === "succeeded");
    await pollUntil("its end to be told", async () => one.stderr().includes("the demo run succeeded"));

    expect(await stopAstraUp(one)).toEqual({ code: 0, signal: null });
    expect(children).toHaveLength(2);
    expect(children.filter(isAlive)).toEqual([]);
  });

  it("[L11] astra up names a worker that dies and starts it again", async () => {
    const one = spawnAstraUp("--no-demo");
    const ready = await one.ready();
    const [, worker = 0] = childrenOf(one.pid);
    expect(worker).not.toBe(ready["pid"]);

    process.kill(worker, "SIGKILL");

    await pollUntil("the death to be told", async () =>
      one.stderr().includes(`the worker (pid ${worker}) was ended by SIGKILL; starting it again in 1 s`),
    );
    await pollUntil("another worker", async () => childrenOf(one.pid).some((pid) => pid !== worker && pid !== ready["pid"]));
    expect(await stopAstraUp(one)).toEqual({ code: 0, signal: null });
  });

  it("[L11] astra up names a scheduler that dies, stops everything and exits with 1", async () => {
    const one = spawnAstraUp("--no-demo");
    const ready = await one.ready();
    const children = childrenOf(one.pid);

    process.kill(Number(ready["pid"]), "SIGKILL");

    expect((await withTimeout(one.ended, "the end of astra up", one.stderr)).code).toBe(1);
    expect(one.stderr()).toContain(`the scheduler (pid ${String(ready["pid"])}) was ended by SIGKILL`);
    expect(children.filter(isAlive)).toEqual([]);
  });

  it("[L11] the children of astra up end when it is killed", async () => {
    const one = spawnAstraUp("--no-demo");
    await one.ready();
    const children = childrenOf(one.pid);

    one.kill("SIGKILL");
    await one.ended;

    expect(children).toHaveLength(2);
    await pollUntil("the children to end", async () => children.every((pid) => !isAlive(pid)));
  });

  it("[L913] a second astra up with the same data folder says where the first one is and how to stop it, and starts nothing", async () => {
    const dataDir = join(makeTemporaryFolder(), "var");
    const first = spawnAstra(["up", "--no-demo", "--listen", "127.0.0.1:0", "--data-dir", dataDir]);
    const http = String((await first.ready())["http"]);
    await pollUntil("the welcome", async () => first.stderr().includes("AstraFlow is up"));

    const second = await runAstra(["up", "--no-demo", "--data-dir", dataDir]);
    const elsewhere = await runAstra(["up", "--no-demo", "--listen", "127.0.0.1:1", "--data-dir", dataDir]);

    expect(second).toMatchObject({ code: 0, stdout: "" });
    expect(second.stderr).toContain("AstraFlow is already running");
    expect(second.stderr).toContain(`page     ${http}/`);
    expect(second.stderr).toContain(`npx astra runs list --url ${http}`);
    expect(second.stderr).toContain(`kill ${first.pid}\n`);
    expect(second.stderr).not.toMatch(/EADDRINUSE|E\.STORE|in use/);
    expect(elsewhere).toMatchObject({ code: 6, stdout: "" });
    process.kill(first.pid, "SIGTERM");
    expect(await withTimeout(first.ended, "the end of astra up", first.stderr)).toEqual({ code: 0, signal: null });
    expect(existsSync(join(dataDir, "up.json"))).toBe(false);
  });

  it("[L10] astra up takes a free port and reports it when 8080 is in use, but does not replace a port that was requested", async () => {
    const other = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      other.once("error", () => resolve(false));
      // Shared, so that a second run of the tests beside this one holds it too and neither frees it for the other.
      other.listen({ port: 8080, host: "127.0.0.1", reusePort: true }, () => resolve(true));
    });
    try {
      const free = spawnAstra(["up", "--no-demo", "--data-dir", join(makeTemporaryFolder(), "var")]);
      expect(new URL(String((await free.ready())["http"])).port).not.toBe("8080");
      expect(free.stderr()).toContain("port 8080 is in use");
      expect(await stopAstraUp(free)).toEqual({ code: 0, signal: null });

      const asked = spawnAstra([
        "up",
        "--no-demo",
        "--listen",
        "127.0.0.1:8080",
        "--data-dir",
        join(makeTemporaryFolder(), "var"),
      ]);
      expect((await withTimeout(asked.ended, "the refusal", asked.stderr)).code).toBe(2);
      expect(asked.stderr()).toContain("127.0.0.1:8080 is in use by another program");
    } finally {
      if (isFree) other.close();
    }
  });
});
