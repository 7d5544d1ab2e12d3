// The one suite every store passes. A store brings a stage; nothing here knows which store it is.

import { describe, expect, it } from "vitest";
import { concurrencyCases } from "./cases/concurrency.ts";
import { documentCases } from "./cases/documents.ts";
import { logCases } from "./cases/log.ts";
import { pageCases } from "./cases/pages.ts";
import { removalCases } from "./cases/removal.ts";
import { rowCases } from "./cases/rows.ts";
import { runCases } from "./cases/run-pages.ts";
import { taskQueueCases } from "./cases/task-queues.ts";
import { timeCases } from "./cases/time-and-deadlines.ts";
import { turnCases } from "./cases/turns.ts";
import { workerRelianceCases } from "./cases/worker-reliance.ts";
import type { ContractCase, MakeStoreFixture } from "./fixtures/store-fixture.ts";

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
  ...removalCases,
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
