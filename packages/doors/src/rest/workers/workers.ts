// The routes about workers: who is there and how well, all about one of them, taking one out of service and back, ending its session.

import { type Command, defaultSettings, type OrderBody, paceOf, type Reader, type WorkerRow } from "@astraflow/engine";
import { Fault, fault, readWorkerKickRequest } from "@astraflow/protocol";
import type { EngineClient } from "../../link.ts";
import type { DoorEnvironment } from "../../outside.ts";
import { type Call, type Handler, type Reply, readBody, readLimit } from "../call.ts";
import { readIdCursor, spellIdCursor } from "../people/user-cursor.ts";
import type { SystemOptions } from "../system.ts";
import { createCommands } from "./commands.ts";
import { isSameOrder } from "./enrolment-view.ts";
import { instanceIn, type Present, viewDiagnostics, viewWorker } from "./view-workers.ts";
import { workerFilter } from "./worker-filter.ts";

export interface WorkersOptions {
  readonly engineClient: EngineClient;
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
  readonly gauge: SystemOptions["gauge"];
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
  /** How often a worker is expected to be heard; the engine's defaults where it is not given. */
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
}

const workersLimits = {
  /** Attempts that one answer names. */
  attemptsMax: 200,
  /** Runs read for the names of their nodes: each may be large. */
  runsMax: 8,
} as const;

type WorkerRoutes = "listWorkers" | "getWorker" | "getWorkerDiagnostics" | "drainWorker" | "undrainWorker" | "kickWorker";

export function workerHandlers(options: WorkersOptions): Record<WorkerRoutes, Handler> {
  const { engineClient, reader, environment } = options;
  const { attemptsMax, runsMax } = workersLimits;
  const commands = createCommands(options);

  const present = (): Present => ({
    // Rows speak in the store's time.
    now: options.gauge()?.now ?? environment.clock.now(),
    heartbeatMsOf: options.heartbeatMsOf ?? ((tenant, dialect) => paceOf(defaultSettings, tenant, dialect).heartbeatMs),
  });

  /** By its instance id, or by its name. */
  const find = async (call: Call, limit: number) => {
    const { tenant } = call.identity;
    const instance = call.params["workerId"] ?? "";
    const exact = await reader.page({ page: "worker", tenant, worker: `${tenant}/${instance}`, limit });
    if (exact.worker !== null) return { ...exact, worker: exact.worker };
    const named = await workerNamed(tenant, instance);
    const found = await reader.page({ page: "worker", tenant, worker: named.id, limit });
    if (found.worker === null) throw missingWorker(instance);
    return { ...found, worker: found.worker };
  };
  const idOf = async (call: Call): Promise<string> => (await find(call, 0)).worker.id;

  /** Names are for people and may repeat: the one that is connected is meant. */
  const workerNamed = async (tenant: string, name: string): Promise<WorkerRow> => {
    const { items } = await reader.page({ page: "workers", tenant });
    const named = items.filter((worker) => worker.name === name);
    const found = named.find((worker) => worker.phase === "online") ?? named[0];
    if (found === undefined) throw missingWorker(name);
    return found;
  };

  /** Under a key it is done once; its id is the request's where there is none. */
  const command = (call: Call, order: WorkerOrder): Promise<Reply> => {
    const isIt = (body: OrderBody) => body.worker === order.worker && isSameOrder(body.order, wordsOf(order));
    const wanted = { isIt, newId: () => call.requestId };
    return commands.once(call, wanted, (id, ask) => carryOut({ ...order, command: id, ...(ask !== null && { ask }) }));
  };
  const carryOut = async (order: WorkerOrder) => {
    const answer = await askAbout(engineClient, order).then(
      (body) => {
        audit(order, "OK");
        return body;
      },
      (why: unknown) => {
        audit(order, why instanceof Fault ? why.code : "E.INTERNAL");
        throw why;
      },
    );
    if (answer.of !== "worker") throw fault("E.INTERNAL", `${order.type} was answered with ${answer.of}`);
    if (answer.repeated === true) return null;
    const { worker } = await reader.page({ page: "worker", tenant: order.tenant, worker: order.worker, limit: 0 });
    return { workerName: worker?.name ?? instanceIn(order.worker), sentAt: answer.at ?? environment.clock.now() };
  };
  /** Written once it is known what came of it. */
  const audit = (order: WorkerOrder, code: string): void => {
    const { tenant, worker, by } = order;
    const event = order.type === "worker.drain" && !order.on ? "worker.undrain" : order.type;
    const reason = order.type === "worker.kick" ? { reason: order.reason } : {};
    environment.log({ level: "info", event, audit: true, tenant, worker, by, ...reason, code });
  };
  const setDraining = async (call: Call, on: boolean): Promise<Reply> => {
    const { tenant, user } = call.identity;
    return command(call, { type: "worker.drain", tenant, by: user, corr: call.requestId, worker: await idOf(call), on });
  };

  return {
    async listWorkers(call) {
      const limit = readLimit(call.query);
      const cursor = readIdCursor("workers", call.query["cursor"]);
      const { items, head } = await reader.page({ page: "workers", tenant: call.identity.tenant });
      const now = present();
      const isAsked = workerFilter(call.query, now.now);
      const asked = [...items]
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .filter((worker) => cursor === undefined || worker.id > `${worker.tenant}/${cursor}`)
        .map((worker: WorkerRow) => viewWorker(worker, now))
        .filter(isAsked);
      const shown = asked.slice(0, limit);
      const last = asked.length > limit ? (shown.at(-1)?.instanceId ?? null) : null;
      return {
        body: { items: shown, nextCursor: spellIdCursor("workers", last), asOf: head },
      };
    },

    async getWorker(call) {
      const { worker, head } = await find(call, 0);
      return { body: { ...viewWorker(worker, present()), asOf: head } };
    },

    async getWorkerDiagnostics(call) {
      const { worker, held, head } = await find(call, attemptsMax + 1);
      const shown = held.slice(0, attemptsMax);
      const runIds = [...new Set(shown.map((task) => task.run))].slice(0, runsMax);
      const pages = await Promise.all(runIds.map((run) => reader.page({ page: "run", tenant: worker.tenant, run })));
      const runs = new Map(pages.flatMap(({ detail }) => (detail === null ? [] : [[detail.run.id, detail] as const])));
      return {
        body: viewDiagnostics({ worker, held: shown, hasMoreAttempts: held.length > attemptsMax, runs, head }, present()),
      };
    },

    drainWorker: (call) => setDraining(call, true),
    undrainWorker: (call) => setDraining(call, false),

    async kickWorker(call) {
      const request = call.body === null || call.body.length === 0 ? {} : readWorkerKickRequest(readBody(call));
      if (request instanceof Fault) throw request;
      const { tenant, user } = call.identity;
      const reason = request.reason === undefined || request.reason === "" ? `ended by ${user}` : request.reason;
      return command(call, { type: "worker.kick", tenant, by: user, corr: call.requestId, worker: await idOf(call), reason });
    },
  };
}

type WorkerOrder = Extract<Command, { type: "worker.drain" | "worker.kick" }>;

function wordsOf(order: WorkerOrder): OrderBody["order"] {
  if (order.type === "worker.kick") return { type: "kick", reason: order.reason };
  return { type: order.on ? "drain" : "undrain" };
}

/** One sentence for every id that is not the caller's: it must not show whether it is someone else's. */
const missingWorker = (instance: string): Fault => fault("E.NOT_FOUND", `there is no worker ${instance.slice(0, 100)}`);

/** Asks the engine about a worker; one that is nobody's or another tenant's is missing in the same words. */
export async function askAbout(
  engineClient: EngineClient,
  order: Extract<Command, { worker: string }>,
): ReturnType<EngineClient["request"]> {
  return engineClient.request(order).catch((why: unknown) => {
    throw why instanceof Fault && why.code === "E.NOT_FOUND" ? missingWorker(instanceIn(order.worker)) : why;
  });
}
