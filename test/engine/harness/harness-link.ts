// The doors' link to the engine of a harness: refusals of the engine are thrown as faults.

import { createEngineClient, type EngineClient, faultFromData } from "@astraflow/services";
import { type EngineHarness, RefusedError } from "./engine-harness.ts";

export const createHarnessLink = (harness: EngineHarness): EngineClient => ({
  ...createEngineClient(() => undefined, { report: () => undefined }),
  request: (command) =>
    harness.ask(command).catch((problem: unknown) => {
      throw problem instanceof RefusedError ? faultFromData(problem.fault) : problem;
    }),
});
