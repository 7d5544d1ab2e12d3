// Six chains on a stand-in with two slots: behaviour that workers of both older generations share. Assertions only, no test of its own.

import { writeFileSync } from "node:fs";
import { expect } from "vitest";
import { readJournals } from "../../../bench/crash-test/jobs.ts";
import type { SchedulerApi } from "../harness/installation.ts";
import { countStarts, gatedChainWorkflow, makeGatePath, maxConcurrent, type StandIn } from "./stand-in.ts";

/** All six end with their values, each node was started once, and never more than two at a time. */
export async function expectSixChainsOnTwoSlots(api: SchedulerApi, worker: StandIn, startedBefore = 0): Promise<void> {
  const gate = makeGatePath();
  const refs = await Promise.all([..."abcdef"].map((text) => api.startRun(gatedChainWorkflow(gate, text), text)));
  await worker.waitForLine("started", startedBefore + 2);
  writeFileSync(gate, "");
  const runs = await Promise.all(refs.map(({ runId }) => api.waitForRunEnd(runId)));

  expect(runs.map(({ status, nodes }) => [status, nodes?.at(-1)?.result])).toEqual(
    [..."ABCDEF"].map((text) => ["succeeded", { text }]),
  );
  expect(countStarts(worker.folder)).toEqual(Array(startedBefore + 12).fill(1));
  expect(maxConcurrent(readJournals(worker.folder))).toBe(2);
}
