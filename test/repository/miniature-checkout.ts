/** A checkout in miniature: the real scripts, with stand-ins for npm, vitest and the program, so that no test installs anything. */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, symlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { onTestFinished } from "vitest";
import { repositoryRoot } from "../../scripts/repository-files.ts";
import { writeTemporaryTree } from "./temporary-tree.ts";

export interface Checkout {
  root: string;
  env: NodeJS.ProcessEnv;
}

export interface ScriptExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  output: string;
  /** Without stderr: nothing orders the two pipes. */
  stdout: string;
}

const lock = '{ "packages": {} }\n';
const lockDigest = createHash("sha256").update(lock).digest("hex");

/** npm controlled by a file: it prints its arguments and ends with the code in `npm-code`. */
const fakeNpm = `#!/bin/sh
echo "npm was called with: $*"
mkdir -p node_modules/.bin
exit "$(cat npm-code 2>/dev/null || echo 0)"
`;

/** `isReady: false` leaves node_modules out, as in a fresh clone. */
export function createCheckout({ isReady, files = {} }: { isReady: boolean; files?: Record<string, string> }): Checkout {
  const scripts = readdirSync(join(repositoryRoot, "scripts")).filter((name) => name.endsWith(".mjs"));
  const root = writeTemporaryTree({
    ...Object.fromEntries(
      scripts.map((name) => [`scripts/${name}`, readFileSync(join(repositoryRoot, "scripts", name), "utf8")]),
    ),
    "package-lock.json": lock,
    "fake/npm": fakeNpm,
    ...(isReady ? { "node_modules/.astra-lock": `${lockDigest}\n`, "node_modules/.bin/keep": "" } : {}),
    ...files,
  });
  if (isReady) symlinkSync(process.execPath, join(root, "node_modules/.bin/node"));
  return { root, env: { ...process.env, PATH: [join(root, "fake"), process.env["PATH"]].join(delimiter) } };
}

/** Starts one of the scripts; a test that fails half-way leaves nothing running. */
export function startScript({ root, env }: Checkout, script: string, args: readonly string[] = []): ChildProcess {
  const child = spawn(process.execPath, [join(root, "scripts", script), ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return child;
}

/** Waits until the script has ended and all that hold its output have closed it. */
export function waitForEnd(child: ChildProcess): Promise<ScriptExit> {
  return new Promise((resolve, reject) => {
    let stdout = "";
    let output = "";
    child.stdout?.on("data", (bytes: Buffer) => {
      stdout += bytes.toString();
      output += bytes.toString();
    });
    child.stderr?.on("data", (bytes: Buffer) => (output += bytes.toString()));
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code, signal, output, stdout }));
  });
}

/** Resolves once the script has printed this word. */
export function waitForOutput(child: ChildProcess, word: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let seen = "";
    child.stdout?.on("data", (bytes: Buffer) => {
      seen += bytes.toString();
      if (seen.includes(word)) resolve();
    });
    child.on("exit", () => reject(new Error(`it ended without saying "${word}": ${seen}`)));
  });
}
