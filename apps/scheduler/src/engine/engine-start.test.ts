import { defaultSettings, type Effect } from "@astraflow/engine";
import { expect, it } from "vitest";
import { createScaledClock } from "../platform/scaled-clock.ts";
import { startEngine, toRealTimeEffect } from "./engine-start.ts";

it("[O7] leases, heartbeats and time limits are sent to a worker in real time, not in scaled time", () => {
  const clock = createScaledClock(10);
  const join: Effect = {
    type: "answer",
    ref: 1,
    fault: null,
    body: { of: "join", epoch: 1, leaseMs: 30_000, heartbeatMs: 10_000, drainMemPct: 90, drainDiskPct: 95, draining: false },
  };
  const dispatch = (timeoutMs: number | null): Effect => ({
    type: "dispatch",
    session: "s",
    worker: "default/w",
    tenant: "default",
    dispatch: {
      id: "r.0#1",
      run: "r",
      task: "r.0",
      node: "n",
      nodeType: "demo.noop",
      packageName: "demo",
      packageVersion: "1.0.0",
      params: "{}",
      fence: 1,
      attempt: 1,
      timeoutMs,
      concurrencyKey: "k",
      priority: 5,
    },
  });

  expect(toRealTimeEffect(join, clock)).toMatchObject({ body: { leaseMs: 3_000, heartbeatMs: 1_000 } });
  expect(toRealTimeEffect(dispatch(500), clock)).toMatchObject({ dispatch: { timeoutMs: 50 } });
  expect(toRealTimeEffect(dispatch(null), clock)).toMatchObject({ dispatch: { timeoutMs: null } });
});

it("[O2] the engine refuses to start with a lease too short for its heartbeat", async () => {
  const listeners = { onEffects: () => undefined, onProblem: () => undefined, onReplaced: () => undefined };
  const asked = startEngine(
    {
      store: { of: "sqlite", file: "/nowhere/at/all.db" },
      cluster: "c",
      replica: "r",
      thresholds: { ...defaultSettings, leaseMs: 1_000, heartbeatMs: 1_000 },
      tenants: {},
      ackDeadlineMs: 5_000,
      attemptLimits: { attemptTimeoutMs: null, silentGraceMs: 60_000, unstoppedSlotMs: 3_600_000 },
      turnsInFlight: 1,
      timeScale: 1,
      failpoints: [],
    },
    listeners,
    null,
  );

  await expect(asked).rejects.toMatchObject({ code: "E.CONFIG.INVALID", message: expect.stringContaining("lease") });
});
