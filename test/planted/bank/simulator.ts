/** The simulator's checkers: a violation that one of them no longer reports. */
import type { PlantedBug } from "../planted-bug.ts";
import { checkerTests } from "./test-folders.ts";

const checkers = "packages/sim/src/checkers";
const eligibility = `${checkers}/tasks/grants-go-to-eligible-workers.ts`;

export const simulatorBugs: readonly PlantedBug[] = [
  {
    id: "grant-to-a-foreign-worker-unseen",
    rule: "X34",
    file: eligibility,
    find: "if (now === undefined || !worker.startsWith(`${tenant}/`))",
    replace: "if (now === undefined)",
    tests: checkerTests,
  },
  {
    id: "grant-without-the-version-unseen",
    rule: "X34",
    file: eligibility,
    find: "if (name !== spec.packageName || version !== spec.packageVersion)",
    replace: "if (name !== spec.packageName)",
    tests: checkerTests,
  },
  {
    id: "grant-without-the-package-unseen",
    rule: "X34",
    file: eligibility,
    find: "if (name !== spec.packageName || version !== spec.packageVersion)",
    replace: "if (version !== spec.packageVersion)",
    tests: checkerTests,
  },
];
