// How the machine is doing, for the heartbeat. Read on each beat, so it must stay cheap.

import { statfsSync } from "node:fs";
import { availableParallelism, freemem, loadavg, totalmem } from "node:os";

export function readVitals(dataDir: string): Record<string, number> {
  return {
    cpu_pct: percent((loadavg()[0] ?? 0) / availableParallelism()),
    mem_pct: percent(1 - freemem() / totalmem()),
    ...readDisk(dataDir),
    rss_bytes: process.memoryUsage.rss(),
  };
}

function readDisk(dataDir: string): { disk_pct?: number } {
  try {
    const disk = statfsSync(dataDir);
    return disk.blocks === 0 ? {} : { disk_pct: percent(1 - disk.bavail / disk.blocks) };
  } catch {
    // A disk that cannot be asked is no reason to miss a heartbeat; the scheduler sees that the number is missing.
    return {};
  }
}

function percent(share: number): number {
  return Math.max(0, Math.round(share * 1_000) / 10);
}
