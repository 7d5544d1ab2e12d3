// I37, seen from outside: no process of ours throws, spins, quarantines a unit or leaves the world unable to go on, whatever happens to it.

import type { Bench, Checker } from "./checker.ts";

export function soundness({ fail }: Bench): Checker {
  let saw = 0;
  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if (seen.kind === "process") saw++;
      if (seen.kind === "broken") fail(`${seen.name} at ${seen.process}: ${seen.message}`, [seen.process]);
    },
  };
}
