import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CommandRequest, defaultSettings, type Effect } from "@astraflow/engine";
import { defaultRetention, type SweepReport } from "@astraflow/services";
import { sampleRun } from "@astraflow/engine/testing";
import { openSqlite, SqliteReader } from "@astraflow/store";
import { expect, it } from "vitest";
import { dayMs } from "../settings/setting-readers.ts";
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
  const ignore = () => undefined;
  const listeners = { onEffects: ignore, onProblem: ignore, onSwept: ignore, onReplaced: ignore };
  const asked = startEngine(
    {
      store: { of: "sqlite", file: "/nowhere/at/all.db" },
      cluster: "c",
      replica: "r",
      thresholds: { ...defaultSettings, leaseMs: 1_000, heartbeatMs: 1_000 },
      tenants: {},
      retention: defaultRetention,
      retentionByTenant: {},
      ackDeadlineMs: 5_000,
      attemptLimits: { attemptTimeoutMs: null, silentGraceMs: 60_000, unstoppedSlotMs: 3_600_000 },
      packageDeadlineMs: 1_800_000,
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

it("[O635] a started engine removes what its settings no longer keep, reports it once a sweep and counts the rows by kind", async () => {
  const folder = mkdtempSync(join(tmpdir(), "astra-retention-"));
  const file = join(folder, "astra.db");
  const clock = { wall: () => Date.now(), mono: () => performance.now() };
  const store = openSqlite({ file, clock });
  await store.open({ replica: "r", cluster: "c" });
  const endedAt = Date.now() - 10 * dayMs;
  const runs = ["r1", "r2"].map((id) =>
    sampleRun(id, { phase: "succeeded", tenant: id === "r1" ? "acme" : "beta", createdAt: endedAt - 5, endedAt, open: 0 }),
  );
  const roots = runs.map(({ id }) => `run/${id}` as const);
  const tx = await store.begin({ rows: roots, claims: [], lists: [], due: 0, mail: 0, skip: [] });
  const logEntries = runs.map(({ id, tenant }) => ({
    tenant,
    subject: `run/${id}` as const,
    facts: [{ type: "run.ended", data: {} }],
  }));
  await tx.commit(1, [{ roots, puts: runs, deletes: [], enqueued: [], logEntries, mail: [] } as never]);
  await store.close();
  const effects: Effect[] = [];
  const swept = Promise.withResolvers<SweepReport>();

  const engine = await startEngine(
    {
      store: { of: "sqlite", file },
      cluster: "c",
      replica: "r",
      thresholds: defaultSettings,
      tenants: {},
      retention: { ...defaultRetention, runsMs: null },
      retentionByTenant: { acme: { runsMs: 7 * dayMs } },
      ackDeadlineMs: 5_000,
      attemptLimits: { attemptTimeoutMs: null, silentGraceMs: 60_000, unstoppedSlotMs: 3_600_000 },
      packageDeadlineMs: 1_800_000,
      turnsInFlight: 1,
      // The first sweep is a minute after the start.
      timeScale: 1_000,
      failpoints: [],
    },
    {
      onEffects: (some) => void effects.push(...some),
      onProblem: (problem) => swept.reject(new Error(problem.message, { cause: problem.cause })),
      onSwept: swept.resolve,
      onReplaced: () => undefined,
    },
    null,
  );
  const report = await swept.promise;
  await engine.stop();

  expect(report).toMatchObject({ tenant: "acme", removed: { runs: 1 } });
  expect(effects).toContainEqual({
    type: "count",
    name: "retention_removed_total",
    labels: { tenant: "acme", kind: "runs" },
    values: [1],
  });
  const reader = new SqliteReader({ file });
  const list = async (tenant: string) => (await reader.page({ page: "runs", tenant, limit: 9 })).items.map(({ id }) => id);
  expect([await list("acme"), await list("beta")]).toEqual([[], ["r2"]]);
  await reader.close();
  rmSync(folder, { recursive: true });
});
