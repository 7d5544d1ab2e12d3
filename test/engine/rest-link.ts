// The doors' link to the engine of a harness: what the engine refuses, the doors hear as the fault it is.

import { createLink, faultOf, type Link } from "@astraflow/doors";
import { type Harness, Refused } from "./harness.ts";

export const linkTo = (world: Harness): Link => ({
  ...createLink(() => undefined, { report: () => undefined }),
  ask: (command) =>
    world.ask(command).catch((problem: unknown) => {
      throw problem instanceof Refused ? faultOf(problem.fault) : problem;
    }),
});
