import { beforeAll, describe, expect, it } from "vitest";
import payloads from "../../fixtures/payloads.json" with { type: "json" };
import { Fault } from "../faults/fault.ts";
import { limits } from "../json/limits.ts";
import { readJson } from "../json/read-json.ts";
import { createSeededRandom, mutateText } from "../testing.ts";
import { readEnvelope } from "./envelope.ts";
import { compileFrameReaders, type FrameType, readFrame, toWireType } from "./frame-definitions.ts";

const mutations = 1_000_000;
const dialects = ["v2", "first", "v1"] as const;

// Most frames end as a fault, and nobody reads where it was made: recording 100 lines of stack for each took most of the time.
beforeAll(() => {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  return () => {
    Error.stackTraceLimit = stackTraceLimit;
  };
});

function samplesOf(dialect: keyof typeof payloads): string[] {
  return Object.entries(payloads[dialect]).map(([type, payload], index) =>
    JSON.stringify({
      type: toWireType(dialect, type as FrameType) ?? type,
      id: `${type}-${index}`,
      ts: "2026-01-05T09:00:00.000Z",
      tenant: "default",
      sender: { role: "worker", id: "w-1" },
      seq: index,
      ...(dialect === "first" && { session_seq: index + 1 }),
      corr: "r.0#7",
      ack: { request: true },
      payload,
    }),
  );
}

describe("mutated frames", () => {
  it("[C19] a million mutated frames of all dialects each end as a frame or a fault in every dialect's reader, without leaks or prototype pollution", () => {
    compileFrameReaders();
    const samples = dialects.flatMap(samplesOf);
    const random = createSeededRandom(118);
    const seen = { unreadable: 0, read: 0 };
    const seenBy = new Map(dialects.map((dialect) => [dialect, { frames: 0, noEnvelope: 0, noPayload: 0 }]));
    const play = (rounds: number): void => {
      for (let round = 0; round < rounds; round++) {
        const value = readJson(mutateText(samples[round % samples.length] as string, random), limits.json.frame);
        if (value instanceof Fault) {
          seen.unreadable++;
          continue;
        }
        seen.read++;
        for (const [dialect, counts] of seenBy) {
          const envelope = readEnvelope(value, dialect);
          if (envelope instanceof Fault) counts.noEnvelope++;
          else if (readFrame(dialect, envelope) instanceof Fault) counts.noPayload++;
          else counts.frames++;
        }
      }
    };
    play(mutations / 10);
    globalThis.gc?.();
    const before = process.memoryUsage().heapUsed;

    play((mutations * 9) / 10);

    globalThis.gc?.();
    // Without a collector to call, what has not been collected yet counts too: the bound is one of growth with the number of frames.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(200 * 1024 * 1024);
    expect(seen.unreadable + seen.read).toBe(mutations);
    for (const [dialect, counts] of seenBy) {
      expect([dialect, Object.values(counts).reduce((sum, one) => sum + one)]).toEqual([dialect, seen.read]);
      // Every way out was really taken: a corpus that never gets past the first reader would test nothing.
      expect([dialect, Math.min(...Object.values(counts)) > mutations / 1_000]).toEqual([dialect, true]);
    }
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  }, 3_600_000);
});
