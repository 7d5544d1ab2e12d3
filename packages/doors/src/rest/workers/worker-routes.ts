// The routes about workers: listed, shown, diagnosed, drained, kicked, and what an autoscaler reads.

import type { WorkerRow } from "@astraflow/engine";
import { readWorkerKickRequest } from "@astraflow/protocol";
import {
  decodeIdCursor,
  encodeIdCursor,
  findWorker,
  kickWorker,
  presentCommandRef,
  presentWorker,
  readDiagnostics,
  readScaling,
  type SentCommand,
  setDraining,
  type WorkerServices,
  workerViewContext,
} from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import {
  type RestCall,
  type RestReply,
  type RouteHandler,
  readIdempotencyKey,
  readOptionalRequest,
  readPageLimit,
} from "../requests/rest-call.ts";
import { workerFilter } from "./worker-filter.ts";

type WorkerRoutes =
  | "listWorkers"
  | "getWorker"
  | "getWorkerDiagnostics"
  | "drainWorker"
  | "undrainWorker"
  | "kickWorker"
  | "getScaling";

export function workerHandlers(workers: WorkerServices): Record<WorkerRoutes, RouteHandler> {
  const { reader } = workers;
  const drain = async (call: RestCall, on: boolean): Promise<RestReply> =>
    sentReply(await setDraining(workers, call, workerIdOf(call), on, readIdempotencyKey(call)));

  return {
    async listWorkers(call) {
      const limit = readPageLimit(call.query);
      const cursor = decodeIdCursor("workers", call.query["cursor"]);
      const { items, head } = await reader.page({ page: "workers", tenant: call.identity.tenant });
      const context = workerViewContext(workers);
      const found = [...items]
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .filter((worker) => cursor === undefined || worker.id > `${worker.tenant}/${cursor}`)
        .map((worker: WorkerRow) => presentWorker(worker, context))
        .filter(workerFilter(call.query, context.now));
      const shown = found.slice(0, limit);
      const last = found.length > limit ? (shown.at(-1)?.instanceId ?? null) : null;
      return { body: { items: shown, nextCursor: encodeIdCursor("workers", last), asOf: head } };
    },

    async getWorker(call) {
      const { worker, head } = await findWorker(reader, call.identity.tenant, workerIdOf(call), 0);
      return { body: { ...presentWorker(worker, workerViewContext(workers)), asOf: head } };
    },

    getWorkerDiagnostics: async (call) => ({
      body: await readDiagnostics(workers, call.identity.tenant, workerIdOf(call)),
    }),

    drainWorker: (call) => drain(call, true),
    undrainWorker: (call) => drain(call, false),

    async kickWorker(call) {
      const { reason = "" } = readOptionalRequest(call, readWorkerKickRequest);
      const why = reason === "" ? `ended by ${call.identity.user}` : reason;
      return sentReply(await kickWorker(workers, call, workerIdOf(call), why, readIdempotencyKey(call)));
    },

    getScaling: async ({ identity }) => ({ body: await readScaling(reader, identity.tenant) }),
  };
}

const workerIdOf = ({ params }: RestCall): string => params["workerId"] ?? "";

/** The answer to a command, with the address where its outcome can be read. */
export const sentReply = ({ id, command, repeated }: SentCommand): RestReply => ({
  body: presentCommandRef(id, command),
  headers: { location: `/api/v1/commands/${id}`, ...replayedHeader(repeated) },
});
