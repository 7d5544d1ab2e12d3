/**
 * The steps of `npm run check` and the runner that walks them. Each step is a command of its own, so that each can be run
 * alone by hand; what a step looks at is in that command.
 */
import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** As many as the smallest machine we work on has cores. */
const stepsAtOnce = 2;

/** @type {(root: string) => string[]} */
function findTsconfigs(root) {
  const packageFolders = ["packages", "apps"].flatMap((parentFolder) =>
    existsSync(join(root, parentFolder)) ? readdirSync(join(root, parentFolder)).map((name) => `${parentFolder}/${name}`) : [],
  );
  return ["", "scripts", ...packageFolders]
    .map((folder) => join(folder, "tsconfig.json"))
    .filter((file) => existsSync(join(root, file)));
}

/** @type {import("./check-steps.d.mts").ListSteps} */
export const listSteps = ({ root, node }) => [
  // The slow ones first, so that the others fill the gaps.
  ...findTsconfigs(root).map((file) => ({
    name: file === "tsconfig.json" ? "types" : `types of ${file.replace("/tsconfig.json", "")}`,
    words: ["tsc", "--noEmit", "-p", file],
  })),
  { name: "lint", words: ["oxlint", "--type-aware", "--deny-warnings"] },
  { name: "dead code", words: ["knip", "--no-progress", "--no-config-hints"] },
  { name: "format", words: ["biome", "format", "."] },
  { name: "generated files", words: [node, "scripts/gen.ts", "--check"] },
  { name: "layers", words: [node, "scripts/checks/layers.ts"] },
  { name: "folders", words: [node, "scripts/checks/folders.ts"] },
  { name: "purity", words: [node, "scripts/checks/purity.ts"] },
  { name: "silent failures", words: [node, "scripts/checks/silent-failures.ts"] },
  { name: "docs", words: [node, "scripts/checks/docs.ts"] },
];

/** @type {(words: readonly string[], place: import("./check-steps.d.mts").CheckEnvironment) => Promise<{ isGood: boolean; output: string }>} */
function runCommand(words, place) {
  return new Promise((resolve) => {
    const [program = "", ...args] = words;
    /** @type {Buffer[]} */
    const output = [];
    const child = spawn(program, args, { cwd: place.root, env: place.env, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.on("data", (bytes) => output.push(bytes));
    child.stderr.on("data", (bytes) => output.push(bytes));
    child.on("error", (cause) => resolve({ isGood: false, output: `${program} could not be started: ${cause.message}` }));
    child.on("close", (code, signal) => {
      const text = Buffer.concat(output).toString("utf8").trimEnd();
      resolve({ isGood: code === 0, output: signal ? `${text}\n${program} was ended by ${signal}` : text });
    });
  });
}

/** @type {import("./check-steps.d.mts").RunSteps} */
export const runSteps = async (steps, place, print) => {
  /** @type {string[]} */
  const failed = [];
  const waiting = [...steps];
  const walk = async () => {
    for (let step = waiting.shift(); step; step = waiting.shift()) {
      const begin = performance.now();
      const { isGood, output } = await runCommand(step.words, place);
      print(`${isGood ? "✓" : "✗"} ${step.name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
      if (isGood) continue;
      failed.push(step.name);
      for (const line of (output || "failed without output").split("\n")) print(`    ${line}`);
    }
  };
  await Promise.all(Array.from({ length: stepsAtOnce }, walk));
  return failed;
};
