// The routes by which a worker makes itself known without a session, and commands to workers.

import { canonicalJson } from "@astraflow/graph";
import { fault, readWorkerCommand, readWorkerEnrolRequest, readWorkerHeartbeatRequest } from "@astraflow/protocol";
import {
  type Enrolment,
  enrolmentOf,
  enrolWorker,
  findCommand,
  instanceIdOf,
  presentCommand,
  sendWorkerCommand,
  signOfLifeOf,
  type WorkerServices,
} from "@astraflow/services";
import { sessionPath } from "../../session/server/websocket-door.ts";
import { replayedHeader } from "../requests/idempotency.ts";
import { type RestCall, type RestReply, type RouteHandler, readIdempotencyKey, readRequest } from "../requests/rest-call.ts";
import { sentReply } from "./worker-routes.ts";

export interface EnrolmentRoutesOptions {
  /** This port speaks TLS. */
  readonly isSecure?: boolean;
  /** A worker without a session reported that it is alive. */
  readonly onSignOfLife: (tenant: string, worker: string) => void;
}

export function enrolmentHandlers(
  workers: WorkerServices,
  { isSecure = false, onSignOfLife }: EnrolmentRoutesOptions,
): Record<"enrolWorker" | "signWorker" | "commandWorker" | "getCommand", RouteHandler> {
  const enrol = async (call: RestCall, enrolment: Enrolment): Promise<RestReply> => {
    const { tenant, user } = call.identity;
    const key = readIdempotencyKey(call);
    const ask = key === null ? null : { key, digest: workers.digest(canonicalJson(["worker.enrol", user, enrolment])) };
    const { worker, heartbeatMs, isOnline, repeated } = await enrolWorker(workers, call, enrolment, ask);
    // A worker with a session sends its heartbeats there.
    if (enrolment.about === null && !isOnline) onSignOfLife(tenant, worker);
    const wsUrl = sessionUrlFor(call, isSecure);
    return {
      body: { instanceId: instanceIdOf(worker), wsUrl, heartbeatIntervalMs: heartbeatMs, connected: isOnline },
      headers: replayedHeader(repeated),
    };
  };

  return {
    enrolWorker: async (call) => enrol(call, enrolmentOf(readRequest(call, readWorkerEnrolRequest))),
    signWorker: async (call) => enrol(call, signOfLifeOf(readRequest(call, readWorkerHeartbeatRequest))),

    async commandWorker(call) {
      const command = readRequest(call, readWorkerCommand);
      const key = readIdempotencyKey(call);
      return sentReply(await sendWorkerCommand(workers, call, call.params["workerName"] ?? "", command, key));
    },

    async getCommand(call) {
      const id = call.params["commandId"] ?? "";
      const { body, head } = await findCommand(workers.reader, call.identity.tenant, id);
      if (body === null) throw fault("E.NOT_FOUND", `there is no command ${id.slice(0, 100)}`);
      return { body: presentCommand(id, body, head) };
    },
  };
}

/** With the host name that the caller used: we may not know it ourselves. */
function sessionUrlFor(call: RestCall, isSecure: boolean): string {
  const host = call.header("host") ?? "";
  const named = /^[A-Za-z0-9._-]+(:\d{1,5})?$|^\[[0-9A-Fa-f:.]+\](:\d{1,5})?$/.test(host) ? host : "localhost";
  return `${isSecure ? "wss" : "ws"}://${named}${sessionPath}`;
}
