// The routes a worker enrols by, and commands to workers.

import { idString } from "../../schema/field-types.ts";
import { CommandRefSchema } from "../bodies/worker-bodies.ts";
import {
  CommandDetailSchema,
  WorkerCommandSchema,
  WorkerEnrolmentSchema,
  WorkerEnrolRequestSchema,
  WorkerSignRequestSchema,
} from "../bodies/worker-enrolment-bodies.ts";
import { idempotencyKeyHeader, type Route, readFaults, route, writeFaults } from "./route.ts";

export const enrolmentRoutes = {
  enrolWorker: route("POST", "/api/workers/register", {
    summary: "A worker registers, or updates its registration. It is listed, but gets no work until its socket is open.",
    headers: idempotencyKeyHeader,
    request: WorkerEnrolRequestSchema,
    response: WorkerEnrolmentSchema,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.SESSION.DENIED"],
    grant: "worker",
  }),
  signWorker: route("POST", "/api/workers/heartbeat", {
    summary: "Heartbeat of a registered worker, with its packages.",
    headers: idempotencyKeyHeader,
    request: WorkerSignRequestSchema,
    response: WorkerEnrolmentSchema,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND"],
    grant: "worker",
  }),
  commandWorker: route("POST", "/api/v1/workers/{workerName}/commands", {
    summary:
      "Tell a worker, by name or instance id, to drain, to install or remove a package, or to hand the remaining tasks of its runs to the worker of another queue.",
    params: { workerName: idString("Name or instance id; of several of one name, the one that is connected.") },
    headers: idempotencyKeyHeader,
    request: WorkerCommandSchema,
    response: CommandRefSchema,
    status: 202,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.SESSION.UNKNOWN", "E.WORKER.LOST", "E.CONFLICT"],
    grant: "operate",
  }),
  getCommand: route("GET", "/api/v1/commands/{commandId}", {
    summary: "What became of a command.",
    params: { commandId: idString() },
    response: CommandDetailSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
} as const satisfies Record<string, Route>;
