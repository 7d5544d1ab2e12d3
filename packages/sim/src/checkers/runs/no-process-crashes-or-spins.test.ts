import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

describe("soundness", () => {
  it("[X35] finds a process that spins, throws or sets a unit aside", () => {
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
