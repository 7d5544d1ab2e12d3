// Who a worker of the tests is, and the real time around it. Its scheduler is scripted or left out.

import type { LinkIdentity } from "../src/link-ports.ts";
import type { Outside } from "../src/outside.ts";

export const sampleIdentity: LinkIdentity = {
  tenant: "default",
  instance: "w-1",
  name: "box",
  version: "0.1.0",
  hostname: "host",
  boot: "b1",
  auth: { mode: "token", token: "t" },
};

export const realOutside: Outside = {
  now: () => performance.now(),
  wall: () => Date.now(),
  roll: () => 0,
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
  soon: (call) => void setImmediate(call),
};
