// The join command of the benches' workers that have no wire.

import type { JoinWorkerCommand } from "@astraflow/engine";

export function createJoinCommand(tenant: string, name: string, session: string, slots: number): JoinWorkerCommand {
  return {
    type: "worker.join",
    tenant,
    worker: `${tenant}/${name}`,
    name,
    boot: "b",
    session,
    about: {
      slots,
      packages: [{ name: "bench", version: "1.0.0", status: "installed" }],
      runtimes: [],
      features: [],
      payloadTypes: [],
      pool: "default",
      tags: {},
      hostname: "h",
      version: "1",
      dialect: "v2",
    },
    running: [],
  };
}
