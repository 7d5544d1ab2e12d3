import { describe, expect, it } from "vitest";
import {
  conditionBytesMax,
  formerBootsAtJoin,
  readCondition,
  readVitals,
  type WorkerCondition,
  writeCondition,
} from "./worker-condition.ts";

const full: WorkerCondition = {
  healthy: false,
  strain: "memory disk",
  saturatedAt: 12,
  vitals: { metrics: { cpu_pct: 3.5 } },
  beatAt: 11,
  session: "s",
  formerBoots: ["b2", "b1"],
  clones: ["b1"],
};

describe("a worker's condition", () => {
  it("[B33] a worker's condition is read back as it was written", () => {
    expect(readCondition(writeCondition(full))).toEqual(full);
  });

  it("[B33] a worker's condition from an older version's row, or one that cannot be read, has only default values", () => {
    const nothing = {
      healthy: true,
      strain: null,
      saturatedAt: null,
      vitals: null,
      beatAt: null,
      session: null,
      formerBoots: [],
      clones: [],
    };

    for (const text of ["{}", "", "[]", "null", "{ no json", '{"strain":4,"vitals":[],"formerBoots":"b","beatAt":"x"}'])
      expect(readCondition(text)).toEqual(nothing);
  });

  it("[B33] a worker's condition never exceeds its size limit: vitals are dropped first, then the oldest boots, and the session stays", () => {
    const talkative = { ...full, vitals: { text: "ü".repeat(conditionBytesMax) } };
    const named = { ...full, formerBoots: ["new", "x".repeat(conditionBytesMax)] };

    for (const one of [talkative, named]) expect(Buffer.byteLength(writeCondition(one))).toBeLessThanOrEqual(conditionBytesMax);
    expect(readCondition(writeCondition(talkative))).toMatchObject({ vitals: null, formerBoots: ["b2", "b1"], session: "s" });
    expect(readCondition(writeCondition(named))).toMatchObject({ formerBoots: ["new"], session: "s" });
  });

  it("[B82] a worker's condition keeps all commands that await an answer and the clones already reported, whatever the size of its vitals", () => {
    const orders = Array.from({ length: 32 }, (_, at) => ({
      id: `c-${at}`,
      order: { type: "pkg.install" as const, name: `p-${at}`, version: "1.0.0", sha256: "0".repeat(30) },
    }));
    expect(Buffer.byteLength(JSON.stringify(orders))).toBeGreaterThan(3.5 * 1024);
    const busy = { ...full, orders, vitals: { text: "v".repeat(conditionBytesMax) } };

    expect(readCondition(writeCondition(busy))).toEqual({ ...busy, vitals: null });
  });

  it("[B33] a worker's vitals are read only from the JSON text of an object", () => {
    expect(readVitals('{"a":1}')).toEqual({ a: 1 });
    for (const text of ["[1]", "1", "nonsense"]) expect(readVitals(text)).toBeNull();
  });

  it("[B35] a worker's condition keeps the last four boots before the present one, each once", () => {
    let known = readCondition("{}");
    for (const [former, boot] of [
      ["b1", "b2"],
      ["b2", "b3"],
      ["b3", "b1"],
      ["b1", "b4"],
      ["b4", "b5"],
      ["b5", "b6"],
    ] as const)
      known = { ...known, formerBoots: formerBootsAtJoin(known, former, boot) };

    expect(known.formerBoots).toEqual(["b5", "b4", "b1", "b3"]);
    expect(formerBootsAtJoin(known, null, "b6")).toEqual(known.formerBoots);
  });
});
