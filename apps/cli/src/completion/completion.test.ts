import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type FakeApi, runCommandLine, sampleId, startFakeApi } from "../testing/fake-api.ts";
import { completionScript, shells } from "./completion.ts";

let api: FakeApi;
beforeAll(async () => {
  api = await startFakeApi();
  api.setResponse("listRuns", { items: [{ runId: sampleId }], nextCursor: null });
  api.setResponse("listWorkers", {
    items: [{ id: "w-1" }, { id: "two words", instanceId: "i-2" }, { id: "a:b", instanceId: "i-3" }],
    nextCursor: null,
  });
});
afterAll(() => api.close());

const complete = async (...words: string[]): Promise<string[]> =>
  (await api.run(["complete-words", "--", ...words])).out.split("\n").filter(Boolean);

it("[L35] shell completion offers commands, flags and the values of flags", async () => {
  expect(await complete("ru")).toEqual(["run", "runs"]);
  expect(await complete("runs", "")).toEqual(expect.arrayContaining(["cancel", "diff", "list", "show"]));
  expect(await complete("runs", "ls", "--st")).toEqual(["--status"]);
  expect(await complete("runs", "list", "--status", "")).toEqual(["cancelled", "failed", "queued", "running", "succeeded"]);
  expect(await complete("runs", "list", "--json", "--output", "w")).toEqual(["wide"]);
  expect(await complete("completion", "")).toEqual(["bash", "fish", "zsh"]);
  expect(await complete("complete-w")).toEqual([]);
});

it("[L35] shell completion offers ids and names from the scheduler, and nothing if the scheduler is unreachable", async () => {
  expect(await complete("runs", "show", "")).toEqual([sampleId]);
  expect(await complete("runs", "diff", "x", sampleId.slice(0, 4))).toEqual([sampleId]);
  expect(await complete("workers", "drain", "")).toEqual(["i-3", "two words", "w-1"]);
  expect(await complete("workers", "drain", "two w")).toEqual(["two words"]);
  expect(await complete("runs", "rebind", sampleId, "--worker", "w")).toEqual(["w-1"]);
  expect(await runCommandLine(["complete-words", "--", "runs", "show", ""], { ASTRA_URL: "http://127.0.0.1:1" })).toEqual({
    exitCode: 0,
    out: "",
    err: "",
  });
});

it("[L62] shell completion completes values after = and after commas, and words that begin with a quote", async () => {
  expect(await complete("runs", "list", "--status", "fa")).toEqual(["failed"]);
  expect(await complete("runs", "list", "--status=fa")).toEqual(["--status=failed"]);
  expect(await complete("events", "--topics", "run,wire.")).toEqual(["run,wire.frame"]);
  expect(await complete("sim", "--profile", "ne")).toEqual(["network"]);
  expect(await complete("bench", "s")).toEqual(["session", "slice"]);
  expect(await complete("workers", "drain", '"two w')).toEqual(["two words"]);
});

it("[L62] shell completion completes the keys and values of a --filter query, term by term", async () => {
  const filter = (line: string, page = "runs"): Promise<string[]> => complete(page, "list", "--filter", line);

  expect(await filter("st")).toEqual(["status:"]);
  expect(await filter("status:fa")).toEqual(["status:failed"]);
  expect(await filter("status:failed,q")).toEqual(["status:failed,queued"]);
  expect(await filter("status:failed wo")).toEqual(["status:failed worker:", "status:failed workflow:"]);
  expect(await filter("status:failed worker:w")).toEqual(["status:failed worker:w-1"]);
  expect(await filter("connected:", "workers")).toEqual(["connected:no", "connected:yes"]);
  expect(await filter("nothing:x")).toEqual([]);
  expect(await complete("views", "save", "v", "--filter", "status:q")).toEqual(["status:queued"]);
  expect(await complete("views", "save", "v", "--page", "workers", "--filter", "conn")).toEqual(["connected:"]);
  expect(await complete("events", "--filter", "topic:node.st")).toEqual(expect.arrayContaining(["topic:node.status"]));
  expect(await complete("runs", "list", "--filter=status:ca")).toEqual(["--filter=status:cancelled"]);
});

it("[L62] shell completion offers the flags of scheduler and worker, and the values of flags with a fixed set of values", async () => {
  expect(await complete("scheduler", "--log")).toEqual(["--log-level"]);
  expect(await complete("scheduler", "--log-level", "wa")).toEqual(["warn"]);
  expect(await complete("worker", "--packages")).toEqual(["--packages-dir"]);
  expect(await complete("worker", "--log-level", "crit")).toEqual(["critical"]);
  expect(await complete("worker", "--data-dir", "")).toEqual([]);
});

const isThere = (shell: string): boolean => spawnSync(shell, ["-c", "exit 0"]).status === 0;

it.for(shells)("[L35] the completion script for %s passes its shell's syntax check", (shell, { skip }) => {
  skip(!isThere(shell), `${shell} is not on this machine`);

  expect(spawnSync(shell, ["-n"], { input: completionScript(shell) })).toMatchObject({ status: 0 });
});

it("[L35] [L55] bash completion passes on the words up to the cursor, and offers the answers quoted the way the word was begun", ({
  skip,
}) => {
  skip(!isThere("bash"), "bash is not on this machine");
  const asking = `astra() { local IFS=' '; printf '%s\\n' "$*" "two words"; }
ask() { COMP_WORDS=(astra runs show "$1" later); COMP_CWORD=3; _astra; printf '%s|' "\${COMPREPLY[@]}"; echo; }
ask 7c; ask 'two\\ w'; ask '"two w'; ask ''`;

  const answer = spawnSync("bash", ["--norc"], { input: `${completionScript("bash")}${asking}`, encoding: "utf8" });

  const asked = "complete-words -- runs show ";
  const quoted = (candidate: string): string => `${asked}${candidate}|two words`.replaceAll(" ", "\\ ");
  expect(answer.stdout).toBe(`${quoted("7c")}|\n${quoted("two w")}|\n${asked}two w|two words|\n${quoted("")}|\n`);
});

it("[L62] bash completion rejoins words that bash splits at : and =, and strips the prefix already typed from the answers", ({
  skip,
}) => {
  skip(!isThere("bash"), "bash is not on this machine");
  const asking = `astra() { printf '%s|' "$@" >&2; printf '%s\\n' status:failed --filter=status:failed; }
ask() { COMP_WORDS=(astra "$@"); COMP_CWORD=$#; _astra; printf '%s|' "\${COMPREPLY[@]}"; echo; }
ask runs list --filter status : fa; ask runs list --filter = status : fa; ask --url http : //h : 1 runs ''`;
  const script = completionScript("bash").replace("2>/dev/null)", ")");

  const answer = spawnSync("bash", ["--norc"], { input: `${script}${asking}`, encoding: "utf8" });

  expect(answer.stderr).toBe(
    "complete-words|--|runs|list|--filter|status:fa|complete-words|--|runs|list|--filter=status:fa|complete-words|--|--url|http://h:1|runs||",
  );
  expect(answer.stdout.split("\n").slice(0, 2)).toEqual(["failed|--filter=status:failed|", "status:failed|failed|"]);
});
