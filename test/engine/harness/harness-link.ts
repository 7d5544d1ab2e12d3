// The doors' link to the engine of a harness: refusals of the engine are thrown as faults.

import type { Command } from "@astraflow/engine";
import { EngineClient, faultFromData } from "@astraflow/services";
import { type EngineHarness, RefusedError } from "./engine-harness.ts";

export const createHarnessLink = (harness: EngineHarness): EngineClient =>
  Object.assign(new EngineClient(() => undefined, { report: () => undefined }), {
    request: (command: Command) =>
      harness.ask(command).catch((problem: unknown) => {
        throw problem instanceof RefusedError ? faultFromData(problem.fault) : problem;
      }),
  });
