// For the tests of other packages: engines with known bugs, and complete sample rows.

import type { EngineSettings } from "./interface/settings.ts";
import type { Engine, World } from "./interface/world.ts";
import { type EngineMutant, TurnDriver } from "./turn/driver.ts";

export { sampleGauge, sampleRun, sampleTask, sampleWorker, withColumns } from "./testing/sample-rows.ts";
export type { EngineMutant as Plant };

/** An engine with one known bug switched on; a suite that does not catch it is too weak. */
export function createMutantEngine(world: World, settings: EngineSettings, mutant: EngineMutant): Engine {
  return new TurnDriver(world, settings, mutant);
}
