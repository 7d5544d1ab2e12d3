import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

describe("soundness", () => {
  it("[X35] the soundness checker finds a process that is observed as broken, such as one that spins", () => {
    expect(passesChecker(new ObservationScript(), "soundness")).toBe(true);
    const script = new ObservationScript().observe({
      kind: "broken",
      name: "spin",
      process: "s1",
      message: "4000 turns without a pause",
    });
    expect(violationOf(script, "soundness")).toBe("spin at s1: 4000 turns without a pause");
  });
});
