// kill -9 of a worker whose task has ended and whose reports do not arrive: adapters in child hosts count in a file how often they ran.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { dirname, join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it, onTestFinished } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { startMisbehavingWorker } from "../harness/misbehaving-package.ts";
import { makeTemporaryFolder, pollUntil, withTimeout } from "../harness/processes.ts";

const adapters = {
  node: {
    section: { node: { requires: ">=22" } },
    entrypoint: "marks.mjs",
    // Waits for the gate: nothing reaches the scheduler by then.
    code: `
import { appendFileSync, existsSync } from "node:fs";
export const mark = async ({ params, feedback }) => {
  feedback.send({ stage: "waiting" });
  while (!existsSync(params.gate)) await new Promise((go) => setTimeout(go, 10));
  appendFileSync(params.file, "ran ");
  return { text: "made once" };
};`,
  },
  python: {
    section: { python: { requires: ">=3.10" } },
    entrypoint: "marks",
    code: `
import os, time
def mark(ctx):
    ctx.feedback.send_nowait(stage="waiting")
    while not os.path.exists(ctx.params["gate"]):
        time.sleep(0.01)
    with open(ctx.params["file"], "a") as file:
        file.write("ran ")
    return {"text": "made once"}
`,
  },
} as const;

function makePackage(runtime: keyof typeof adapters): string {
  const { section, entrypoint, code } = adapters[runtime];
  const root = makeTemporaryFolder();
  const usual = { status: "published", category: "Tests", adapter: "main", schema: {} };
  const manifest = {
    ...{ schemaVersion: "1.0.0", name: "marks", version: "1.0.0", description: "", ...section },
    // An attempt of another kind that may have started would wait for a person: here none may be started again at all.
    adapters: [{ name: "main", entrypoint, capabilities: ["marks.mark"], idempotency: "per_request" }],
    nodes: [{ ...usual, type: "marks.mark", label: "Mark", handler: "mark" }],
  };
  const files = { "manifest.json": JSON.stringify(manifest), [runtime === "node" ? "marks.mjs" : "marks.py"]: code };
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, "marks", file)), { recursive: true });
    writeFileSync(join(root, "marks", file), text);
  }
  return root;
}

function makeWorkflow(parameters: Record<string, string>): Workflow {
  const ui = { inputPorts: [], outputPorts: [] };
  const packageOf = { name: "marks", version: "1.0.0" };
  const node = { id: crypto.randomUUID(), type: "marks.mark", label: "Mark", package: packageOf, position: { x: 0, y: 0 } };
  return {
    ...{ id: crypto.randomUUID(), schemaVersion: "2025-10", metadata: { name: "Mark" } },
    nodes: [{ ...node, parameters, ui }],
    edges: [],
  };
}

/** A line to the scheduler on which what the worker sends can be lost, as in a network that has just failed. */
async function openLine(ws: string) {
  const { port, hostname } = new URL(ws);
  let isDead = false;
  const server = createServer((worker) => {
    const scheduler = connect(Number(port), hostname);
    worker.on("data", (bytes) => isDead || scheduler.write(bytes));
    scheduler.on("data", (bytes) => worker.write(bytes));
    for (const [one, other] of [[worker, scheduler] as const, [scheduler, worker] as const]) {
      one.on("close", () => other.destroy());
      // Its close follows.
      one.on("error", () => one.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return {
    url: ws.replace(`:${port}/`, `:${(server.address() as AddressInfo).port}/`),
    set isDead(value: boolean) {
      isDead = value;
    },
  };
}

describe("a worker that is killed between the end of a task and its ack", () => {
  it.each(["node", "python"] as const)(
    "[W1054] the result of a %s adapter in a child host is sent again by the next process and not produced again",
    async (runtime) => {
      const scheduler = await startScheduler();
      const api = new SchedulerApi(scheduler.http);
      const line = await openLine(scheduler.ws);
      const packages = makePackage(runtime);
      const dataDir = join(makeTemporaryFolder(), "data");
      const begin = () => startMisbehavingWorker(line.url, packages, ["--data-dir", dataDir]);
      const first = await begin();
      const [file, gate] = [join(makeTemporaryFolder(), "marks"), join(makeTemporaryFolder(), "gate")];
      const { runId } = await api.startRun(makeWorkflow({ file, gate }), "k");
      await api.waitUntilHeld(runId);

      line.isDead = true;
      writeFileSync(gate, "");
      await pollUntil("the result in the outbox", async () =>
        readdirSync(dataDir).some(
          (name) => name.startsWith("outbox") && readFileSync(join(dataDir, name), "utf8").includes("made once"),
        ),
      );
      first.kill("SIGKILL");
      await withTimeout(first.ended, "the end of the worker");
      line.isDead = false;
      await begin();
      const run = await api.waitForRunEnd(runId);

      expect(run).toMatchObject({ status: "succeeded" });
      expect(run.nodes).toMatchObject([{ result: { text: "made once" }, attempt: 1 }]);
      expect(readFileSync(file, "utf8")).toBe("ran ");
    },
  );
});
