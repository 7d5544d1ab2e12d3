// The worker with its handlers, in their own thread or beside the link, as the rest of the program needs to know it.

import { getHeapStatistics } from "node:v8";
import {
  createThreadedWorker,
  createWorker,
  loadPackages,
  type SessionWorker,
  type SessionWorkerOptions,
} from "@astraflow/runtime";
import type { WorkerConfig } from "./settings/config.ts";
import type { OfferedPackage, PackageLoadProblem } from "./status/status.ts";

/** A worker and what is known of its packages, wherever their code runs. */
export interface LoadedWorker {
  readonly worker: SessionWorker;
  packages(): readonly OfferedPackage[];
  packageProblems(): readonly PackageLoadProblem[];
  heapPct(): number | null;
  lagMs(): number | null;
  /** Only the end of the process ends its handlers. */
  isStuck(): boolean;
}

type LoadWorkerOptions = Omit<SessionWorkerOptions, "loadedPackages">;

/** Resolves once the packages are loaded; rejects where that ended their thread. */
export function loadWorker(config: WorkerConfig, options: LoadWorkerOptions): Promise<LoadedWorker> {
  return config.hasThread ? loadThreadedWorker(config, options) : loadInProcessWorker(config, options);
}

async function loadThreadedWorker(config: WorkerConfig, options: LoadWorkerOptions): Promise<LoadedWorker> {
  const worker = await createThreadedWorker({
    ...options,
    packagesDir: config.packagesDir,
    ...(config.heapMbMax !== undefined && { heapMbMax: config.heapMbMax }),
  });
  return {
    worker,
    packages: () => worker.loadedPackages.packages,
    packageProblems: () => worker.loadedPackages.problems,
    heapPct: () => worker.heapPct,
    lagMs: () => worker.lagMs,
    isStuck: () => worker.isStuck,
  };
}

async function loadInProcessWorker(config: WorkerConfig, options: LoadWorkerOptions): Promise<LoadedWorker> {
  const shelf = await loadPackages(config.packagesDir);
  const packages = shelf.packages.map((one) => ({ ...one, nodeTypes: one.handlers.map(({ nodeType }) => nodeType) }));
  const problems = shelf.problems.map(({ dir, fault }) => ({ dir, code: fault.code, message: fault.message }));
  return {
    worker: createWorker({ ...options, loadedPackages: shelf }),
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
