// Who a worker of the tests is, and the real time around it. Its scheduler is scripted or left out.

import { randomBytes } from "node:crypto";
import type { WorkerIdentity } from "../src/scheduler-link/link-ports.ts";
import type { WorkerEnvironment } from "../src/system/environment.ts";

export const sampleIdentity: WorkerIdentity = {
  tenant: "default",
  instance: "w-1",
  name: "box",
  version: "0.1.0",
  hostname: "host",
  boot: "b1",
  auth: { mode: "token", token: "t" },
};

export const realEnvironment: WorkerEnvironment = {
  now: () => performance.now(),
  wallClock: () => Date.now(),
  randomBytes,
  random: () => 0,
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
  defer: (call) => void setImmediate(call),
};
