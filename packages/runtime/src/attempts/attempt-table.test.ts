// What the table names as held, attempt by attempt. Sessions that report it are in link.test.ts and work-frames.test.ts.
import type { DispatchPayload } from "@astraflow/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LocalAttempt } from "./attempt.ts";
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
  it("[W3] the attempt table lists as held what waits for a slot, runs, or is finished and unacked, and nothing that was dropped", () => {
    const table = new AttemptTable({ slotsMax: 1, slotWaitMs: 1_000, rememberedFencesMax: 100 });
    const running = table.admitDispatch(dispatch("runs", 1), 0);
    const waiting = table.admitDispatch(dispatch("waits", 2), 0);
    if (running.verdict !== "start" || waiting.verdict !== "wait") throw new Error("the table has other ideas");

    expect(table.heldAttempts()).toEqual([
      { task_id: "runs", fence: 1 },
      { task_id: "waits", fence: 2 },
    ]);
    table.markFinished(running.attempt);
    expect(table.heldAttempts()).toHaveLength(2);
    table.discardAttempt(waiting.attempt);
    table.removeAttempt(running.attempt);
    expect(table.heldAttempts()).toEqual([]);
  });
});

describe("slots", () => {
  const createTable = () => new AttemptTable({ slotsMax: 1, slotWaitMs: 1_000, rememberedFencesMax: 100 });
  const admit = (table: AttemptTable, task: string): LocalAttempt => {
    const decision = table.admitDispatch(dispatch(task, 1), 0);
    if (decision.verdict !== "start" && decision.verdict !== "wait") throw new Error(`${task} is ${decision.verdict}`);
    return decision.attempt;
  };

  it("[W15] an attempt that was dropped while it waited for a slot makes room for another one", () => {
    const table = createTable();
    admit(table, "runs");
    const waiting = admit(table, "waits");
    expect(table.admitDispatch(dispatch("more", 1), 0).verdict).toBe("full");

    table.discardAttempt(waiting);

    expect(table.admitDispatch(dispatch("next", 1), 0).verdict).toBe("wait");
  });

  it("[W152] an attempt that waits for several calls gives its one slot away once", () => {
    const table = createTable();
    const caller = admit(table, "caller");
    const second = admit(table, "second");
    expect(table.suspendAttempt(caller)).toEqual([second]);
    const third = admit(table, "third");

    expect(table.suspendAttempt(caller)).toEqual([]);
    expect(third.phase).toBe("waiting");
  });
});

/** What may happen to a table: a dispatch, a call into a chain, its answer, the end of a handler, a cancel; each of one of five tasks. */
const happenings = fc.array(
  fc.record({ what: fc.constantFrom("offer", "rest", "wake", "settle", "drop"), at: fc.integer({ min: 0, max: 4 }) }),
  { maxLength: 60 },
);

it("[W152] the attempt table starts a handler only in a free slot, whatever waits, resumes, ends or is dropped, and ends with all slots free", () => {
  fc.assert(
    fc.property(happenings, fc.integer({ min: 1, max: 3 }), (all, slotsMax) => {
      const table = new AttemptTable({ slotsMax, slotWaitMs: 1_000, rememberedFencesMax: 100 });
      const out = new Set<LocalAttempt>();
      const active = () => [...out].filter(({ pendingCalls: calls }) => calls === 0).length;
      const start = (attempts: readonly LocalAttempt[]) => {
        for (const attempt of attempts) {
          out.add(attempt);
          expect(active()).toBeLessThanOrEqual(slotsMax);
        }
      };
      let fence = 0;
      for (const { what, at } of all) {
        const one = [...out][at];
        if (what === "offer") {
          const offer = table.admitDispatch(dispatch(`t${at}`, ++fence), 0);
          if (offer.verdict === "start") start([offer.attempt]);
        } else if (one === undefined) continue;
        else if (what === "rest") start(table.suspendAttempt(one));
        else if (what === "wake") table.resumeAttempt(one);
        else if (what === "drop") table.discardAttempt(one);
        else {
          out.delete(one);
          start(table.releaseSlot(one));
        }
      }
      for (const one of out) {
        out.delete(one);
        for (const next of table.releaseSlot(one)) out.add(next);
      }

      expect(table.occupiedSlots).toBe(0);
      for (let n = 0; n < slotsMax; n++) expect(table.admitDispatch(dispatch(`last${n}`, ++fence), 0).verdict).toBe("start");
      expect(table.admitDispatch(dispatch("more", ++fence), 0).verdict).toBe("wait");
    }),
  );
});
