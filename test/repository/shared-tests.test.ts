// Test files share processes, so what one leaves behind is what the next one finds. Those that must change their process run alone.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { repositoryRoot } from "../../scripts/repository-files.ts";
import { aloneTests, everyTest } from "../../vitest.config.ts";

const forbiddenPatterns: readonly (readonly [what: string, shape: RegExp])[] = [
  ["mocks a module", /\bvi\.(?:do)?[mM]ock\(/],
  ["sets a limit of the runner", /\bvi\.setConfig\(/],
  ["changes a global", /\bvi\.stubGlobal\(|\bglobalThis(?:\[[^\]]+\]|\.\w+)\s*=[^=]/],
  ["changes the environment", /\bvi\.stubEnv\(|\bprocess\.env(?:\[[^\]]+\]|\.\w+)\s*=[^=]/],
  ["changes the working folder", /\bprocess\.chdir\(/],
  ["leaves the clock stopped", /\bvi\.useFakeTimers\((?![\s\S]*\bvi\.useRealTimers\()/],
];

const findForbidden = (text: string): string[] => forbiddenPatterns.filter(([, shape]) => shape.test(text)).map(([what]) => what);

describe("test files that share a process", () => {
  it("[O94] test files that share a process mock no module and change no global, environment, working folder, clock or runner limit", () => {
    const files = globSync([...everyTest], { cwd: repositoryRoot, exclude: [...aloneTests, "**/node_modules/**", "**/var/**"] });
    const own = join("test", "repository", "shared-tests.test.ts");

    const found = files
      .filter((file) => file !== own)
      .flatMap((file) => findForbidden(readFileSync(join(repositoryRoot, file), "utf8")).map((what) => `${file} ${what}`));

    expect(found).toEqual([]);
    expect(files.length).toBeGreaterThan(250);
  });

  it.each([
    ['vi.mock("./clock.ts");', "mocks a module"],
    ["vi.setConfig({ testTimeout: 1 });", "sets a limit of the runner"],
    ["globalThis.fetch = fake;", "changes a global"],
    ['process.env["HOME"] = "/";', "changes the environment"],
    ["process.chdir(folder);", "changes the working folder"],
    ["vi.useFakeTimers();", "leaves the clock stopped"],
  ])("[O94] the check of test files that share a process finds %s", (text, what) => {
    expect(findForbidden(text)).toEqual([what]);
    expect(findForbidden('expect(process.env["HOME"] === "/"); vi.useFakeTimers(); vi.useRealTimers();')).toEqual([]);
  });
});
