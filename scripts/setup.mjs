/**
 * Brings a fresh checkout to a usable state and says what it does, one line a step. It runs on the machine's own, possibly
 * old, Node before anything is installed: only built-in modules here. What to do is decided in setup-plan.mjs.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { agreeModules, chooseNode, isPythonNewEnough, planSetUp, systemPackages } from "./setup-plan.mjs";

/** @typedef {import("./setup-plan.d.mts").SetupCommand} Command */

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Set-up ended without a usable checkout; the message says why and what to do. Commands exit with 2. */
class SetUpRefused extends Error {}

/** @type {(line: string) => void} */
const print = (line) => console.log(`set-up: ${line}`);

/** @type {(path: string) => boolean} */
function probePath(path) {
  const [before = "", after] = path.split("*", 2);
  if (after === undefined) return existsSync(path);
  return existsSync(before) && readdirSync(before).some((name) => existsSync(join(before, name, after)));
}

/** @type {(name: string) => boolean} */
function hasProgram(name) {
  return (process.env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** @type {(path: string) => unknown} */
function readJsonIfThere(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null;
}

/**
 * Runs one step with its output in full view; a step that fails ends the set-up.
 * @type {(step: { words: string[]; env?: NodeJS.ProcessEnv; hint: string }) => void}
 */
function runStep({ words, env, hint }) {
  const [program = "", ...args] = words;
  const done = spawnSync(program, args, { cwd: root, stdio: "inherit", env: env ?? process.env });
  if (done.status === 0) return;
  const how = done.error ? done.error.message : `it ended with ${done.signal ?? `code ${done.status}`}`;
  throw new SetUpRefused(`"${words.join(" ")}" did not succeed (${how}). ${hint}`);
}

/** @type {(bin: string) => void} */
function installModules(bin) {
  // Without node_modules/.bin on PATH: npm must not run on the very Node it is about to replace.
  const path = (process.env["PATH"] ?? "").split(delimiter).filter((entry) => entry !== bin);
  runStep({
    // Warnings about the Node that runs npm would alarm for nothing: the one that is installed runs everything.
    words: ["npm", "ci", "--ignore-scripts", "--include=dev", "--include=optional", "--loglevel=error"],
    env: { ...process.env, PATH: path.join(delimiter) },
    hint: "Check the network and try again; node_modules may be incomplete and is made anew then.",
  });
}

/** @type {(names: readonly string[]) => void} */
function installPackages(names) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const hint = `Check the network, or install ${names.join(" and ")} by hand, and try again.`;
  runStep({ words: ["apt-get", "update"], env, hint });
  runStep({ words: ["apt-get", "install", "-y", "--no-install-recommends", ...names], env, hint });
}

/**
 * Says how long a step took: whoever waits for the first time wants to know what for.
 * @type {(name: string, step: () => void) => void}
 */
function timed(name, step) {
  const startedAt = performance.now();
  step();
  print(`${name} took ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`);
}

/** @type {(names: readonly string[]) => void} */
function installOptionalPackages(names) {
  try {
    installPackages(names);
  } catch (refused) {
    if (!(refused instanceof SetUpRefused)) throw refused;
    print(`continuing without ${names.join(" and ")}: ${refused.message}`);
  }
}

/** Where the Python tools are, and the list of them. */
export const pythonTools = join(root, "node_modules", ".cache", "python-tools");
const pythonToolsList = join(root, "scripts", "conform", "requirements.txt");

/** Null without a Python that can make environments. @type {() => string | null} */
function askPythonVersion() {
  const program = "import platform, venv, ensurepip; print(platform.python_version())";
  const answer = spawnSync("python3", ["-c", program], { encoding: "utf8" });
  return answer.status === 0 ? answer.stdout.trim() : null;
}

/** Into an environment of their own; only wheels whose digests are listed. */
function installPythonTools() {
  const version = askPythonVersion();
  if (!isPythonNewEnough(version)) throw new SetUpRefused(`Python ${version ?? "with venv"} was found; a newer one is needed.`);
  rmSync(pythonTools, { recursive: true, force: true });
  const hint = "Check the network (pip must reach its package index) and try again.";
  runStep({ words: ["python3", "-m", "venv", pythonTools], hint: "Install Python's venv module and try again." });
  const pip = [join(pythonTools, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
  runStep({ words: [...pip, "--require-hashes", "--only-binary", ":all:", "--requirement", pythonToolsList], hint });
}

/** @type {(path: string) => string} */
const hashFile = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");

/** @type {(node: string) => string | null} */
function askVersion(node) {
  const answer = spawnSync(node, ["--version"], { encoding: "utf8" });
  return answer.status === 0 ? answer.stdout.trim() : null;
}

/**
 * The checkout is usable afterwards, or SetUpRefused is thrown. Returns the Node to run programs with and an environment
 * in which the tools of node_modules, and that Node, come first.
 * @type {(command: Command) => { node: string; env: NodeJS.ProcessEnv }}
 */
function setUp(command) {
  const startedAt = performance.now();
  const modules = join(root, "node_modules");
  const bin = join(modules, ".bin");
  const stamp = join(modules, ".astra-lock");
  const toolsStamp = join(pythonTools, ".astra-lock");
  const lockText = readFileSync(join(root, "package-lock.json"), "utf8");
  const lockHash = createHash("sha256").update(lockText).digest("hex");
  const steps = planSetUp({
    command,
    lockHash,
    stampHash: existsSync(stamp) ? readFileSync(stamp, "utf8").trim() : null,
    hasModules: existsSync(modules),
    installedAgrees: agreeModules(JSON.parse(lockText), readJsonIfThere(join(modules, ".package-lock.json"))),
    isRoot: process.getuid?.() === 0,
    hasApt: hasProgram("apt-get"),
    missing: systemPackages.filter((row) => !probePath(row.probe)),
    python: command === "test" || command === "conform" ? askPythonVersion() : null,
    toolsHash: command === "conform" ? hashFile(pythonToolsList) : "",
    toolsStampHash: existsSync(toolsStamp) ? readFileSync(toolsStamp, "utf8").trim() : null,
  });

  for (const step of steps) {
    switch (step.type) {
      case "refuse":
        throw new SetUpRefused(step.why);
      case "tell":
        print(step.why);
        break;
      case "adopt-modules":
        print(step.why);
        writeFileSync(stamp, `${lockHash}\n`);
        break;
      case "install-modules":
        print(`npm ci (${step.why}; half a minute or so)`);
        timed("npm ci", () => installModules(bin));
        writeFileSync(stamp, `${lockHash}\n`); // only now: an install cut short must be made again
        break;
      case "install-python-tools":
        print(`pip install into ${pythonTools} (${step.why}; half a minute or so)`);
        timed("pip install", installPythonTools);
        writeFileSync(toolsStamp, `${hashFile(pythonToolsList)}\n`);
        break;
      case "install-packages":
        print(`apt-get install ${step.names.join(" ")} (${step.why})`);
        timed("apt-get install", () => (step.isOptional ? installOptionalPackages : installPackages)(step.names));
        break;
    }
  }

  const bundled = join(bin, "node");
  const choice = chooseNode({ bundled: existsSync(bundled) ? askVersion(bundled) : null, own: process.version });
  if (typeof choice === "object") throw new SetUpRefused(choice.refusal);
  const node = choice === "bundled" ? bundled : process.execPath;
  const env = { ...process.env, PATH: [bin, dirname(node), process.env["PATH"] ?? ""].join(delimiter) };
  print(`ready after ${((performance.now() - startedAt) / 1_000).toFixed(1)} s, running on Node ${askVersion(node)}`);
  return { node, env };
}

/**
 * setUp for a program: a refusal is printed, and the caller decides how to end (exit code 2).
 * @type {(command: Command) => { node: string; env: NodeJS.ProcessEnv } | null}
 */
export function setUpOrExplain(command) {
  try {
    return setUp(command);
  } catch (refused) {
    if (!(refused instanceof SetUpRefused)) throw refused;
    console.error(`set-up: ${refused.message}`);
    return null;
  }
}
