import { sampleGauge } from "@astraflow/engine/testing";
import { expect, it } from "vitest";
import type { EngineHostGauge } from "./engine-start.ts";
import { Readiness, stalledMs } from "./readiness.ts";

const gauge = (turns: number, isStoreUnavailable = false, storeWeakness: string | null = null): EngineHostGauge => ({
  ...sampleGauge({ turns }),
  isStoreUnavailable,
  storeDurabilityProblem: storeWeakness,
});

it("[O9] a scheduler is ready once its engine has made a turn, and only while it keeps making turns", () => {
  let now = 0;
  const readiness = new Readiness(() => now);

  expect(readiness.notReadyReason()?.reason).toBe("the engine has not made a turn yet");
  readiness.update(gauge(1));
  expect(readiness.notReadyReason()).toBeNull();
  now += stalledMs + 1;
  readiness.update(gauge(1));
  expect(readiness.notReadyReason()).toEqual({ code: "E.STORE.BUSY", reason: "the engine has not made a turn for 5 s" });
  readiness.update(gauge(2));
  expect(readiness.notReadyReason()).toBeNull();
});

it("[O9] a scheduler that is shutting down is never ready again", () => {
  const readiness = new Readiness(() => 0);

  readiness.update(gauge(1));
  readiness.markStopping();
  readiness.update(gauge(2));

  expect(readiness.notReadyReason()).toEqual({ code: "E.SHUTTING_DOWN", reason: "the scheduler is shutting down" });
});

it("[O20] a scheduler is unready as soon as its store is unavailable, and ready again after the next turn", () => {
  const readiness = new Readiness(() => 0);
  readiness.update(gauge(7));

  readiness.update(gauge(7, true));
  expect(readiness.notReadyReason()).toEqual({
    code: "E.STORE.BUSY",
    reason: expect.stringContaining("the store is unavailable"),
  });
  readiness.update(gauge(8));

  expect(readiness.notReadyReason()).toBeNull();
});

it("[O29] a scheduler whose store is not durable is not ready, and reports it without the server's address", () => {
  const readiness = new Readiness(() => 0);

  readiness.update(gauge(7, false, "db:5432/astra now has synchronous_commit = off"));
  expect(readiness.notReadyReason()).toMatchObject({
    code: "E.STORE.DURABILITY",
    reason: expect.not.stringContaining("db:5432"),
  });
  readiness.update(gauge(8));

  expect(readiness.notReadyReason()).toBeNull();
});
