import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FifoQueue } from "./fifo-queue.ts";

describe("a queue that stays cheap however long it grows", () => {
  it("[C29] gives back what was put in, oldest first, whatever is done in between", () => {
    const step = fc.oneof(
      fc.record({ action: fc.constant("push" as const), count: fc.integer({ min: 1, max: 1_500 }) }),
      fc.record({ action: fc.constant("shift" as const), count: fc.integer({ min: 1, max: 1_500 }) }),
      fc.record({ action: fc.constantFrom("front" as const, "drain" as const), count: fc.integer({ min: 0, max: 3 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const queue = new FifoQueue<number>();
        let model: number[] = [];
        let next = 0;
        for (const { action, count } of steps) {
          const fresh = Array.from({ length: count }, () => next++);
          if (action === "push") {
            for (const item of fresh) queue.push(item);
            model.push(...fresh);
          } else if (action === "front") {
            queue.putInFront(fresh);
            model = [...fresh, ...model];
          } else if (action === "drain") {
            expect(queue.drain()).toEqual(model);
            model = [];
          } else for (let at = 0; at < count; at++) expect(queue.shift()).toBe(model.shift());
          expect([queue.size, queue.peek(), queue.at(1)]).toEqual([model.length, model[0], model[1]]);
        }
      }),
      { numRuns: 50 },
    );
  });
});
