// The routes about workers: who is there and how well, all about one of them, taking one out of service and back, ending its session.

import {
  type Command,
  defaultSettings,
  type StoreReader,
  type WorkerCommandRecord,
  type WorkerRow,
  workerTimings,
} from "@astraflow/engine";
import { Fault, fault, readWorkerKickRequest } from "@astraflow/protocol";
import {
  decodeIdCursor,
  type EngineClient,
  encodeIdCursor,
  instanceIdOf,
  isSameCommand,
  presentDiagnostics,
  presentWorker,
  type WorkerViewContext,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import { type RestCall, type RestReply, type RouteHandler, readJsonBody, readPageLimit } from "../requests/rest-call.ts";
import type { SystemRoutesOptions } from "../system/system-routes.ts";
import { createWorkerCommands } from "./worker-commands.ts";
import { workerFilter } from "./worker-filter.ts";

export interface WorkerRoutesOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: DoorEnvironment;
  readonly gauge: SystemRoutesOptions["gauge"];
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
  /** How often a worker is expected to be heard; the engine's defaults where it is not given. */
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
}

const diagnosticsLimits = {
  /** Attempts that one answer names. */
  attemptsMax: 200,
  /** Runs read for the names of their nodes: each may be large. */
  runsMax: 8,
} as const;

type WorkerRoutes = "listWorkers" | "getWorker" | "getWorkerDiagnostics" | "drainWorker" | "undrainWorker" | "kickWorker";

export function workerHandlers(options: WorkerRoutesOptions): Record<WorkerRoutes, RouteHandler> {
  const { engineClient, reader, environment } = options;
  const { attemptsMax, runsMax } = diagnosticsLimits;
  const commands = createWorkerCommands(options);

  const viewContext = (): WorkerViewContext => ({
    // Rows speak in the store's time.
    now: options.gauge()?.now ?? environment.clock.now(),
    heartbeatMsOf: options.heartbeatMsOf ?? ((tenant, dialect) => workerTimings(defaultSettings, tenant, dialect).heartbeatMs),
  });

  /** By its instance id, or by its name. */
  const findWorker = async (call: RestCall, limit: number) => {
    const { tenant } = call.identity;
    const instance = call.params["workerId"] ?? "";
    const exact = await reader.page({ page: "worker", tenant, worker: `${tenant}/${instance}`, limit });
    if (exact.worker !== null) return { ...exact, worker: exact.worker };
    const named = await findWorkerByName(tenant, instance);
    const found = await reader.page({ page: "worker", tenant, worker: named.id, limit });
    if (found.worker === null) throw workerNotFound(instance);
    return { ...found, worker: found.worker };
  };
  const workerIdOf = async (call: RestCall): Promise<string> => (await findWorker(call, 0)).worker.id;

  /** Names are for people and may repeat: the one that is connected is meant. */
  const findWorkerByName = async (tenant: string, name: string): Promise<WorkerRow> => {
    const { items } = await reader.page({ page: "workers", tenant });
    const named = items.filter((worker) => worker.name === name);
    const found = named.find((worker) => worker.phase === "online") ?? named[0];
    if (found === undefined) throw workerNotFound(name);
    return found;
  };

  /** Under a key it is done once; its id is the request's where there is none. */
  const runCommand = (call: RestCall, operation: WorkerOperation): Promise<RestReply> => {
    const isIt = (body: WorkerCommandRecord) =>
      body.worker === operation.worker && isSameCommand(body.order, commandBodyOf(operation));
    const wanted = { isIt, newId: () => call.requestId };
    return commands.runOnce(call, wanted, (id, idempotencyKey) =>
      executeCommand({ ...operation, command: id, ...(idempotencyKey !== null && { ask: idempotencyKey }) }),
    );
  };
  const executeCommand = async (operation: WorkerOperation) => {
    const answer = await askAboutWorker(engineClient, operation).then(
      (body) => {
        logCommand(operation, "OK");
        return body;
      },
      (why: unknown) => {
        logCommand(operation, why instanceof Fault ? why.code : "E.INTERNAL");
        throw why;
      },
    );
    if (answer.of !== "worker") throw fault("E.INTERNAL", `${operation.type} was answered with ${answer.of}`);
    if (answer.repeated === true) return null;
    const { worker } = await reader.page({ page: "worker", tenant: operation.tenant, worker: operation.worker, limit: 0 });
    return { workerName: worker?.name ?? instanceIdOf(operation.worker), sentAt: answer.at ?? environment.clock.now() };
  };
  /** Written once it is known what came of it. */
  const logCommand = (operation: WorkerOperation, code: string): void => {
    const { tenant, worker, by } = operation;
    const event = operation.type === "worker.drain" && !operation.on ? "worker.undrain" : operation.type;
    const reason = operation.type === "worker.kick" ? { reason: operation.reason } : {};
    environment.log({ level: "info", event, audit: true, tenant, worker, by, ...reason, code });
  };
  const setDraining = async (call: RestCall, on: boolean): Promise<RestReply> => {
    const { tenant, user } = call.identity;
    return runCommand(call, { type: "worker.drain", tenant, by: user, corr: call.requestId, worker: await workerIdOf(call), on });
  };

  return {
    async listWorkers(call) {
      const limit = readPageLimit(call.query);
      const cursor = decodeIdCursor("workers", call.query["cursor"]);
      const { items, head } = await reader.page({ page: "workers", tenant: call.identity.tenant });
      const now = viewContext();
      const isAsked = workerFilter(call.query, now.now);
      const asked = [...items]
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .filter((worker) => cursor === undefined || worker.id > `${worker.tenant}/${cursor}`)
        .map((worker: WorkerRow) => presentWorker(worker, now))
        .filter(isAsked);
      const shown = asked.slice(0, limit);
      const last = asked.length > limit ? (shown.at(-1)?.instanceId ?? null) : null;
      return {
        body: { items: shown, nextCursor: encodeIdCursor("workers", last), asOf: head },
      };
    },

    async getWorker(call) {
      const { worker, head } = await findWorker(call, 0);
      return { body: { ...presentWorker(worker, viewContext()), asOf: head } };
    },

    async getWorkerDiagnostics(call) {
      const { worker, held, head } = await findWorker(call, attemptsMax + 1);
      const shown = held.slice(0, attemptsMax);
      const runIds = [...new Set(shown.map((task) => task.run))].slice(0, runsMax);
      const pages = await Promise.all(runIds.map((run) => reader.page({ page: "run", tenant: worker.tenant, run })));
      const runs = new Map(pages.flatMap(({ detail }) => (detail === null ? [] : [[detail.run.id, detail] as const])));
      return {
        body: presentDiagnostics({ worker, held: shown, hasMoreAttempts: held.length > attemptsMax, runs, head }, viewContext()),
      };
    },

    drainWorker: (call) => setDraining(call, true),
    undrainWorker: (call) => setDraining(call, false),

    async kickWorker(call) {
      const request = call.body === null || call.body.length === 0 ? {} : readWorkerKickRequest(readJsonBody(call));
      if (request instanceof Fault) throw request;
      const { tenant, user } = call.identity;
      const reason = request.reason === undefined || request.reason === "" ? `ended by ${user}` : request.reason;
      return runCommand(call, {
        type: "worker.kick",
        tenant,
        by: user,
        corr: call.requestId,
        worker: await workerIdOf(call),
        reason,
      });
    },
  };
}

type WorkerOperation = Extract<Command, { type: "worker.drain" | "worker.kick" }>;

function commandBodyOf(operation: WorkerOperation): WorkerCommandRecord["order"] {
  if (operation.type === "worker.kick") return { type: "kick", reason: operation.reason };
  return { type: operation.on ? "drain" : "undrain" };
}

/** One sentence for every id that is not the caller's: it must not show whether it is someone else's. */
const workerNotFound = (instance: string): Fault => fault("E.NOT_FOUND", `there is no worker ${instance.slice(0, 100)}`);

/** Asks the engine about a worker; one that is nobody's or another tenant's is missing in the same words. */
export async function askAboutWorker(
  engineClient: EngineClient,
  order: Extract<Command, { worker: string }>,
): ReturnType<EngineClient["request"]> {
  return engineClient.request(order).catch((why: unknown) => {
    throw why instanceof Fault && why.code === "E.NOT_FOUND" ? workerNotFound(instanceIdOf(order.worker)) : why;
  });
}
