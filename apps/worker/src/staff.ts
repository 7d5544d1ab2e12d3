// The worker with its handlers, in their own thread or beside the link, as the rest of the program needs to know it.

import { getHeapStatistics } from "node:v8";
import { createThreadedWorker, createWorker, loadPackages, type Worker, type WorkerOptions } from "@astraflow/runtime";
import type { WorkerConfig } from "./config.ts";
import type { OfferedPackage, PackageTrouble } from "./status.ts";

/** A worker and what is known of its packages, wherever their code runs. */
export interface Staffed {
  readonly worker: Worker;
  packages(): readonly OfferedPackage[];
  packageProblems(): readonly PackageTrouble[];
  heapPct(): number | null;
  lagMs(): number | null;
  /** Only the end of the process ends its handlers. */
  isStuck(): boolean;
}

type Options = Omit<WorkerOptions, "shelf">;

/** Resolves once the packages are loaded; rejects where that ended their thread. */
export function staff(config: WorkerConfig, options: Options): Promise<Staffed> {
  return config.hasThread ? staffThread(config, options) : staffHere(config, options);
}

async function staffThread(config: WorkerConfig, options: Options): Promise<Staffed> {
  const worker = await createThreadedWorker({
    ...options,
    packagesDir: config.packagesDir,
    ...(config.heapMbMax !== undefined && { heapMbMax: config.heapMbMax }),
  });
  return {
    worker,
    packages: () => worker.shelf.packages,
    packageProblems: () => worker.shelf.problems,
    heapPct: () => worker.heapPct,
    lagMs: () => worker.lagMs,
    isStuck: () => worker.isStuck,
  };
}

async function staffHere(config: WorkerConfig, options: Options): Promise<Staffed> {
  const shelf = await loadPackages(config.packagesDir);
  const packages = shelf.packages.map((one) => ({ ...one, nodeTypes: one.handlers.map(({ nodeType }) => nodeType) }));
  const problems = shelf.problems.map(({ dir, fault }) => ({ dir, code: fault.code, message: fault.message }));
  return {
    worker: createWorker({ ...options, shelf }),
    packages: () => packages,
    packageProblems: () => problems,
    heapPct() {
      const { used_heap_size, heap_size_limit } = getHeapStatistics();
      return (used_heap_size / heap_size_limit) * 100;
    },
    lagMs: () => null,
    isStuck: () => false,
  };
}
