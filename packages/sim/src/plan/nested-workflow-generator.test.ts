import { checkWorkflow } from "@astraflow/graph";
import { readWorkflow, type Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../kernel/seeded-random.ts";
import { generateNestedWorkflow } from "./nested-workflow-generator.ts";
import { generateWorldPlan } from "./world-plan.ts";

const options = { maxDeliveries: 5, mayKillProcess: true, hasMuchFeedback: false, scale: 1, isTimeIndependent: false };
const generateMany = (count: number) =>
  Array.from({ length: count }, (_, seed) => generateNestedWorkflow(new SeededRandom(`nested ${seed}`), options));
const toText = (workflows: readonly { readonly workflow: object }[]) => JSON.stringify(workflows);

describe("workflows of the whole grammar", () => {
  it("[X70] generated nested workflows are valid, and equal seeds generate equal ones", () => {
    const all = generateMany(60);

    for (const { workflow } of all) {
      const read = readWorkflow(workflow);
      expect(read).not.toBeInstanceOf(Error);
      expect(checkWorkflow(read as Workflow)).toEqual([]);
    }
    expect(toText(generateMany(60))).toBe(toText(all));
  });

  it("[X70] generated nested workflows have repeated and withheld calls, every kind of loop, timeouts, pins, sticky keys and kept resources", () => {
    const words = toText(generateMany(120));

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
    expect(generateMany(120).some(({ pins }) => pins !== null)).toBe(true);
  });

  it("[X70] workflow-profile plans contain steering commands, except the plans without faults, which only start runs", () => {
    const worlds = Array.from({ length: 60 }, (_, seed) => generateWorldPlan(seed + 1, "workflow"));
    const steered = worlds.flatMap(({ plannedCalls: calls }) => calls.map(({ what }) => what));
    const alone = worlds.filter(({ faults }) => faults.length === 0);

    expect(new Set(steered)).toEqual(new Set(["start", "errand", "cancel", "skip", "retry", "rebind", "drain", "undrain"]));
    expect(alone.length).toBeGreaterThan(4);
    expect(alone.every(({ plannedCalls: calls }) => calls.every(({ what }) => what === "start"))).toBe(true);
  });
});
