import { availableParallelism, totalmem } from "node:os";
import { describe, expect, it } from "vitest";
import type { CgroupUsage } from "./cgroup.ts";
import { WorkerHealthReader } from "./worker-health.ts";

function reader(
  use: CgroupUsage,
  {
    disk = null as number | null,
    heap = null as number | null,
    lag = null as number | null,
    drainMemoryPct = 90 as number | null,
    drainDiskPct = 95 as number | null,
    load = 0,
  } = {},
) {
  let now = 0;
  let looks = 0;
  const vitals = new WorkerHealthReader({
    dataDir: "/data",
    drainMemoryPct,
    drainDiskPct,
    cgroup: {
      readUsage: () => {
        looks++;
        return use;
      },
    },
    now: () => now,
    heapPct: () => heap,
    lagMs: () => lag,
    diskShare: () => disk,
    load: () => load,
  });
  return {
    vitals,
    looks: () => looks,
    pass(ms: number) {
      now += ms;
    },
  };
}

describe("vitals of the worker", () => {
  it("[W130] the worker's health reports memory and CPU relative to the limits of the process, if it has any", () => {
    const { vitals } = reader(
      { memory: { usedBytes: 250, limitBytes: 1_000 }, cpu: { limitCores: 0.5, usedCores: 0.2 } },
      { disk: 0.5 },
    );

    const { metrics, problems } = vitals.read();

    expect(metrics).toMatchObject({ mem_pct: 25, mem_limit_bytes: 1_000, cpu_pct: 40, cpu_limit_cores: 0.5, disk_pct: 50 });
    expect(problems).toEqual([]);
  });

  it("[W130] the worker's health reports the machine's CPU load if the process has no limit, and never more than 100 percent", () => {
    expect(reader({}, { load: availableParallelism() / 4 }).vitals.read().metrics["cpu_pct"]).toBe(25);
    expect(reader({}, { load: availableParallelism() * 13 }).vitals.read().metrics["cpu_pct"]).toBe(100);
  });

  it("[W133] the worker's health uses the memory and disk thresholds the scheduler announced, unless it has its own", () => {
    const use = { memory: { usedBytes: 920, limitBytes: 1_000 } };
    const led = reader(use, { disk: 0.96, drainMemoryPct: null, drainDiskPct: null }).vitals;
    const own = reader(use, { disk: 0.96 }).vitals;
    const wide = { memPct: 101, diskPct: 98 };

    expect(led.read().problems).toHaveLength(2);
    expect(led.read(wide).problems).toEqual([]);
    expect(led.read().problems).toEqual([]); // whoever only looks sees what was announced last
    expect(led.read({ memPct: 80, diskPct: 98 }).problems).toEqual([expect.stringContaining("from 80 % on")]);
    expect(own.read(wide).problems).toHaveLength(2);
  });

  it("[W130] the worker's health reports the machine's memory and CPU if there is no limit, or one above the machine's size", () => {
    const none = reader({}).vitals.read().metrics;
    const wide = reader({ memory: { usedBytes: 1, limitBytes: totalmem() * 2 }, cpu: { limitCores: 10_000 } }).vitals.read()
      .metrics;

    for (const metrics of [none, wide]) {
      expect(metrics).not.toHaveProperty("mem_limit_bytes");
      expect(metrics).not.toHaveProperty("cpu_limit_cores");
      expect(metrics["mem_pct"]).toBeGreaterThan(0);
      expect(metrics["cpu_pct"]).toBeGreaterThanOrEqual(0);
    }
    expect(none).not.toHaveProperty("disk_pct");
  });

  it("[W132] the worker's health names memory, heap and disk that have reached their threshold, and nothing just below it", () => {
    const memory = (usedBytes: number) => ({ memory: { usedBytes, limitBytes: 1_000 } });

    expect(reader(memory(899), { disk: 0.949, heap: 89.9 }).vitals.read().problems).toEqual([]);
    expect(reader(memory(900), { disk: 0.95, heap: 92 }).vitals.read().problems).toEqual([
      "memory is 90 % full; no new work is taken from 90 % on",
      "the heap of the handlers is 92 % full; no new work is taken from 90 % on",
      "the disk of the data directory is 95 % full; no new work is taken from 95 % on",
    ]);
  });

  it("[W120] the worker's health reports how long a handler has blocked its thread, without counting it as a problem", () => {
    const { metrics, problems } = reader({}, { lag: 12_345.6 }).vitals.read();

    expect(metrics).toMatchObject({ handlers_lag_ms: 12_346 });
    expect(problems).toEqual([]);
    expect(reader({}).vitals.read().metrics).not.toHaveProperty("handlers_lag_ms");
  });

  it("[W132] the worker's health is not measured again within a quarter of a second", () => {
    const { vitals, looks, pass } = reader({});

    vitals.read();
    pass(249);
    vitals.read();
    expect(looks()).toBe(1);
    pass(1);
    vitals.read();

    expect(looks()).toBe(2);
  });
});
