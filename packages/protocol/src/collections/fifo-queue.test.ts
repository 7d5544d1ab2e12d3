import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FifoQueue } from "./fifo-queue.ts";

type Action = "push" | "shift" | "front" | "drain";

/** Does the same to the queue and to a plain list; what each gave back, and the list afterwards. */
function play(queue: FifoQueue<number>, model: readonly number[], action: Action, fresh: readonly number[]) {
  switch (action) {
    case "push":
      for (const item of fresh) queue.push(item);
      return { given: [], expected: [], rest: [...model, ...fresh] };
    case "front":
      queue.putInFront(fresh);
      return { given: [], expected: [], rest: [...fresh, ...model] };
    case "drain":
      return { given: queue.drain(), expected: [...model], rest: [] };
    case "shift":
      return {
        given: fresh.map(() => queue.shift()),
        expected: fresh.map((_, at) => model[at]),
        rest: model.slice(fresh.length),
      };
  }
}

describe("a queue that stays cheap however long it grows", () => {
  it("[C29] the FIFO queue returns its items in order, oldest first, under any sequence of operations", () => {
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
          const { given, expected, rest } = play(queue, model, action, fresh);
          model = rest;

          expect(given).toEqual(expected);
          expect([queue.size, queue.peek(), queue.at(1)]).toEqual([model.length, model[0], model[1]]);
        }
      }),
      { numRuns: 50 },
    );
  });
});
