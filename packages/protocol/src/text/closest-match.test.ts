import { describe, expect, it } from "vitest";
import { closestMatch, didYouMean } from "./closest-match.ts";

describe("the closest of some known words", () => {
  it("[C17] a word is suggested up to two changed letters away, and of a long word up to a quarter of its letters", () => {
    expect(didYouMean("maxAttxxpts", ["maxAttempts"])).toBe("; did you mean maxAttempts?");
    expect(didYouMean("maxAtxxxpts", ["maxAttempts"])).toBe("");
    expect(didYouMean("maxAttemptsPxxxun", ["maxAttemptsPerRun"])).toBe("; did you mean maxAttemptsPerRun?");
    expect(didYouMean("maxAttemptxxxxxun", ["maxAttemptsPerRun"])).toBe("");
  });

  it("[C17] a word of two letters is suggested only where one of them is right", () => {
    expect(didYouMean("od", ["id"])).toBe("; did you mean id?");
    expect(didYouMean("no", ["id"])).toBe("");
  });

  it("[C17] the closest of several words is found whatever their order and letter case, the first of equally close ones", () => {
    const fields = ["timeout", "timeoutMs", "timeoutS"];

    expect(closestMatch("TIMEOUTMS", fields)).toBe("timeoutMs");
    expect(closestMatch("TIMEOUTMS", fields.toReversed())).toBe("timeoutMs");
    expect(closestMatch("timeoutXs", ["timeoutAs", "timeoutBs"])).toBe("timeoutAs");
    expect(closestMatch("retry", fields)).toBeNull();
  });
});
