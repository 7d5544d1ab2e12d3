import { describe, expect, it } from "vitest";
import { computeBackoffMs, type LinkPhase, type LinkTransition, linkTransitions, nextPhase } from "./link-phase.ts";

const phases = Object.keys(linkTransitions) as LinkPhase[];
const moves: LinkTransition[] = [
  "open",
  "welcome",
  "accept",
  "resume",
  "resumeDraining",
  "drain",
  "undrain",
  "lose",
  "retry",
  "stop",
];

describe("phases of the link", () => {
  it("[W1] the link moves from NEW to READY by open, welcome and accept alone", () => {
    const walk = (["open", "welcome", "accept"] as const).reduce<LinkPhase>(
      (phase, move) => nextPhase(phase, move) ?? "CLOSED",
      "NEW",
    );

    expect(walk).toBe("READY");
  });

  it("[W1] the link makes exactly the phase transitions of the table, from every phase", () => {
    const made = phases.flatMap((phase) =>
      moves.flatMap((move) => nextPhase(phase, move) ?? []).map((next) => `${phase}>${next}`),
    );

    expect(new Set(made)).toEqual(
      new Set([
        "NEW>HANDSHAKING",
        "NEW>BACKOFF",
        "NEW>CLOSED",
        "HANDSHAKING>REGISTERED",
        "HANDSHAKING>READY",
        "HANDSHAKING>DRAINING",
        "HANDSHAKING>BACKOFF",
        "HANDSHAKING>CLOSED",
        "REGISTERED>READY",
        "REGISTERED>BACKOFF",
        "REGISTERED>CLOSED",
        "READY>DRAINING",
        "READY>BACKOFF",
        "READY>CLOSED",
        "DRAINING>READY",
        "DRAINING>BACKOFF",
        "DRAINING>CLOSED",
        "BACKOFF>NEW",
        "BACKOFF>CLOSED",
      ]),
    );
  });

  it("[W7] the link's backoff is zero, then a second that doubles up to thirty, give or take a fifth", () => {
    const settings = { baseMs: 1_000, maxMs: 30_000, jitter: 0.2 };

    expect([0, 1, 2, 3, 4, 5, 6, 60].map((failures) => computeBackoffMs(settings, failures, 0.5))).toEqual([
      0, 1_000, 2_000, 4_000, 8_000, 16_000, 25_000, 25_000,
    ]);
    expect(computeBackoffMs(settings, 1, 0)).toBe(800);
    expect(computeBackoffMs(settings, 60, 0)).toBeCloseTo(20_000);
    expect(computeBackoffMs(settings, 60, 1)).toBeCloseTo(30_000);
  });
});
