import { describe, expect, it } from "vitest";
import { dialectRules, resendDelayMs } from "./dialect-rules.ts";

const plainDelays = (dialect: "v1" | "first" | "v2") =>
  [1, 2, 3, 4, 5, 6].map((sends) => resendDelayMs(dialectRules[dialect].resend, sends, 0.5));

describe("the policy of repeats", () => {
  it("[N18] the resend policy waits five seconds first in v2 and in the first generation, doubling up to half a minute", () => {
    expect(plainDelays("v2")).toEqual([5_000, 10_000, 20_000, 30_000, 30_000, 30_000]);
    expect(plainDelays("first")).toEqual(plainDelays("v2"));
  });

  it("[N18] the resend policy waits 200 ms first in v1, doubling up to five seconds", () => {
    expect(plainDelays("v1")).toEqual([200, 400, 800, 1_600, 3_200, 5_000]);
  });

  it("[N18] the resend policy spreads a delay by a fifth to either side", () => {
    const { resend: retry } = dialectRules.v2;

    expect([0, 0.25, 0.5, 1].map((roll) => resendDelayMs(retry, 2, roll))).toEqual([8_000, 9_000, 10_000, 12_000]);
  });
});
