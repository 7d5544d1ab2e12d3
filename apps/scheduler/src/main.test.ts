import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const run = promisify(execFile);
const main = fileURLToPath(new URL("./main.ts", import.meta.url));

it("[O10] the scheduler also runs as a program of its own: help and version end with exit code 0, an unknown flag with 2", async () => {
  expect((await run(process.execPath, [main, "--help"])).stdout).toContain("--listen HOST:PORT");
  expect((await run(process.execPath, [main, "--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  await expect(run(process.execPath, [main, "--nonsense"])).rejects.toMatchObject({ code: 2, stdout: "" });
});
