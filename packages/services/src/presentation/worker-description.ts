// What a worker's row says of the worker itself.

import type { WorkerDescription, WorkerRow } from "@astraflow/engine";

/** A worker that is known over REST alone may have described nothing. */
export const readWorkerDescription = (worker: WorkerRow): Partial<WorkerDescription> =>
  JSON.parse(worker.about) as Partial<WorkerDescription>;
