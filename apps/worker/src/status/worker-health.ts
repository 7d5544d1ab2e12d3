// Memory, processor and disk against the worker's limits. Read at each heartbeat, so it must stay cheap; it never throws.

import { statfsSync } from "node:fs";
import { availableParallelism, freemem, loadavg, totalmem } from "node:os";
import type { DrainThresholds, WorkerHealth } from "@astraflow/runtime";
import type { CgroupReader, CgroupUsage } from "./cgroup.ts";

export interface WorkerHealthOptions {
  readonly dataDir: string;
  /** Percent from which on this worker takes no new work; null leaves that to what its scheduler announces. */
  readonly drainMemoryPct: number | null;
  readonly drainDiskPct: number | null;
  readonly cgroup: Pick<CgroupReader, "readUsage">;
  /** Milliseconds of a clock that never jumps. */
  readonly now: () => number;
  /** How full the memory of the handlers' thread is, in percent; null where nobody knows. */
  readonly heapPct: () => number | null;
  /** For how long a handler has blocked its thread; null where it would block this one. Liveness and progress are two signals. */
  readonly lagMs: () => number | null;
  /** Share of the disk that is used, 0 to 1; null where it cannot be asked. */
  readonly diskShare?: (dir: string) => number | null;
  /** Processes that run or wait on this machine, over the last minute. */
  readonly load?: () => number;
}

/** Where neither this worker nor its scheduler sets a threshold. */
const defaultThresholds = { memPct: 90, diskPct: 95 };
/** How long a reading is reused, so that scrapes do not change the numbers of the next heartbeat. */
const cacheMs = 250;

export class WorkerHealthReader {
  readonly #options: WorkerHealthOptions;
  #cached: { readonly at: number; readonly vitals: WorkerHealth } | null = null;
  #drainThresholds: DrainThresholds = { memPct: null, diskPct: null };

  constructor(options: WorkerHealthOptions) {
    this.#options = options;
  }

  /** `announced`: the scheduler's latest thresholds; callers that only look leave them out. */
  read(thresholds: DrainThresholds = this.#drainThresholds): WorkerHealth {
    const at = this.#options.now();
    if (thresholds.memPct !== this.#drainThresholds.memPct || thresholds.diskPct !== this.#drainThresholds.diskPct)
      this.#cached = null;
    this.#drainThresholds = thresholds;
    if (this.#cached === null || at - this.#cached.at >= cacheMs) this.#cached = { at, vitals: this.#measure() };
    return this.#cached.vitals;
  }

  #measure(): WorkerHealth {
    const { cgroup, dataDir, heapPct, lagMs, diskShare = readDiskShare, load = () => loadavg()[0] ?? 0 } = this.#options;
    const { memory, cpu } = cgroup.readUsage();
    // A limit above what the machine has limits nothing.
    const isLimited = memory !== undefined && memory.limitBytes < totalmem();
    const mem_pct = percent(isLimited ? memory.usedBytes / memory.limitBytes : 1 - freemem() / totalmem());
    const share = diskShare(dataDir);
    const heap = heapPct();
    const lag = lagMs();
    const metrics = {
      mem_pct,
      ...cpuMetrics(cpu, load),
      ...(share !== null && { disk_pct: percent(share) }),
      ...(heap !== null && { heap_pct: percent(heap / 100) }),
      ...(lag !== null && { handlers_lag_ms: Math.round(lag) }),
      ...(isLimited && { mem_limit_bytes: memory.limitBytes }),
      rss_bytes: process.memoryUsage.rss(),
    };
    return { metrics, problems: this.#findProblems(metrics) };
  }

  #findProblems({ mem_pct, disk_pct, heap_pct }: { mem_pct: number; disk_pct?: number; heap_pct?: number }): string[] {
    const drainMemoryPct = this.#options.drainMemoryPct ?? this.#drainThresholds.memPct ?? defaultThresholds.memPct;
    const drainDiskPct = this.#options.drainDiskPct ?? this.#drainThresholds.diskPct ?? defaultThresholds.diskPct;
    const rows = [
      { what: "memory", pct: mem_pct, max: drainMemoryPct },
      { what: "the heap of the handlers", pct: heap_pct, max: drainMemoryPct },
      { what: "the disk of the data directory", pct: disk_pct, max: drainDiskPct },
    ];
    return rows
      .filter(({ pct, max }) => pct !== undefined && pct >= max)
      .map(({ what, pct, max }) => `${what} is ${pct} % full; no new work is taken from ${max} % on`);
  }
}

/** Without a limit of its own the process shares the machine, whose load is then taken, at most 100 %. */
function cpuMetrics(cpu: CgroupUsage["cpu"], load: () => number): { cpu_pct?: number; cpu_limit_cores?: number } {
  if (cpu === undefined || cpu.limitCores >= availableParallelism())
    return { cpu_pct: percent(Math.min(1, load() / availableParallelism())) };
  const cpu_limit_cores = Math.round(cpu.limitCores * 100) / 100;
  return cpu.usedCores === undefined
    ? { cpu_limit_cores }
    : { cpu_pct: percent(cpu.usedCores / cpu.limitCores), cpu_limit_cores };
}

function readDiskShare(dir: string): number | null {
  try {
    const disk = statfsSync(dir);
    return disk.blocks === 0 ? null : 1 - disk.bavail / disk.blocks;
  } catch {
    // A disk that cannot be asked is no reason to miss a heartbeat; the scheduler sees that the number is missing.
    return null;
  }
}

function percent(share: number): number {
  return Math.max(0, Math.round(share * 1_000) / 10);
}
