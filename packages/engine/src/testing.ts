// What other rooms' tests need of the engine: the planted bugs.
import { Driver, type Plant } from "./turn/driver.ts";
import type { Engine, Settings, World } from "./world.ts";

export type { Plant };

/** An engine with one known bug switched on; a suite that does not catch it is too weak. */
export function createPlantedEngine(world: World, settings: Settings, plant: Plant): Engine {
  return new Driver(world, settings, plant);
}
