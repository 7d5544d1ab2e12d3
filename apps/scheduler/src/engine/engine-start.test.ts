import { type CommandRequest, defaultSettings, type Effect } from "@astraflow/engine";
import { expect, it } from "vitest";
import { createScaledClock } from "../platform/scaled-clock.ts";
import { nameFullDisk, refuseWhileDiskIsFull, startEngine, toRealTimeEffect } from "./engine-start.ts";

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

it("[O115] while the disk is full, requests of callers are refused at once with its name, and reports of workers are passed on", () => {
  const cancel: CommandRequest = { ref: 1, command: { type: "run.cancel", tenant: "t", by: "b", run: "r", reason: "" } };
  const ack = { ref: 2, command: { type: "worker.leave", tenant: "t" } } as unknown as CommandRequest;

  const { refused, passed } = refuseWhileDiskIsFull([cancel, ack]);

  expect(refused).toEqual([
    {
      type: "answer",
      ref: 1,
      body: null,
      fault: expect.objectContaining({ code: "E.STORE.BUSY", message: expect.stringMatching(/^the disk .* is full/) }),
    },
  ]);
  expect(passed).toEqual([ack]);
});

it("[O115] a command that the engine refused because the disk is full is answered with the disk's name, other answers as they are", () => {
  const busy: Effect = {
    type: "answer",
    ref: 1,
    body: null,
    fault: { code: "E.STORE.BUSY", message: "the store did not take it" },
  };
  const other: Effect = { type: "answer", ref: 2, body: null, fault: { code: "E.NOT_FOUND", message: "no such run" } };

  expect([busy, other].map(nameFullDisk)).toEqual([
    expect.objectContaining({ ref: 1, fault: expect.objectContaining({ code: "E.STORE.BUSY", details: { isDiskFull: true } }) }),
    other,
  ]);
});
