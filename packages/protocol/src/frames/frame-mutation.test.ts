import { beforeAll, describe, expect, it } from "vitest";
import payloads from "../../fixtures/payloads.json" with { type: "json" };
import { Fault } from "../faults/fault.ts";
import { limits } from "../json/limits.ts";
import { readJson } from "../json/read-json.ts";
import { createSeededRandom, mutateText } from "../testing.ts";
import { type Dialect, readEnvelope } from "./envelope.ts";
import { compileFrameReaders, type FrameType, readFrame, toWireType } from "./frame-definitions.ts";

const mutationsPerDialect = 1_000_000;

// Most frames end as a fault, and nobody reads where it was made: recording 100 lines of stack for each took most of the time.
beforeAll(() => {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  return () => {
    Error.stackTraceLimit = stackTraceLimit;
  };
});

function samplesOf(dialect: Dialect): string[] {
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
  it.each(["v2", "first", "v1"] as const)(
    "[C19] a million of them through the readers of %s end as a frame or a fault, and leave nothing behind",
    (dialect) => {
      compileFrameReaders();
      const samples = samplesOf(dialect);
      const random = createSeededRandom(dialect.length + dialect.charCodeAt(0));
      const seen = { frames: 0, unreadable: 0, noEnvelope: 0, noPayload: 0 };
      const play = (rounds: number): void => {
        for (let round = 0; round < rounds; round++) {
          const value = readJson(mutateText(samples[round % samples.length] as string, random), limits.json.frame);
          const envelope = value instanceof Fault ? null : readEnvelope(value, dialect);
          if (envelope === null) seen.unreadable++;
          else if (envelope instanceof Fault) seen.noEnvelope++;
          else if (readFrame(dialect, envelope) instanceof Fault) seen.noPayload++;
          else seen.frames++;
        }
      };
      play(mutationsPerDialect / 10);
      globalThis.gc?.();
      const before = process.memoryUsage().heapUsed;

      play((mutationsPerDialect * 9) / 10);

      globalThis.gc?.();
      // Without a collector to call, what has not been collected yet counts too: the bound is one of growth with the number of frames.
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(200 * 1024 * 1024);
      expect(Object.values(seen).reduce((sum, one) => sum + one)).toBe(mutationsPerDialect);
      // Every way out was really taken: a corpus that never gets past the first reader would test nothing.
      expect(Math.min(...Object.values(seen))).toBeGreaterThan(mutationsPerDialect / 1_000);
      expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    },
    3_600_000,
  );
});
