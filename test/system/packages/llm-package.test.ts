// The package `llm` through a scheduler and a worker, against a server of the test: the key, the stream, a second attempt, and an end.

import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ExampleInstallation, exampleNode, exampleWorkflow, nodeOf } from "../harness/example-packages.ts";
import { answerJson, answerStream, endEvents, startModelServer, streamHead, tokenEvent } from "../harness/model-server.ts";
import { pollUntil, repositoryRoot } from "../harness/processes.ts";

const startInstallation = () => ExampleInstallation.start(["llm", "system"]);

describe("the package llm on a worker", () => {
  it("[W1418] a granted key reaches the server and nobody else, also when the answer repeats it; the text grows in the run while it streams", async () => {
    const key = "sk-only-the-server-knows-4711";
    const open = Promise.withResolvers<ServerResponse>();
    const server = await startModelServer((response) => {
      response.writeHead(200, streamHead).write(tokenEvent("Your key is "), () => open.resolve(response));
    });
    const installation = await startInstallation();
    await installation.grantSecret("llm", "openai_compatible_api_key", key);
    const workflow = exampleWorkflow([exampleNode("llm.chat", { baseUrl: server.baseUrl, model: "m", prompt: "tell" })]);
    const runId = await installation.startRun(workflow);
    const response = await open.promise;
    const readNode = async () => nodeOf(await installation.api.getRun(runId), workflow.nodes[0]?.id);

    // The answer is not complete, and its beginning is there already.
    await pollUntil("the beginning of the answer", async () => (await readNode())?.result?.["text"] === "Your key is ");
    response.end(tokenEvent(key.slice(0, 10)) + tokenEvent(`${key.slice(10)}.`) + endEvents);
    const run = await installation.api.waitForRunEnd(runId);

    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${key}`);
    expect((await readNode())?.result).toMatchObject({ text: "Your key is ***.", usage: { totalTokens: 8 }, done: true });
    expect((await readNode())?.metrics).toMatchObject({ promptTokens: 5, completionTokens: 3, totalTokens: 8 });
    const said = (await installation.logs(runId)).filter(({ channel }) => channel === "llm").map(({ text }) => text);
    expect(said.join("")).toBe("Your key is ***.");
    const facts = await installation.api.listRunFacts(runId);
    expect(JSON.stringify([run, facts])).not.toContain(key.slice(0, 10));
  });

  it("[W1418] a retry middleware asks again after 429, and a run that is cancelled closes its request", async () => {
    const server = await startModelServer((response, { body }) => {
      if (body["model"] === "endless") return void response.writeHead(200, streamHead).write(tokenEvent("and "));
      if (server.requests.length === 1) return answerJson(response, 429, { error: { message: "slow down" } });
      answerStream(response, ["done"]);
    });
    const installation = await startInstallation();
    const ask = (model: string) =>
      exampleNode("llm.chat", { baseUrl: server.baseUrl, model, prompt: "x" }, [
        ["retry", { delayMs: 0, codes: ["E.LLM.RATE_LIMITED"] }],
      ]);

    const limited = await installation.run(exampleWorkflow([ask("m")]));
    const runId = await installation.startRun(exampleWorkflow([ask("endless")]));
    const request = await pollUntil("the endless answer", async () => server.requests[2]);
    await installation.api.send("POST", `/api/v1/runs/${runId}/cancel`);
    await request.aborted;

    expect(limited.host?.result).toMatchObject({
      text: "done",
      retry: { attempts: 2, failures: [{ code: "E.LLM.RATE_LIMITED", message: expect.stringContaining("slow down") }] },
    });
    expect((await installation.api.waitForRunEnd(runId)).status).toBe("cancelled");
    expect(server.requests).toHaveLength(3);
  });

  it("[W1418] the nodes that stream have a widget that shows the text", () => {
    const file = join(repositoryRoot, "examples/packages/llm/1.0.0/manifest.json");
    const { nodes } = JSON.parse(readFileSync(file, "utf8")) as { nodes: { type: string; ui: { widgets: { key: string }[] } }[] };
    const previews = nodes.map(({ type, ui }) => [type, ui.widgets.find(({ key }) => key === "answerPreview")] as const);

    expect(Object.fromEntries(previews)).toMatchObject({
      "llm.chat": { binding: { path: "/results/text", mode: "read" } },
      "llm.complete": { binding: { path: "/results/text", mode: "read" } },
      "llm.embed": undefined,
    });
  });
});
