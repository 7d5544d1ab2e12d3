/**
 * How tests are found and run: one configuration for every workspace and for test/. What is counted, and how the last
 * line reads, lives in scripts/reporter.ts.
 */
import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: [
      "packages/**/src/**/*.test.{ts,tsx}",
      "packages/*/test/**/*.test.ts",
      "apps/**/src/**/*.test.{ts,tsx}",
      "apps/*/test/**/*.test.ts",
      "scripts/**/*.test.ts",
      "test/**/*.test.ts",
    ],
    exclude: ["**/node_modules/**", "**/var/**"],
    // Own processes, not threads: tests open SQLite files, start children and install signal handlers.
    pool: "forks",
    // As many as there are processors: many tests wait for children and sockets, and vitest's own choice leaves one of two idle.
    maxWorkers: availableParallelism(),
    testTimeout: 30_000,
    hookTimeout: 60_000,
    watch: false,
    reporters: [["default", { summary: false }], "./scripts/reporter.ts"],
  },
});
