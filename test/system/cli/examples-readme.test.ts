import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SchedulerApi } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, repositoryRoot, runAstra, spawnAstra } from "../harness/processes.ts";

/** The indented lines, as a shell would read them: a backslash at the end goes on in the next. */
function readCommands(markdown: string): string[] {
  const indented = markdown.split("\n").filter((line) => line.startsWith("    "));
  return indented
    .join("\n")
    .replaceAll(/\\\n\s+/g, "")
    .split("\n")
    .map((line) => line.trim());
}

/** Words of a command line with double quotes and nothing else of a shell. */
const shellWords = (line: string): string[] =>
  Array.from(line.matchAll(/"([^"]*)"|(\S+)/g), ([, quoted, plain]) => quoted ?? plain ?? "");

/** Paths are printed for people who stand in the repository; the tests stand elsewhere. */
const resolveFromRoot = (word: string): string => (/^(examples|docs)\//.test(word) ? join(repositoryRoot, word) : word);

const commands = readCommands(readFileSync(join(repositoryRoot, "examples", "README.md"), "utf8"));
const astraArguments = (name: string): string[] => {
  const line = commands.find((command) => command.startsWith(`npx astra ${name} `)) ?? "";
  return shellWords(line).slice(2).map(resolveFromRoot);
};

async function startAstraUp() {
  const up = spawnAstra(["up", "--listen", "127.0.0.1:0", "--no-demo", "--data-dir", join(makeTemporaryFolder(), "var")]);
  const { http, ws } = await up.ready();
  return { http: String(http), ws: String(ws) };
}

describe("the README of the examples", () => {
  it("[L12] the README of the examples prints the three kinds of commands that are tested here, and no other", () => {
    expect(commands.map((command) => command.split(" ").slice(0, 3).join(" "))).toEqual([
      "npx astra worker",
      "npx astra run",
      "curl -X POST",
    ]);
  });

  it("[L12] the worker command in the README of the examples starts a worker that joins", async () => {
    const { http, ws } = await startAstraUp();

    await spawnAstra(astraArguments("worker"), { ASTRA_WORKER_SCHEDULER_WS_URL: ws, ASTRA_WORKER_WORKER_NAME: "second" }).ready();

    const names = (await new SchedulerApi(http).listWorkers()).items.map((worker) => worker.id);
    expect(names.sort()).toEqual(["demo-worker", "second"]);
  });

  it("[L12] the runs in the README of the examples succeed, from the command line and from curl", async () => {
    const { http } = await startAstraUp();
    const curl = shellWords(commands.find((command) => command.startsWith("curl ")) ?? "");
    const after = (flag: string): string[] => curl.flatMap((word, at) => (word === flag ? [curl[at + 1] ?? ""] : []));
    const address = new URL(curl.find((word) => word.startsWith("http://")) ?? "");

    const end = await runAstra(astraArguments("run"), { ASTRA_URL: http });
    const answer = await fetch(http + address.pathname, {
      method: after("-X")[0] ?? "GET",
      headers: after("-H").map((header) => header.split(": ") as [string, string]),
      body: readFileSync(resolveFromRoot((after("-d")[0] ?? "").slice(1))),
    });

    expect(end).toMatchObject({ code: 0 });
    expect(address.host).toBe("127.0.0.1:8080");
    expect(answer.status).toBeLessThan(300);
    const { runId } = (await answer.json()) as { runId: string };
    const run = await pollUntil("the run to end", async () => {
      const one = await new SchedulerApi(http).getRun(runId);
      return one.status !== "queued" && one.status !== "running" && one;
    });
    expect(run.status).toBe("succeeded");
  });
});
