import { sampleGauge } from "@astraflow/engine/testing";
import { expect, it } from "vitest";
import type { EngineHostGauge } from "./engine-start.ts";
import { createEngineObserver, Readiness, stalledMs } from "./readiness.ts";

const gauge = (turns: number, isStoreUnavailable = false, storeWeakness: string | null = null): EngineHostGauge => ({
  ...sampleGauge({ turns }),
  isStoreUnavailable,
  storeDurabilityProblem: storeWeakness,
  isDiskFull: false,
  loopTimes: null,
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

it("[O115] a scheduler whose disk is full is not ready and names it, in one line of the log too, until there is room", () => {
  const readiness = new Readiness(() => 0);
  const lines: string[] = [];
  const note = (_data: unknown, message?: string) => void lines.push(message ?? "");
  let isDiskFull = false;
  const observe = createEngineObserver(
    { gauge: () => ({ ...gauge(1), isDiskFull }) },
    readiness,
    { warn: note, error: note },
    "astra.db",
  );

  observe();
  isDiskFull = true;
  for (let time = 0; time < 5; time++) observe();
  const full = readiness.notReadyReason();
  isDiskFull = false;
  observe();

  expect(full).toEqual({ code: "E.STORE.BUSY", reason: expect.stringContaining("the disk of the store is full") });
  expect(lines).toEqual(["store.full", "store.room"]);
  expect(readiness.notReadyReason()).toBeNull();
});
