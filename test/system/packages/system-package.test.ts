// The middlewares of the package `system` on real processes: each around a node, several around one, and when things go wrong.

import { join } from "node:path";
import type { JsonObject, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { ExampleInstallation, exampleNode, exampleWorkflow, type LogLine, nodeOf } from "../harness/example-packages.ts";
import { makeTemporaryFolder, pollUntil } from "../harness/processes.ts";

const readLines = (lines: readonly LogLine[]) => lines.map(({ text = "" }) => JSON.parse(text) as unknown);
const startInstallation = (more = {}) => ExampleInstallation.start(["example.pkg", "system"], more);

describe("the middlewares of the package system", () => {
  it("[W1400] the retry middleware calls the node again until it succeeds or the attempts are used up, only for codes worth it, and fails with the node's own code", async () => {
    const installation = await startInstallation();
    const around = (failing: JsonObject, retry: JsonObject) =>
      exampleWorkflow([exampleNode("example.pkg.fail", failing, [["retry", { delayMs: 0, ...retry }]])]);

    const third = await installation.run(around({ times: 2, code: "E.SHOP.CLOSED", message: "come back" }, { attempts: 5 }));
    const never = await installation.run(around({ code: "E.SHOP.CLOSED", message: "come back" }, { attempts: 2 }));
    const other = await installation.run(around({ code: "E.SHOP.CLOSED" }, { attempts: 5, codes: ["E.TIMEOUT"] }));
    const permanent = await installation.run(around({ code: "E.PARAMS.INVALID" }, { attempts: 5 }));

    expect(third.run.status).toBe("succeeded");
    expect(third.host?.result).toMatchObject({
      attempts: 3,
      done: true,
      retry: { attempts: 3, failures: [{ attempt: 1, code: "E.SHOP.CLOSED" }, { attempt: 2 }] },
    });
    expect(never.run).toMatchObject({ status: "failed", error: { code: "E.SHOP.CLOSED" } });
    expect(never.run.error?.message).toMatch(/^attempt 2 of 2 failed: .*come back/);
    expect([third, never, other, permanent].map(({ calls }) => calls.length)).toEqual([3, 2, 1, 1]);
    expect(other.run.error?.code).toBe("E.SHOP.CLOSED");
    expect(permanent.run.error?.code).toBe("E.PARAMS.INVALID");
  });

  it("[W1401] the timeout middleware stops the node at its limit and fails with E.TIMEOUT; a node in time keeps its result", async () => {
    const installation = await startInstallation();

    const late = await installation.run(
      exampleWorkflow([exampleNode("example.pkg.delay", { durationSeconds: 3_600 }, [["timeout", { timeoutMs: 300 }]])]),
    );
    const quick = await installation.run(
      exampleWorkflow([exampleNode("example.pkg.echo", { message: "in time" }, [["timeout", { timeoutMs: 600_000 }]])]),
    );

    expect(late.run).toMatchObject({ status: "failed", error: { code: "E.TIMEOUT" } });
    expect(late.run.error?.message).toContain("did not end within 300 ms and was stopped");
    expect(late.facts).toContainEqual(
      expect.objectContaining({ type: "task.cancelled", data: expect.objectContaining({ task: late.calls[0]?.data["target"] }) }),
    );
    expect(quick.host).toMatchObject({ status: "succeeded", result: { echo: "in time", timeout: { limitMs: 600_000 } } });
  });

  it("[W1402] the cache middleware returns a known result without running the node, to its successors too, also after a restart of the worker", async () => {
    const installation = await startInstallation({ dataDir: join(makeTemporaryFolder(), "worker") });
    const host = exampleNode("example.pkg.transform_text", { text: "hello" }, [["cache", { key: { a: 1, b: 2 } }]]);
    const workflow = exampleWorkflow([host, exampleNode("example.pkg.echo")], ["output", "message"]);
    const withCache = (parameters: object): Workflow => {
      const copy = structuredClone(workflow);
      Object.assign(copy.nodes[0]?.middlewares?.[0] ?? {}, { parameters });
      return copy;
    };
    const run = async (one: Workflow) => {
      const { run: ended, host: first, calls } = await installation.run(one);
      return { status: ended.status, first, second: nodeOf(ended, workflow.nodes[1]?.id), calls: calls.length };
    };

    const miss = await run(workflow);
    const hit = await run(withCache({ key: { b: 2, a: 1 } }));
    const other = await run(withCache({ key: "another" }));
    const refreshed = await run(withCache({ key: "another", refresh: true }));
    await installation.restartWorker();
    const later = await run(workflow);

    expect(miss.first).toMatchObject({ status: "succeeded", result: { output: "HELLO", cache: { hit: false, stored: true } } });
    for (const known of [hit, later]) {
      expect(known).toMatchObject({ status: "succeeded", calls: 0 });
      expect(known.first).toMatchObject({ status: "skipped", result: { output: "HELLO", cache: { hit: true } } });
      expect(known.second).toMatchObject({ status: "succeeded", result: { echo: "HELLO" } });
    }
    expect([miss, other, refreshed].map(({ calls }) => calls)).toEqual([1, 1, 1]);
  });

  it("[W1402] the cache middleware forgets a result after its time, and never remembers a failure", async () => {
    const installation = await startInstallation();
    const failing = exampleWorkflow([exampleNode("example.pkg.fail", {}, [["cache", { key: 1 }]])]);
    const shortLived = exampleWorkflow([exampleNode("example.pkg.echo", {}, [["cache", { key: 1, ttlSeconds: 1 }]])]);
    const withoutKey = exampleWorkflow([exampleNode("example.pkg.echo", {}, [["cache", {}]])]);

    const failures = [await installation.run(failing), await installation.run(failing)];
    const refused = await installation.run(withoutKey);
    await installation.run(shortLived);

    expect(failures.map(({ run, calls }) => [run.status, calls.length])).toEqual([
      ["failed", 1],
      ["failed", 1],
    ]);
    expect(refused.run.error).toMatchObject({
      code: "E.PARAMS.INVALID",
      message: expect.stringContaining("the cache needs a key"),
    });
    await pollUntil("the result to expire", async () => (await installation.run(shortLived)).calls.length === 1);
  });

  it("[W1403] the log middleware writes the parameters that it hands on, the result or failure and the duration, with secrets replaced", async () => {
    const installation = await startInstallation();
    const parameters = { message: "hi", login: { apiKey: "k-1", "pin-code": "1234" } };
    const log = { label: "greeting", parameters, mask: ["pinCode"] };

    const good = await installation.run(exampleWorkflow([exampleNode("example.pkg.echo", {}, [["log", log]])]));
    const bad = await installation.run(
      exampleWorkflow([exampleNode("example.pkg.fail", { code: "E.SHOP.CLOSED" }, [["log", { withParameters: false }]])]),
    );

    const masked = { message: "hi", login: { apiKey: "***", "pin-code": "***" } };
    expect(readLines(await installation.logs(good.runId))).toEqual([
      { stage: "started", node: "greeting", parameters: masked },
      { stage: "succeeded", node: "greeting", result: { echo: "hi" }, durationMs: expect.any(Number) },
    ]);
    expect(good.host?.result).toMatchObject({ echo: "hi", log: { durationMs: expect.any(Number) } });
    expect(readLines(await installation.logs(bad.runId))).toMatchObject([
      { stage: "started" },
      { stage: "failed", code: "E.SHOP.CLOSED" },
    ]);
    expect(bad.run.error?.code).toBe("E.SHOP.CLOSED");
  });

  it("[W1404] middlewares run from the outermost to the innermost, hand parameters on to the node, and pass its result and its code back", async () => {
    const installation = await startInstallation();
    const chain = [
      ["log", { parameters: { times: 1 } }],
      ["retry", { attempts: 3, delayMs: 0 }],
      ["cache", { key: "same" }],
      ["timeout", { timeoutMs: 600_000 }],
    ] as const;
    const nested = exampleWorkflow([exampleNode("example.pkg.fail", { code: "E.SHOP.CLOSED" }, chain)]);
    const caseInside = exampleWorkflow([
      exampleNode("example.pkg.echo", {}, [
        ["retry", { attempts: 3, delayMs: 0 }],
        ["case", { enabled: false }],
      ]),
    ]);

    const { runId, run, host, calls } = await installation.run(nested);
    const withheld = await installation.run(caseInside);

    expect(run.status).toBe("succeeded");
    // Tasks are numbered by node, the host first, and by call. The second attempt begins at what is inside the retry.
    const targets = calls.map(({ data }) => String(data["target"]).slice(runId.length));
    expect(targets).toEqual([".2~1", ".3~1", ".4~1", ".0~1", ".3~2", ".4~2", ".0~2"]);
    expect(host?.result).toMatchObject({
      attempts: 2,
      retry: { attempts: 2, failures: [{ code: "E.SHOP.CLOSED" }] },
      cache: { hit: false },
      timeout: { limitMs: 600_000 },
      log: {},
    });
    expect(withheld.run.status).toBe("succeeded");
    expect(withheld.host?.status).toBe("skipped");
    expect(withheld.calls).toHaveLength(1);
  });

  it("[W1404] a run that is cancelled inside nested middlewares ends all of them, and nothing is tried again", async () => {
    const installation = await startInstallation({ slots: 1 });
    const chain = [
      ["log", {}],
      ["retry", { attempts: 100, delayMs: 0 }],
      ["timeout", { timeoutMs: 600_000 }],
    ] as const;
    const workflow = exampleWorkflow([exampleNode("example.pkg.delay", { durationSeconds: 3_600 }, chain)]);
    const runId = await installation.startRun(workflow);
    await installation.waitUntilRunning(runId, "0~1");

    await installation.api.send("POST", `/api/v1/runs/${runId}/cancel`);
    const run = await installation.api.waitForRunEnd(runId);

    expect(run.status).toBe("cancelled");
    const facts = await installation.api.listRunFacts(runId);
    expect(facts.filter(({ type }) => type === "next.asked")).toHaveLength(3);
    // Its only slot is free again.
    const next = await installation.run(exampleWorkflow([exampleNode("example.pkg.echo")]));
    expect(next.run.status).toBe("succeeded");
  });
});
