// The one suite every store passes. A store brings a stage; nothing here knows which store it is.

import { describe, expect, it } from "vitest";
import { crowdCases } from "./cases-crowds.ts";
import { docCases } from "./cases-docs.ts";
import { lineCases } from "./cases-lines.ts";
import { logCases } from "./cases-log.ts";
import { pageCases } from "./cases-pages.ts";
import { relianceCases } from "./cases-reliance.ts";
import { rowCases } from "./cases-rows.ts";
import { runCases } from "./cases-runs.ts";
import { timeCases } from "./cases-time.ts";
import { turnCases } from "./cases-turns.ts";
import type { ContractCase, MakeStage } from "./stage.ts";

export const contractCases: readonly ContractCase[] = [
  ...rowCases,
  ...turnCases,
  ...relianceCases,
  ...lineCases,
  ...logCases,
  ...timeCases,
  ...pageCases,
  ...runCases,
  ...docCases,
  ...crowdCases,
];

const caseMsMax = 60_000;

export function storeContract(name: string, make: MakeStage): void {
  describe(`store contract on ${name}`, () => {
    for (const one of contractCases)
      it(`${one.title}`, { timeout: caseMsMax }, async () => {
        await expect(one.run(make)).resolves.toBeUndefined();
      });
  });
}
