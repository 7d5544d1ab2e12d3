// The routes about workers: who is there, and taking one out of service and back.

import type { Reader } from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import type { Link } from "../link.ts";
import type { Outside } from "../outside.ts";
import { type Call, type Handler, type Reply, readIdempotencyKey, readLimit } from "./call.ts";
import { viewWorker } from "./view.ts";

export interface WorkersOptions {
  readonly link: Link;
  readonly reader: Reader;
  readonly outside: Outside;
}

export function workerHandlers(options: WorkersOptions): Record<"listWorkers" | "drainWorker" | "undrainWorker", Handler> {
  const { link, reader, outside } = options;

  const setDraining = async (call: Call, on: boolean): Promise<Reply> => {
    readIdempotencyKey(call);
    const { tenant, user } = call.identity;
    const workerId = call.params["workerId"] ?? "";
    const worker = `${tenant}/${workerId}`;
    const answer = await link.ask({ type: "worker.drain", tenant, by: user, worker, on }).catch((why: unknown) => {
      // The same sentence whether the id is nobody's or another tenant's.
      throw why instanceof Fault && why.code === "E.NOT_FOUND"
        ? fault("E.NOT_FOUND", `there is no worker ${workerId.slice(0, 100)}`)
        : why;
    });
    if (answer.of !== "worker") throw fault("E.INTERNAL", `worker.drain was answered with ${answer.of}`);
    const { items } = await reader.page({ page: "workers", tenant });
    const workerName = items.find((row) => row.id === worker)?.name ?? workerId;
    return { body: { commandId: call.requestId, workerName, acceptedAt: new Date(outside.clock.now()).toISOString() } };
  };

  return {
    async listWorkers(call) {
      const limit = readLimit(call.query);
      const { cursor } = call.query;
      const { items, head } = await reader.page({ page: "workers", tenant: call.identity.tenant });
      const sorted = [...items]
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .filter((worker) => cursor === undefined || worker.id > `${worker.tenant}/${cursor}`);
      const shown = sorted.slice(0, limit).map(viewWorker);
      return {
        body: { items: shown, nextCursor: sorted.length > limit ? (shown.at(-1)?.instanceId ?? null) : null, asOf: head },
      };
    },
    drainWorker: (call) => setDraining(call, true),
    undrainWorker: (call) => setDraining(call, false),
  };
}
