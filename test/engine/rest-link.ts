// The doors' link to the engine of a harness: what the engine refuses, the doors hear as the fault it is.

import { createEngineClient, type EngineClient, faultFromData } from "@astraflow/doors";
import { type Harness, Refused } from "./harness.ts";

export const linkTo = (world: Harness): EngineClient => ({
  ...createEngineClient(() => undefined, { report: () => undefined }),
  request: (command) =>
    world.ask(command).catch((problem: unknown) => {
      throw problem instanceof Refused ? faultFromData(problem.fault) : problem;
    }),
});
