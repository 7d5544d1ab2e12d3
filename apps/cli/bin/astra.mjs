#!/usr/bin/env node
// The executable. Runs on whatever Node the machine has, so it is plain JavaScript with built-in modules only: it finds a Node that
// can run the sources, and hands over. Commands live in ../src.
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** Keep in step with `engines` in package.json. */
const nodeMin = [22, 19];
/** A program started by another one ends with it: set by whoever starts us with a channel. */
const tetherVariable = "ASTRA_TETHERED";

/** @type {(version: string) => boolean} */
function isNewEnough(version) {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  return major > nodeMin[0] || (major === nodeMin[0] && minor >= nodeMin[1]);
}

/** @type {() => string | null} */
function findBundledNode() {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const node = join(folder, "node_modules", ".bin", "node");
    if (existsSync(node)) {
      const answer = spawnSync(node, ["--version"], { encoding: "utf8" });
      return answer.status === 0 && isNewEnough(answer.stdout.trim()) ? node : null;
    }
    if (dirname(folder) === folder) return null;
  }
}

function handOver() {
  const node = findBundledNode();
  if (node === null) {
    console.error(
      `astra needs Node ${nodeMin.join(".")} or newer; this one is ${process.version}. Install a newer Node, or run npm ci in the repository.`,
    );
    process.exit(2);
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    env: { ...process.env, [tetherVariable]: "1" },
  });
  // A terminal sends Ctrl-C to the whole group, the child included; a second copy from here would read as impatience.
  const signals = process.stdin.isTTY ? ["SIGTERM", "SIGHUP"] : ["SIGTERM", "SIGHUP", "SIGINT"];
  for (const signal of signals) process.on(signal, () => child.kill(/** @type {NodeJS.Signals} */ (signal)));
  if (process.stdin.isTTY) process.on("SIGINT", () => undefined);
  child.on("error", (cause) => {
    console.error(`astra could not be started with ${node}: ${cause.message}`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => {
    if (signal) process.kill(process.pid, signal);
    else process.exit(code ?? 1);
  });
}

async function run() {
  if (process.env[tetherVariable] && process.channel) {
    delete process.env[tetherVariable]; // our own children have us
    process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
    process.channel.unref(); // the tether alone must not keep us alive
  }
  const { runCli } = await import("../src/index.ts");
  process.exitCode = await runCli(process.argv.slice(2));
}

// An address with a password does not stay where everyone who can list processes reads it.
if (process.argv.some((word) => /:\/\/[^/]*:[^/]*@/.test(word))) process.title = `astra ${process.argv[2] ?? ""}`;
if (isNewEnough(process.version)) await run();
else handOver();
