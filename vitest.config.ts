/**
 * How tests are found and run: one configuration for every workspace and for test/. What is counted, and how the last
 * line reads, lives in scripts/reporter.ts.
 */
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export const everyTest = [
  "packages/**/src/**/*.test.{ts,tsx}",
  "packages/*/test/**/*.test.ts",
  "apps/**/src/**/*.test.{ts,tsx}",
  "apps/*/test/**/*.test.ts",
  "scripts/**/*.test.ts",
  "test/**/*.test.ts",
];

/** Files that get a process of their own: they set the runner's limits, or measure the memory of their process, or are long. */
export const aloneTests = [
  "test/system/**/*.test.ts",
  "packages/protocol/src/frames/frame-mutation.test.ts",
  "packages/sim/src/campaign/campaign*.test.ts",
];

/** Hundreds of child processes load the same sources: what one has compiled the next ones read, which halves the CPU time of a start. */
const compileCacheFolder = fileURLToPath(new URL("node_modules/.cache/compiled", import.meta.url));

const nowhere = ["**/node_modules/**", "**/var/**"];

export default defineConfig({
  test: {
    // Processes, not threads: tests open SQLite files, start children and install signal handlers.
    pool: "forks",
    // Two more than there are processors: many tests wait for children, sockets and leases, and others fill the gap.
    maxWorkers: availableParallelism() + 2,
    // The simulator and the fuzz tests make much garbage that dies young.
    execArgv: ["--max-semi-space-size=64"],
    // A limit for tests that hang, not for slow machines: some take ten seconds on two free cores.
    testTimeout: 180_000,
    hookTimeout: 120_000,
    watch: false,
    env: { NODE_COMPILE_CACHE: compileCacheFolder },
    setupFiles: ["./scripts/test-progress.ts"],
    reporters: [["default", { summary: false }], "./scripts/reporter.ts"],
    // Run in the order of their names, without a pause between: the long ones first, so that short ones fill the gap at the end.
    projects: [
      {
        extends: true,
        test: { name: "alone", include: aloneTests, exclude: nowhere, globalSetup: "./test/system/harness/build-programs.ts" },
      },
      // The others share few processes: starting one for each, and loading everything anew, took as long as the tests themselves.
      { extends: true, test: { name: "shared", include: everyTest, exclude: [...nowhere, ...aloneTests], isolate: false } },
    ],
  },
});
