// docs/guides/workers.md explains the exit codes of a worker to operators: it must agree with the table.
import { readFileSync } from "node:fs";
import { exitCodes, exitMeanings } from "@astraflow/protocol";
import { expect, it } from "vitest";

const page = readFileSync(new URL("../../../docs/guides/workers.md", import.meta.url), "utf8");

it("[L57] docs/guides/workers.md lists every exit code of the worker with its meaning, and no other", () => {
  const section = /\| exit code \| when \|\n\|---\|---\|\n((?:\|.*\n)+)/.exec(page)?.[1] ?? "";
  const listed = [...section.matchAll(/^\| (\d+) \| (.+) \|$/gm)].map(([, code, meaning]) => [Number(code), meaning]);

  const names = Object.keys(exitMeanings.worker) as (keyof typeof exitMeanings.worker)[];
  expect(listed).toEqual(names.map((name) => [exitCodes[name], exitMeanings.worker[name]]));
});
