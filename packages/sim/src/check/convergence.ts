// I39: when all faults have ended every run ends within the bound, and every call is answered. What hangs for ever is named here.

import type { Bench, Checker } from "./checker.ts";

/** A process that was just started may need this long before it answers. */
const startMs = 5_000;

export function convergence({ fail, lives, scene }: Bench): Checker {
  let saw = 0;

  const openRuns = (): string[] => {
    const open: string[] = [];
    for (const run of lives.runs.values())
      if (run.end === null) {
        const tasks = [...run.tasks.values()].filter((task) => task.end === null);
        const states = tasks.map(
          (task) => `${task.id} ${task.worker === null ? (task.isReady ? "ready" : "waiting") : `with ${task.worker}`}`,
        );
        open.push(`${run.id} (${states.join(", ") || "no open task"})`);
      }
    return open;
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if (seen.kind !== "phase" || seen.phase !== "converged" || seen.isInTime !== false) return;
      const open = openRuns();
      const ids = open.map((text) => text.slice(0, text.indexOf(" ")));
      fail(
        `the bound is over and these go on: ${open.slice(0, 5).join("; ") || "no run, but perhaps an order about a worker"}`,
        ids.slice(0, 5),
      );
    },
    exchange({ call, answer }) {
      if (call.at <= scene.healedAt + startMs) return;
      saw++;
      if (answer.status === 0)
        fail(`${call.route} of ${call.caller} on ${call.scheduler} was never answered in calm`, [call.scheduler]);
    },
    end() {
      saw += lives.runs.size;
      const [first] = openRuns();
      if (first !== undefined) fail(`at the end this goes on: ${first}`, [first.slice(0, first.indexOf(" "))]);
    },
  };
}
