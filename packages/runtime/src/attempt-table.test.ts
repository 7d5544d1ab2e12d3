// What the table names as held, attempt by attempt. Sessions that report it are in link.test.ts and work.test.ts.
import type { DispatchPayload } from "@astraflow/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Attempt } from "./attempt.ts";
import { AttemptTable } from "./attempt-table.ts";

const dispatch = (task: string, fence: number): DispatchPayload => ({
  run_id: "r",
  task_id: task,
  node_id: "n",
  node_type: "demo.x",
  package_name: "demo",
  package_version: "1.0.0",
  fence,
  parameters: {},
  constraints: {},
});

describe("the inventory", () => {
  it("[W3] names what waits for a slot, what runs and what is finished and not acked, and nothing that was dropped", () => {
    const table = new AttemptTable({ slotsMax: 1, slotWaitMs: 1_000, fencesMax: 100 });
    const running = table.offer(dispatch("runs", 1), 0);
    const waiting = table.offer(dispatch("waits", 2), 0);
    if (running.verdict !== "start" || waiting.verdict !== "wait") throw new Error("the table has other ideas");

    expect(table.held()).toEqual([
      { task_id: "runs", fence: 1 },
      { task_id: "waits", fence: 2 },
    ]);
    table.finish(running.attempt);
    expect(table.held()).toHaveLength(2);
    table.drop(waiting.attempt);
    table.release(running.attempt);
    expect(table.held()).toEqual([]);
  });
});

/** What may befall a table: a dispatch, a call into a chain, its answer, the end of a handler, a cancel; each of one of five tasks. */
const happenings = fc.array(
  fc.record({ what: fc.constantFrom("offer", "rest", "wake", "settle", "drop"), at: fc.integer({ min: 0, max: 4 }) }),
  { maxLength: 60 },
);

it("[W152] whatever waits, wakes, ends and is dropped: a handler starts only where a slot is free, and in the end all slots are", () => {
  fc.assert(
    fc.property(happenings, fc.integer({ min: 1, max: 3 }), (all, slotsMax) => {
      const table = new AttemptTable({ slotsMax, slotWaitMs: 1_000, fencesMax: 100 });
      const out = new Set<Attempt>();
      const active = () => [...out].filter(({ calls }) => calls === 0).length;
      const start = (attempts: readonly Attempt[]) => {
        for (const attempt of attempts) {
          out.add(attempt);
          expect(active()).toBeLessThanOrEqual(slotsMax);
        }
      };
      let fence = 0;
      for (const { what, at } of all) {
        const one = [...out][at];
        if (what === "offer") {
          const offer = table.offer(dispatch(`t${at}`, ++fence), 0);
          if (offer.verdict === "start") start([offer.attempt]);
        } else if (one === undefined) continue;
        else if (what === "rest") start(table.rest(one));
        else if (what === "wake") table.wake(one);
        else if (what === "drop") table.drop(one);
        else {
          out.delete(one);
          start(table.settle(one));
        }
      }
      for (const one of out) {
        out.delete(one);
        for (const next of table.settle(one)) out.add(next);
      }

      expect(table.occupied).toBe(0);
      for (let n = 0; n < slotsMax; n++) expect(table.offer(dispatch(`last${n}`, ++fence), 0).verdict).toBe("start");
      expect(table.offer(dispatch("more", ++fence), 0).verdict).toBe("wait");
    }),
  );
});
