import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Api } from "./installation.ts";
import { astra, makeFolder, type Process, until, within } from "./processes.ts";

/** Processes that were not started by us but must be gone too. */
const isAlive = (pid: number): boolean =>
  existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
}

const up = (...words: string[]): Process =>
  astra(["up", "--listen", "127.0.0.1:0", "--data-dir", join(makeFolder(), "var"), ...words]);

const stop = async (one: Process) => {
  one.kill("SIGTERM");
  return within(one.ended, "the end of astra up", one.stderr);
};

describe("astra up", () => {
  it("[L10] prints the scheduler's ready line once a worker is there, runs the demo, serves the page, and one SIGTERM stops all", async () => {
    const one = up();
    const http = String((await one.ready())["http"]);
    const children = childrenOf(one.pid);

    expect(one.stdout().trim().split("\n")).toHaveLength(1);
    expect((await fetch(`${http}/`)).status).toBe(200);
    expect((await new Api(http).workers()).items).toMatchObject([{ id: "demo-worker", connected: true }]);
    await until("the demo run", async () => (await new Api(http).runs())[0]?.status === "succeeded");
    await until("its end to be told", async () => one.stderr().includes("the demo run succeeded"));

    expect(await stop(one)).toEqual({ code: 0, signal: null });
    expect(children).toHaveLength(2);
    expect(children.filter(isAlive)).toEqual([]);
  });

  it("[L11] a worker that dies is named and started again", async () => {
    const one = up("--no-demo");
    const ready = await one.ready();
    const [, worker = 0] = childrenOf(one.pid);
    expect(worker).not.toBe(ready["pid"]);

    process.kill(worker, "SIGKILL");

    await until("the death to be told", async () =>
      one.stderr().includes(`the worker (pid ${worker}) was ended by SIGKILL; starting it again in 1 s`),
    );
    await until("another worker", async () => childrenOf(one.pid).some((pid) => pid !== worker && pid !== ready["pid"]));
    expect(await stop(one)).toEqual({ code: 0, signal: null });
  });

  it("[L11] a scheduler that dies is named and ends everything with 1", async () => {
    const one = up("--no-demo");
    const ready = await one.ready();
    const children = childrenOf(one.pid);

    process.kill(Number(ready["pid"]), "SIGKILL");

    expect((await within(one.ended, "the end of astra up", one.stderr)).code).toBe(1);
    expect(one.stderr()).toContain(`the scheduler (pid ${String(ready["pid"])}) was ended by SIGKILL`);
    expect(children.filter(isAlive)).toEqual([]);
  });

  it("[L11] children do not outlive an astra up that is killed", async () => {
    const one = up("--no-demo");
    await one.ready();
    const children = childrenOf(one.pid);

    one.kill("SIGKILL");
    await one.ended;

    expect(children).toHaveLength(2);
    await until("the children to end", async () => children.every((pid) => !isAlive(pid)));
  });

  it("[L10] takes a free port and says so when 8080 is taken; a port that was asked for is not replaced", async () => {
    const other = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      other.once("error", () => resolve(false));
      // Shared, so that a second run of the tests beside this one holds it too and neither frees it for the other.
      other.listen({ port: 8080, host: "127.0.0.1", reusePort: true }, () => resolve(true));
    });
    try {
      const free = astra(["up", "--no-demo", "--data-dir", join(makeFolder(), "var")]);
      expect(new URL(String((await free.ready())["http"])).port).not.toBe("8080");
      expect(free.stderr()).toContain("port 8080 is taken");
      expect(await stop(free)).toEqual({ code: 0, signal: null });

      const asked = astra(["up", "--no-demo", "--listen", "127.0.0.1:8080", "--data-dir", join(makeFolder(), "var")]);
      expect((await within(asked.ended, "the refusal", asked.stderr)).code).toBe(2);
      expect(asked.stderr()).toContain("127.0.0.1:8080 is in use by another program");
    } finally {
      if (isFree) other.close();
    }
  });
});
