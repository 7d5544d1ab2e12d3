// Six chains on a stand-in with two slots: what a worker of either older generation must do alike. Asserts, and no test of its own.

import { writeFileSync } from "node:fs";
import { expect } from "vitest";
import { readJournals } from "../../../bench/ledger-work.ts";
import type { Api } from "../installation.ts";
import { countStarts, gatedChain, makeGate, mostAtOnce, type StandIn } from "./stand-in.ts";

/** All six end with their values, each node was started once, and never more than two at a time. */
export async function expectSixOnTwoSlots(api: Api, worker: StandIn): Promise<void> {
  const gate = makeGate();
  const refs = await Promise.all([..."abcdef"].map((text) => api.start(gatedChain(gate, text), text)));
  await worker.heard("started", 2);
  writeFileSync(gate, "");
  const runs = await Promise.all(refs.map(({ runId }) => api.ended(runId)));

  expect(runs.map(({ status, nodes }) => [status, nodes?.at(-1)?.result])).toEqual(
    [..."ABCDEF"].map((text) => ["succeeded", { text }]),
  );
  expect(countStarts(worker.folder)).toEqual(Array(12).fill(1));
  expect(mostAtOnce(readJournals(worker.folder))).toBe(2);
}
