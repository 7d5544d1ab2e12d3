// What other rooms' tests need of the engine: the planted bugs, and whole rows and numbers.
import { Driver, type Plant } from "./turn/driver.ts";
import type { Engine, Settings, World } from "./world.ts";

export { sampleGauge, sampleRun, sampleTask } from "./sample-rows.ts";
export type { Plant };

/** An engine with one known bug switched on; a suite that does not catch it is too weak. */
export function createPlantedEngine(world: World, settings: Settings, plant: Plant): Engine {
  return new Driver(world, settings, plant);
}
