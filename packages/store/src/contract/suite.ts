// The one suite every store passes. A store brings a stage; nothing here knows which store it is.

import { describe, expect, it } from "vitest";
import { concurrencyCases } from "./cases-crowds.ts";
import { documentCases } from "./cases-docs.ts";
import { taskQueueCases } from "./cases-lines.ts";
import { logCases } from "./cases-log.ts";
import { pageCases } from "./cases-pages.ts";
import { workerRelianceCases } from "./cases-reliance.ts";
import { rowCases } from "./cases-rows.ts";
import { runCases } from "./cases-runs.ts";
import { timeCases } from "./cases-time.ts";
import { turnCases } from "./cases-turns.ts";
import type { ContractCase, MakeStoreFixture } from "./stage.ts";

export const contractCases: readonly ContractCase[] = [
  ...rowCases,
  ...turnCases,
  ...workerRelianceCases,
  ...taskQueueCases,
  ...logCases,
  ...timeCases,
  ...pageCases,
  ...runCases,
  ...documentCases,
  ...concurrencyCases,
];

const caseMsMax = 60_000;

export function describeStoreContract(name: string, createFixture: MakeStoreFixture): void {
  describe(`store contract on ${name}`, () => {
    for (const one of contractCases)
      it(`${one.title}`, { timeout: caseMsMax }, async () => {
        await expect(one.run(createFixture)).resolves.toBeUndefined();
      });
  });
}
