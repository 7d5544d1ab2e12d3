// `npm run bench -- chain`: the cost of workflows. Short steps one after the other beside session round trips; 10,000 parallel tasks as nodes and as a map;
// pages of the run list with 1,000,000 runs beside 1,000. Each part is a file of its own.

import { loadAverage } from "../harness/child-programs.ts";
import { chainLatencyBench } from "./chain-latency-bench.ts";
import { fanOutBench } from "./fan-out-bench.ts";
import { runListBench } from "./run-list-bench.ts";

const benchParts: Record<string, (argv: readonly string[]) => Promise<void>> = {
  steps: chainLatencyBench,
  fan: fanOutBench,
  list: runListBench,
};

export async function workflowBench(argv: readonly string[]): Promise<void> {
  const at = argv.indexOf("--part");
  const asked = at < 0 ? Object.keys(benchParts) : Object.keys(benchParts).filter((part) => part === argv[at + 1]);
  if (asked.length === 0) throw new Error(`--part takes one of ${Object.keys(benchParts).join(", ")}`);
  console.log(`chain bench: ${asked.join(", ")}; node ${process.version}, load ${loadAverage()}`);
  for (const part of asked) await benchParts[part]?.(argv);
  console.log(`load average at the end ${loadAverage()}`);
}
