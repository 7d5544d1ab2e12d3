import { describe, expect, it } from "vitest";
import { Incoming } from "./incoming.ts";

describe("incoming numbers", () => {
  it("[D9] take the next number once, call an older one a repeat and a later one a gap", () => {
    const incoming = new Incoming(4);

    expect([0, 1, 0, 1, 3, 2].map((seq) => incoming.arrive(seq))).toEqual(["next", "next", "repeat", "repeat", "gap", "next"]);
  });

  it("[D9] allow as many unacknowledged frames as the window has", () => {
    const incoming = new Incoming(2);

    expect([0, 1, 2].map((seq) => incoming.arrive(seq))).toEqual(["next", "next", "full"]);
    incoming.settle(0);
    expect(incoming.arrive(2)).toBe("next");
  });

  it("[D7] acknowledge the contiguous part by number and the rest by bits, exactly, also beyond 53", () => {
    const incoming = new Incoming(100);
    for (let seq = 0; seq < 100; seq += 1) incoming.arrive(seq);

    expect([incoming.ackSeq, incoming.bitmapText()]).toEqual([-1, "0"]);
    incoming.settle(2);
    expect([incoming.ackSeq, incoming.bitmapText()]).toEqual([-1, "4"]);
    incoming.settle(0);
    expect([incoming.ackSeq, incoming.bitmapText()]).toEqual([0, "2"]);
    incoming.settle(1);
    expect([incoming.ackSeq, incoming.bitmapText()]).toEqual([2, "0"]);
    incoming.settle(99);
    expect([incoming.ackSeq, incoming.bitmapText()]).toEqual([2, `"${(1n << 96n).toString(16)}"`]);
  });
});
