// Every command, request and document that the pages show is tried as it is shown, in the order of the page.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { listFiles } from "../../../scripts/repository-files.ts";
import { repositoryRoot, runAstra } from "../harness/processes.ts";
import { type CodeBlock, readCodeBlocks, readCommands, readConsole } from "./code-blocks.ts";
import { notRun } from "./not-run.ts";
import { isTried, runBlock } from "./page-runner.ts";
import { PageSession } from "./page-session.ts";

const pages = listFiles(repositoryRoot).filter((path) =>
  /^(README|CONTRIBUTING|docs\/.+|examples\/.+|packages\/client\/README)\.md$/.test(path),
);

/** Pages for readers who have run `npm start`; the others start what they need themselves. */
const besideNpmStart: Readonly<Record<string, string>> = {
  "README.md": "astra up --listen 127.0.0.1:8080",
  "examples/README.md": "astra up --no-demo --listen 127.0.0.1:8080",
  "examples/extensions/README.md": "astra up --no-demo --listen 127.0.0.1:8080",
  "packages/client/README.md": "astra up --no-demo --listen 127.0.0.1:8080",
  "docs/guides/workflows.md": "astra up --no-demo --listen 127.0.0.1:8080",
  "docs/guides/backup.md": "astra up --no-demo --listen 127.0.0.1:8080",
  "docs/guides/api.md": "astra up --no-demo --listen 127.0.0.1:8080",
  "docs/guides/rollouts.md": "astra up --no-demo --listen 127.0.0.1:8080",
  "docs/guides/packages.md": "astra up --no-demo --listen 127.0.0.1:8080",
  "docs/resource-affinity-and-artifacts.md": "astra up --no-demo --listen 127.0.0.1:8080",
};

const readPage = (page: string) => readCodeBlocks(readFileSync(join(repositoryRoot, page), "utf8"));
const isNotRun = (page: string, text: string): boolean => notRun.some((row) => row.page === page && text.startsWith(row.begins));

/** The commands of a block, and the first line of one that is only text. */
function listTexts(block: CodeBlock): string[] {
  if (block.language === "sh") return readCommands(block.text);
  if (block.language === "console") return readConsole(block.text).map(({ command }) => command);
  return [block.text];
}

describe("the pages", () => {
  it("[H720] every code block of the pages is fenced and has a language whose blocks are tried, or a row in not-run.ts with the reason", () => {
    const problems = pages.flatMap((page) => {
      const { blocks, problems: unreadable } = readPage(page);
      const untried = blocks.filter((block) => !isTried(block) && !isNotRun(page, block.text));
      return [
        ...unreadable.map((problem) => `${page}, ${problem}`),
        ...untried.map(({ line, language }) => `${page}:${line}: ${language} is not tried`),
      ];
    });

    expect(problems).toEqual([]);
  });

  it("[H721] every row of not-run.ts fits a command or text of its page and names tests that exist, and what it leaves out are commands and flags that exist", async () => {
    const commandsOf = new Map(pages.map((page) => [page, readPage(page).blocks.flatMap(listTexts)]));
    const stale = notRun.filter(({ page, begins }) => !commandsOf.get(page)?.some((text) => text.startsWith(begins)));
    const leftOut = pages.flatMap((page) => (commandsOf.get(page) ?? []).filter((text) => isNotRun(page, text)));
    const scripts = (
      JSON.parse(readFileSync(join(repositoryRoot, "package.json"), "utf8")) as { scripts: Record<string, string> }
    ).scripts;
    const unknownScripts = leftOut
      .map((text) => /^npm (?:run )?([\w:-]+)/.exec(text)?.[1])
      .filter((name) => name !== undefined && !(name in scripts));
    const unknownFlags = await findUnknownFlags(leftOut);

    const namedTests = notRun.flatMap(({ why }) => why.match(/[\w/.-]+\.test\.ts/g) ?? []);

    expect(stale).toEqual([]);
    expect(namedTests.filter((file) => !existsSync(join(repositoryRoot, file)))).toEqual([]);
    expect(unknownScripts).toEqual([]);
    expect(unknownFlags).toEqual([]);
  });

  for (const page of pages.filter((path) =>
    readPage(path).blocks.some((block) => isTried(block) && block.language !== "mermaid"),
  ))
    it(`[H722] ${page}: every command, request and document works as shown, and prints what is shown`, async () => {
      const session = new PageSession();
      const start = besideNpmStart[page];
      if (start !== undefined) await session.leaveRunning(start);

      const problems: string[] = [];
      for (const block of readPage(page).blocks.filter(isTried))
        await runBlock(session, block, (command) => !isNotRun(page, command)).catch((thrown: unknown) => {
          problems.push(`${page}:${block.line}: ${errorMessage(thrown)}`);
        });

      expect(problems.join("\n\n")).toBe("");
    });
});

/** Flags of commands of `astra` that its help does not list. */
async function findUnknownFlags(commands: readonly string[]): Promise<string[]> {
  const unknown: string[] = [];
  for (const command of commands) {
    const words = /^(?:npx )?astra ((?:[a-z]+ )*[a-z]+)/.exec(command)?.[1]?.split(" ");
    if (words === undefined) continue;
    const help = (await runAstra([...words.slice(0, 2), "--help"])).stdout;
    const flags = [...command.matchAll(/ (--[a-z][a-z-]*)/g)].map(([, flag = ""]) => flag);
    unknown.push(...flags.filter((flag) => !help.includes(flag)).map((flag) => `${command}: ${flag}`));
  }
  return unknown;
}
