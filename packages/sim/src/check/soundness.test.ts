import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

describe("soundness", () => {
  it("[X35] finds a process that spins, throws or sets a unit aside", () => {
    expect(passed(new Script(), "soundness")).toBe(true);
    const script = new Script().add({ kind: "broken", name: "spin", process: "s1", message: "4000 turns without a pause" });
    expect(caught(script, "soundness")).toBe("spin at s1: 4000 turns without a pause");
  });
});
