// The package `python` in a real Python host of a worker: an async adapter that fetches and streams, a sync one, and their refusals.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ExampleInstallation, exampleNode, exampleWorkflow, type LogLine, nodeOf } from "../harness/example-packages.ts";
import { pollUntil } from "../harness/processes.ts";

const startInstallation = () => ExampleInstallation.start(["python"]);
const textOn = (channel: string, lines: readonly LogLine[]) =>
  lines.filter((line) => line.channel === channel).map(({ text }) => text);

const bees = `<html><head><title>Ignored title</title><script>var bees = "bees bees bees";</script></head><body><nav>Home</nav>
<h1>Bees</h1><p>Bees pollinate the flowers of most fruit trees. A hive has one queen.
Without bees, fruit trees carry little fruit.</p><p>The weather was fine.</p></body></html>`;
const trees = "Fruit trees need bees. Apple trees are fruit trees that bees like. My uncle owns a red tractor.";

const servers: ReturnType<typeof createServer>[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function startPages(): Promise<string> {
  const pages: Readonly<Record<string, readonly [type: string, text: string]>> = {
    "/bees": ["text/html; charset=utf-8", bees],
    "/trees": ["text/plain", trees],
  };
  const server = createServer((request, response) => {
    const page = pages[request.url ?? ""];
    if (page === undefined) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": page[0] }).end(page[1]);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("the package python", () => {
  it("[W1420] the async adapter fetches articles and streams the sentences that say most, as chunks, as the result so far, and as its result", async () => {
    const pages = await startPages();
    const installation = await startInstallation();
    const urls = [`${pages}/bees`, `${pages}/trees`];

    const { run, host, runId, facts } = await installation.run(
      exampleWorkflow([exampleNode("python.summarise", { urls, sentences: 2 })]),
    );

    expect(run.status).toBe("succeeded");
    const summary = "Bees pollinate the flowers of most fruit trees. Fruit trees need bees.";
    expect(host?.result).toMatchObject({ summary, articleCount: 2, sentences: summary.split(/(?<=\.) /) });
    expect(host?.metadata).toMatchObject({ token_count: 12, idempotency_key: `${runId}.0` });
    const logs = await installation.logs(runId);
    expect(textOn("llm", logs).join("")).toBe(summary);
    expect(textOn("log", logs)).toEqual(["Loaded 2 articles"]);
    const shown = facts.flatMap(({ type, data }) => (type === "task.feedback" ? [(data as { results?: object }).results] : []));
    expect(shown.filter((results) => results !== undefined).at(-1)).toEqual({ summary });
  });

  it("[W1421] the sync adapter counts words in a thread and reports without waiting", async () => {
    const installation = await startInstallation();

    const { host, runId } = await installation.run(exampleWorkflow([exampleNode("python.keywords", { text: trees, count: 3 })]));

    expect(host?.result).toMatchObject({
      keywords: ["trees", "fruit", "bees"],
      counts: [{ word: "trees", count: 3 }, { count: 2 }, { count: 2 }],
    });
    expect(textOn("log", await installation.logs(runId))).toEqual(["trees: 3", "fruit: 2", "bees: 2"]);
  });

  it("[W1422] pages that are missing or no pages fail with the reason, and a summary that is cancelled stops", async () => {
    const pages = await startPages();
    const installation = await startInstallation();
    const failWith = async (parameters: Parameters<typeof exampleNode>[1]) =>
      (await installation.run(exampleWorkflow([exampleNode("python.summarise", parameters)]))).run.error;

    expect(await failWith({ urls: [`${pages}/gone`] })).toMatchObject({
      code: "E.RUNNER.FAILURE",
      message: `${pages}/gone answered 404 Not Found`,
    });
    expect(await failWith({ urls: ["file:///etc/passwd"] })).toMatchObject({ code: "E.PARAMS.INVALID" });
    expect(await failWith({})).toMatchObject({
      code: "E.PARAMS.INVALID",
      message: expect.stringContaining("give 1 to 50 articles"),
    });

    const endless = exampleWorkflow([exampleNode("python.summarise", { texts: [trees], tokenDelayMs: 300 })]);
    const runId = await installation.startRun(endless);
    await pollUntil("the first word", async () => {
      const node = nodeOf(await installation.api.getRun(runId), endless.nodes[0]?.id);
      return typeof node?.result?.["summary"] === "string";
    });
    await installation.api.send("POST", `/api/v1/runs/${runId}/cancel`);
    expect((await installation.api.waitForRunEnd(runId)).status).toBe("cancelled");
    expect((await installation.run(exampleWorkflow([exampleNode("python.keywords", { text: "after" })]))).run.status).toBe(
      "succeeded",
    );
  });
});
