// The routes about workers: listed, shown, diagnosed, given commands, what an autoscaler reads, and workers that make themselves known without
// a session.

import { canonicalJson } from "@astraflow/graph";
import { bodyReaderOf, readWorkerCommand, sessionPath } from "@astraflow/protocol";
import {
  type Enrolment,
  enrolmentOf,
  enrolWorker,
  instanceIdOf,
  listWorkers,
  notFound,
  presentCommand,
  presentCommandRef,
  readDiagnostics,
  readScaling,
  readWorker,
  type SentCommand,
  signOfLifeOf,
  type WorkerFilter,
  type WorkerServices,
} from "@astraflow/services";
import { type RestCall, type RestReply, type RouteHandlers, replayedHeader } from "../requests/rest-call.ts";

export function workerHandlers(workers: WorkerServices) {
  const { reader, commands } = workers;
  const drain = async (call: RestCall, on: boolean): Promise<RestReply> =>
    sentReply(await commands.setDraining(call, call.param("workerId"), on, call.readIdempotencyKey()));

  return {
    async listWorkers(call) {
      const { cursor } = call.query;
      const page = { limit: call.readPageLimit(), cursor, filter: readWorkerFilter(call) };
      return { body: await listWorkers(workers, call.tenant, page) };
    },

    async getWorker(call) {
      return { body: await readWorker(workers, call.tenant, call.param("workerId")) };
    },

    getWorkerDiagnostics: async (call) => ({ body: await readDiagnostics(workers, call.tenant, call.param("workerId")) }),
    drainWorker: (call) => drain(call, true),
    undrainWorker: (call) => drain(call, false),

    async kickWorker(call) {
      const { reason = "" } = call.readOptionalBody(bodyReaderOf("kickWorker"));
      const why = reason === "" ? `ended by ${call.identity.user}` : reason;
      return sentReply(await commands.kick(call, call.param("workerId"), why, call.readIdempotencyKey()));
    },

    async commandWorker(call) {
      const command = call.readBody(readWorkerCommand);
      return sentReply(await commands.send(call, call.param("workerName"), command, call.readIdempotencyKey()));
    },

    async getCommand(call) {
      const id = call.param("commandId");
      const { body, head } = await commands.find(call.tenant, id);
      if (body === null) throw notFound("command", id);
      return { body: presentCommand(id, body, head) };
    },

    getScaling: async (call) => ({ body: await readScaling(reader, call.tenant) }),
  } satisfies RouteHandlers;
}

export const readWorkerFilter = (call: RestCall): WorkerFilter => {
  const { queue, packageName, packageVersion, packageStatus } = call.query;
  return {
    queue,
    packageName,
    packageVersion,
    packageStatus,
    connected: call.boolean("connected"),
    registered: call.boolean("registered"),
    healthy: call.boolean("healthy"),
    heartbeatAgeSecondsMax: call.number("maxHeartbeatAgeSeconds"),
    inflightMax: call.number("maxInflight"),
    latencyMsMax: call.number("maxLatencyMs"),
  };
};

/** The answer to a command, with the address where its outcome can be read. */
const sentReply = ({ id, command, repeated }: SentCommand): RestReply => ({
  body: presentCommandRef(id, command),
  headers: { location: `/api/v1/commands/${id}`, ...replayedHeader(repeated) },
});

export interface EnrolmentOptions {
  /** This port speaks TLS. */
  readonly isSecure?: boolean;
  /** A worker without a session reported that it is alive. */
  readonly onSignOfLife: (tenant: string, worker: string) => void;
}

export function enrolmentHandlers(workers: WorkerServices, { isSecure = false, onSignOfLife }: EnrolmentOptions) {
  const enrol = async (call: RestCall, enrolment: Enrolment): Promise<RestReply> => {
    const { tenant, user } = call.identity;
    const key = call.readIdempotencyKey();
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
    enrolWorker: async (call) => enrol(call, enrolmentOf(call.readBody(bodyReaderOf("enrolWorker")))),
    signWorker: async (call) => enrol(call, signOfLifeOf(call.readBody(bodyReaderOf("signWorker")))),
  } satisfies RouteHandlers;
}

/** With the host name that the caller used: we may not know it ourselves. */
function sessionUrlFor(call: RestCall, isSecure: boolean): string {
  const host = call.header("host") ?? "";
  const named = /^[A-Za-z0-9._-]+(:\d{1,5})?$|^\[[0-9A-Fa-f:.]+\](:\d{1,5})?$/.test(host) ? host : "localhost";
  return `${isSecure ? "wss" : "ws"}://${named}${sessionPath}`;
}
