// graphile-worker as a process of its own, with a task that does nothing. It adds its jobs in batches while its pool runs them, which was faster than one
// after the other. Started by contenders.ts; ends with its channel.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import type { ChildMessage, ChildRequest } from "./scheduler-child.ts";

export interface GraphileWorkerSettings {
  readonly url: string;
  /** Jobs of one `addJobs`, and how many such calls are under way at once. */
  readonly addBatch: number;
  readonly adders: number;
  readonly concurrentJobs: number;
  /** Jobs that one fetch locks and brings. */
  readonly localQueue: number;
  /** How long ends are gathered before one statement writes them. */
  readonly batchDelayMs: number;
}

/** Ends are reported at most this often; a round lasts a hundred times as long. */
const reportMs = 4;

const settings = JSON.parse(process.argv[2] ?? "{}") as GraphileWorkerSettings;
const sendToParent = (message: ChildMessage) => process.send?.(message);
const logger = new Logger(() => (level, message) => {
  if (level === "error") sendToParent({ said: "failed", message });
});
const { url: connectionString, addBatch, adders, concurrentJobs, localQueue, batchDelayMs } = settings;
let ended = 0;
let isReportScheduled = false;

function countFinishedJob(): void {
  ended++;
  if (isReportScheduled) return;
  isReportScheduled = true;
  setTimeout(() => {
    isReportScheduled = false;
    sendToParent({ said: "ended", ended });
  }, reportMs);
}

const utils = await makeWorkerUtils({ connectionString, logger });
await utils.migrate();

async function addJobs(count: number): Promise<void> {
  let left = count;
  const add = async () => {
    while (left > 0) {
      const batch = Math.min(addBatch, left);
      left -= batch;
      await utils.addJobs(Array.from({ length: batch }, (_, n) => ({ identifier: "noop", payload: { n } })));
    }
  };
  await Promise.all(Array.from({ length: adders }, add));
}

process.on("message", (request: ChildRequest) => {
  if (request !== "sums")
    addJobs(request.run).catch((error: unknown) => sendToParent({ said: "failed", message: String(error) }));
});
process.on("disconnect", () => process.exit());
await run({
  logger,
  noHandleSignals: true,
  taskList: { noop: countFinishedJob },
  preset: {
    worker: {
      connectionString,
      // A plan that was made while the table was small, kept and used on a full one, reads all of it for every job: in some rounds the
      // peer fell to a fiftieth of its speed. Planning anew costs nothing beside such batches and makes that rare (medians bear the rest).
      preparedStatements: false,
      maxPoolSize: 10,
      concurrentJobs,
      localQueue: { size: localQueue },
      completeJobBatchDelay: batchDelayMs,
      failJobBatchDelay: batchDelayMs,
    },
  },
});
sendToParent({ said: "ready" });
