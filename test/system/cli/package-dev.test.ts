import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, runAstra, spawnAstra, withTimeout } from "../harness/processes.ts";

const workflow = {
  id: "b92fc81a-4b39-4767-993a-4cbf772afca6",
  schemaVersion: "2025-10",
  metadata: { name: "Greeting" },
  nodes: [
    {
      id: "cfb86f7f-072d-4cd0-807e-868de4e4ec4f",
      type: "acme.tools.greet",
      label: "Greet",
      package: { name: "acme.tools", version: "0.1.0" },
      position: { x: 0, y: 0 },
      parameters: { name: "Ada" },
    },
  ],
  edges: [],
} as unknown as Workflow;

const isAlive = (pid: number): boolean =>
  existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);

describe("astra packages dev", () => {
  it.each([
    ["python", "adapter.py", "def broken(:"],
    ["node", "adapter.mjs", "export function ("],
  ])(
    "[L1260] packages dev runs a package for %s from its folder, offers the new code after a save, keeps the old one while a save is broken, and ends with all of it at one signal",
    async (runtime, file, broken) => {
      const { http } = await startScheduler();
      const api = new SchedulerApi(http);
      const folder = join(makeTemporaryFolder(), "tools");
      const env = { ASTRA_URL: http };
      expect(await runAstra(["packages", "new", folder, "--name", "acme.tools", "--runtime", runtime], env)).toMatchObject({
        code: 0,
      });
      const adapter = join(folder, "adapters/acme_tools", file);
      const greeting = async (key: string): Promise<unknown> => {
        const { runId } = await api.startRun(workflow, key);
        await pollUntil(`run ${key}`, async () => (await api.getRun(runId)).status === "succeeded");
        return (await api.getRun(runId)).nodes?.[0]?.result;
      };

      const dev = spawnAstra(["packages", "dev", folder], env);
      const said = (text: string) => pollUntil(text, async () => dev.stdout().includes(text));
      await said("dev-tools is connected");
      expect(await greeting("first")).toMatchObject({ greeting: "Hello, Ada!" });
      const original = readFileSync(adapter, "utf8");
      writeFileSync(adapter, original.replace("Hello", "Bonjour"));
      await said("acme.tools 0.1.0 is offered with the new code");
      expect(await greeting("second")).toMatchObject({ greeting: "Bonjour, Ada!" });
      writeFileSync(adapter, `${original}${broken}\n`);
      await said("acme.tools 0.1.0 is broken, so its code before stays in use");
      expect(dev.stdout()).toMatch(/problem E\.PKG\.INVALID: .*adapter/);
      expect(await greeting("third")).toMatchObject({ greeting: "Bonjour, Ada!" });
      writeFileSync(join(folder, "manifest.json"), "{");
      await said(`problem E.MANIFEST.INVALID: ${folder}/manifest.json:1:2 is not JSON`);
      const [worker = 0] = childrenOf(dev.pid);
      const below = [worker, ...childrenOf(worker)];
      dev.kill("SIGINT");

      expect(await withTimeout(dev.ended, "the end of packages dev", dev.stderr)).toEqual({ code: 0, signal: null });
      expect(below.length).toBeGreaterThan(1);
      await pollUntil("the end of its processes", async () => below.every((pid) => !isAlive(pid)));
      await pollUntil("the scheduler to miss the worker", async () =>
        (await api.listWorkers()).items.every(({ id, connected }) => id === "dev-tools" && !connected),
      );
    },
  );

  it("[L1260] packages dev says what is wrong with a package that is broken from the start, and offers it once it is mended", async () => {
    const { http } = await startScheduler();
    const folder = join(makeTemporaryFolder(), "tools");
    await runAstra(["packages", "new", folder, "--name", "acme.tools", "--runtime", "node"]);
    const manifest = readFileSync(join(folder, "manifest.json"), "utf8");
    writeFileSync(join(folder, "manifest.json"), manifest.replace('"0.1.0"', '"one"'));

    const dev = spawnAstra(["packages", "dev", folder, "--name", "ann", "--json"], { ASTRA_URL: http });
    const events = () =>
      dev
        .stdout()
        .split("\n")
        // Behind the last line end is a line that has not arrived as a whole.
        .slice(0, -1)
        .map((line) => JSON.parse(line) as { readonly event: string; readonly message: string });
    await pollUntil("the connection", async () => events().some(({ event }) => event === "ready"));
    const before = events();
    writeFileSync(join(folder, "manifest.json"), manifest);
    await pollUntil("the package", async () => events().some(({ event }) => event === "offered"));

    expect(before.find(({ event }) => event === "problem")?.message).toMatch(/manifest\.version must match/);
    expect(before.some(({ event }) => event === "loaded")).toBe(false);
    // The scheduler has it a moment after the worker offers it.
    const packages = await pollUntil("the package at the scheduler", async () => {
      const { items } = await new SchedulerApi(http).listWorkers();
      return items.find(({ id, packages: offered = [] }) => id === "ann" && offered.length > 0)?.packages;
    });
    expect(packages).toMatchObject([{ name: "acme.tools" }]);
  });

  it("[L1260] packages dev refuses a folder without a manifest, and ends with 4 where the scheduler does not accept its token", async () => {
    const { http } = await startScheduler();
    const folder = join(makeTemporaryFolder(), "tools");
    await runAstra(["packages", "new", folder]);

    expect(await runAstra(["packages", "dev", makeTemporaryFolder()])).toMatchObject({ code: 2 });
    const refused = await runAstra(["packages", "dev", folder], { ASTRA_URL: http, ASTRA_TOKEN: "wrong" });

    expect(refused).toMatchObject({ code: 4, stdout: expect.stringContaining("the scheduler refused this worker") });
  });
});
