// The thread that ends a Node host beyond its processor time. Started by processor-limit.ts, imported by no file.

import { workerData } from "node:worker_threads";

const lookMs = 200;
const allowed = new Float64Array(workerData as SharedArrayBuffer);
setInterval(() => {
  // Of the whole process, in every thread.
  const { user, system } = process.cpuUsage();
  if ((user + system) / 1e6 > (allowed[0] ?? Number.POSITIVE_INFINITY)) process.kill(process.pid, "SIGXCPU");
}, lookMs);
