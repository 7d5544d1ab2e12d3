import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler, startWorker } from "../harness/installation.ts";
import { pollUntil, repositoryRoot, runAstra, spawnAstra, withTimeout } from "../harness/processes.ts";
import { failingWorkflow, sleepingWorkflow, textChainWorkflow } from "../harness/workflows.ts";

const lines = (text: string): Record<string, unknown>[] =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("astra run", () => {
  it("[L6] astra run submits a file, follows the run with plain lines in a pipe and exits with 0", async () => {
    const { http, ws } = await startScheduler();
    await startWorker(ws);

    const end = await runAstra([
      "run",
      join(repositoryRoot, "examples", "workflows", "hello-chain.json"),
      "--watch",
      "--url",
      http,
    ]);

    expect(end).toMatchObject({ code: 0 });
    expect(end.stdout).toMatch(/^[0-9a-f-]{36} succeeded\nresult of A moment: \{"text":"DLROW OLLEH".*\}\n$/);
    expect(end.stderr).toMatch(/succeeded · w-1/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours and cursor moves are what a pipe must not get
    expect(end.stderr + end.stdout).not.toMatch(/\u001b/);
  });

  it("[L6] astra run exits with 1 for a failed run and reports why; with --json the run is the last line", async () => {
    const { http, ws } = await startScheduler();
    await startWorker(ws);

    const words = await runAstra(["run", "-", "--url", http], {}, JSON.stringify(failingWorkflow()));
    const data = await runAstra(["run", "-", "--watch", "--json", "--url", http], {}, JSON.stringify(failingWorkflow()));

    expect(words).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(" failed\n"),
      stderr: expect.stringContaining("error E."),
    });
    expect(data.code).toBe(1);
    expect(lines(data.stdout).at(-1)).toMatchObject({ status: "failed", error: { code: expect.any(String) } });
    expect(lines(data.stdout)[0]).toMatchObject({ cursor: expect.any(String), type: "run.created" });
  });

  it("[L8] astra run survives a scheduler that is killed and restarted", async () => {
    const first = await startScheduler();
    await startWorker(first.ws);
    const following = spawnAstra(["run", "-", "--url", first.http], {}, JSON.stringify(sleepingWorkflow(1_500)));
    // It follows the run: killed before that, the scheduler would be asked again in another way.
    await pollUntil("the CLI to follow the run", async () => following.stderr().includes("running"));

    first.process.kill("SIGKILL");
    await pollUntil("the CLI to notice", async () => following.stderr().includes("reconnecting, no event is lost"));
    await startScheduler({ dataDir: first.dataDir, listen: first.listen });

    expect(await withTimeout(following.ended, "the end of astra run", following.stderr)).toEqual({ code: 0, signal: null });
    expect(following.stderr()).toContain("Reconnected; no events were lost.");
  });

  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "[L8] an astra run that is ended by %s leaves the run active, shows how to cancel it and exits with 130",
    async (signal) => {
      const { http } = await startScheduler();
      const following = spawnAstra(["run", "-", "--url", http], {}, JSON.stringify(textChainWorkflow("x")));
      const [run] = await pollUntil("the run to be there", async () => {
        const runs = await new SchedulerApi(http).listRuns();
        return runs.length > 0 && following.stderr().includes("run ") && runs;
      });

      following.kill(signal);

      expect((await withTimeout(following.ended, "the end of astra run", following.stderr)).code).toBe(130);
      expect(following.stderr()).toContain(`astra runs cancel ${run?.runId}`);
      expect((await new SchedulerApi(http).getRun(run?.runId ?? "")).status).toBe("queued");
    },
  );
});

describe("astra runs", () => {
  it("[L9] astra runs export prints the definition, every fact in order and the final state, one JSON line each", async () => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    await startWorker(ws);
    const workflow = textChainWorkflow("abc");
    const ref = await api.startRun(workflow, "k");
    await api.waitForRunEnd(ref.runId);

    const end = await runAstra(["runs", "export", ref.runId, "--url", http]);
    const exported = lines(end.stdout);

    expect(end.code).toBe(0);
    expect(exported[0]).toMatchObject({ kind: "definition", runId: ref.runId, definition: { id: workflow.id } });
    expect(exported.at(-1)).toMatchObject({ kind: "run", isEnded: true, run: { runId: ref.runId, status: "succeeded" } });
    const facts = exported.slice(1, -1);
    expect(facts.map((fact) => fact["type"])).toEqual((await api.listRunFacts(ref.runId)).map((fact) => fact.type));
    expect(facts[0]).toMatchObject({ kind: "fact", type: "run.created" });
    expect(facts.at(-1)).toMatchObject({ type: "run.succeeded" });
  });

  it("[L9] astra runs list, show and cancel work as text and as JSON, and accept ids shortened while unique", async () => {
    const { http } = await startScheduler();
    const env = { ASTRA_URL: http };
    const ref = await new SchedulerApi(http).startRun(textChainWorkflow("abc"), "k");
    const short = ref.runId.slice(-8);

    expect((await runAstra(["runs", "list"], env)).stdout).toMatch(new RegExp(`^RUN +STATUS.*\\n${ref.runId} +queued`));
    expect(JSON.parse((await runAstra(["runs", "ls", "--json"], env)).stdout)).toMatchObject({ items: [{ runId: ref.runId }] });
    expect((await runAstra(["runs", "show", short], env)).stdout).toContain("waits for demo.text");
    expect(await runAstra(["runs", "cancel", short, "--yes", "--json"], env)).toMatchObject({ code: 0 });
    expect((await new SchedulerApi(http).waitForRunEnd(ref.runId)).status).toBe("cancelled");
  });

  it("[L9] astra runs cancel says of a run that has ended that it cannot be cancelled", async () => {
    const { http } = await startScheduler();
    const env = { ASTRA_URL: http };
    const { runId } = await new SchedulerApi(http).startRun(textChainWorkflow("abc"), "k");

    const first = await runAstra(["runs", "cancel", runId, "--yes"], env);
    await new SchedulerApi(http).waitForRunEnd(runId);
    const second = await runAstra(["runs", "cancel", runId], env);

    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(second).toMatchObject({ code: 6, stdout: "", stderr: expect.stringContaining("E.RUN.TERMINAL") });
    expect(second.stderr).toContain(runId);
  });

  it("[L2] astra runs exits with 3 for a missing run, with 4 for a refused token and with 5 when no scheduler answers", async () => {
    const { http, process } = await startScheduler();
    const missing = "01900000-0000-7000-8000-000000000000";

    expect(await runAstra(["runs", "show", missing, "--url", http])).toMatchObject({ code: 3, stdout: "" });
    expect(await runAstra(["runs", "list", "--url", http], { ASTRA_TOKEN: "wrong" })).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("E.AUTH.INVALID_TOKEN"),
    });
    process.kill("SIGTERM");
    await process.ended;
    expect(await runAstra(["runs", "list", "--url", http])).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("try: astra up"),
    });
  });
});

describe("astra workers", () => {
  it("[L7] astra workers lists, drains and undrains: a draining worker gets no new work until it is undrained", async () => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    const env = { ASTRA_URL: http };
    const worker = await startWorker(ws, { name: "w-only" });

    expect((await runAstra(["workers", "list"], env)).stdout).toMatch(/\nw-only +online .*demo@1\.0\.0/);
    expect(await runAstra(["workers", "drain", "w-only"], env)).toMatchObject({ code: 0 });
    expect((await api.listWorkers()).items[0]).toMatchObject({ draining: true });
    const ref = await api.startRun(textChainWorkflow("x"), "k");
    expect(await runAstra(["workers", "undrain", "w-on"], env)).toMatchObject({ code: 0 });

    expect((await api.waitForRunEnd(ref.runId)).status).toBe("succeeded");
    expect(worker.stderr()).toBe(""); // it logs warnings, and nothing went wrong
    expect(await runAstra(["workers", "drain", "nobody"], env)).toMatchObject({ code: 3 });
  });
});
