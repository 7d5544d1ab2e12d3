// Bounds the processor time of a Node host. Node has no call that sets such a limit, and a handler that never returns holds the main thread:
// a thread of its own looks at what the process has used.

import { Worker } from "node:worker_threads";

/** Processor time of this process so far, in seconds. */
function usedSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Gives the function that grants the process so many seconds more from now on. Beyond them it is ended by SIGXCPU, as the system would. */
export function startProcessorLimit(seconds: number): () => void {
  const allowed = new Float64Array(new SharedArrayBuffer(8));
  allowed[0] = Number.POSITIVE_INFINITY;
  const thread = new Worker(new URL("./processor-limit-main.ts", import.meta.url), { workerData: allowed.buffer, env: {} });
  thread.unref();
  return () => {
    allowed[0] = usedSeconds() + seconds;
  };
}
