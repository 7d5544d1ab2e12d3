import { checkWorkflow } from "@astraflow/graph";
import { readWorkflow, type Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { Dice } from "./dice.ts";
import { drawNested } from "./nested-draw.ts";
import { drawWorld } from "./plan.ts";

const options = { maxDeliveries: 5, mayKill: true, isTalkative: false, scale: 1, isQuiet: false };
const drawn = (count: number) => Array.from({ length: count }, (_, seed) => drawNested(new Dice(`nested ${seed}`), options));
const text = (workflows: readonly { readonly workflow: object }[]) => JSON.stringify(workflows);

describe("workflows of the whole grammar", () => {
  it("[X70] are valid, and equal dice draw equal ones", () => {
    const all = drawn(60);

    for (const { workflow } of all) {
      const read = readWorkflow(workflow);
      expect(read).not.toBeInstanceOf(Error);
      expect(checkWorkflow(read as Workflow)).toEqual([]);
    }
    expect(text(drawn(60))).toBe(text(all));
  });

  it("[X70] have chains that repeat and withhold, every kind of loop, retries, pins, keys and things that are kept", () => {
    const words = text(drawn(120));

    for (const word of [
      '"calls":0',
      '"calls":3',
      '"forEach"',
      '"while"',
      '"map"',
      '"sticky"',
      '"keeps":true',
      '"port":"kept"',
      '"timeoutSeconds"',
    ])
      expect(words).toContain(word);
    expect(drawn(120).some(({ pins }) => pins !== null)).toBe(true);
  });

  it("[X70] come with orders to steer, but for the fifth of the worlds that is left alone", () => {
    const worlds = Array.from({ length: 60 }, (_, seed) => drawWorld(seed + 1, "workflow"));
    const steered = worlds.flatMap(({ orders }) => orders.map(({ what }) => what));
    const alone = worlds.filter(({ faults }) => faults.length === 0);

    expect(new Set(steered)).toEqual(new Set(["start", "errand", "cancel", "skip", "retry", "rebind", "drain", "undrain"]));
    expect(alone.length).toBeGreaterThan(4);
    expect(alone.every(({ orders }) => orders.every(({ what }) => what === "start"))).toBe(true);
  });
});
