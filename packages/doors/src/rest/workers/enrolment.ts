// The routes by which a worker makes itself known without a socket, and commands to workers: drain, packages, and leaving what follows to
// another. What a command became is a document of the engine's.

import type { Ask, Command, EnrolWorker, OrderBody, Reader, WorkerAbout, WorkerRow } from "@astraflow/engine";
import { canonicalJson, compareVersions } from "@astraflow/graph";
import {
  Fault,
  fault,
  readWorkerCommand,
  readWorkerEnrolRequest,
  readWorkerHeartbeatRequest,
  type WorkerCommand,
  type WorkerEnrolRequest,
} from "@astraflow/protocol";
import type { EngineClient } from "../../link.ts";
import type { DoorEnvironment } from "../../outside.ts";
import { sessionPath } from "../../session/door.ts";
import { type Call, type Handler, type Reply, readBody, readIdempotencyKey } from "../call.ts";
import { hasCome } from "../keys.ts";
import { keepRefusal } from "../refusals.ts";
import { createCommands } from "./commands.ts";
import { isSameOrder, viewCommand } from "./enrolment-view.ts";
import { instanceIn, queueOf } from "./view-workers.ts";

export interface EnrolmentOptions {
  readonly engineClient: EngineClient;
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
  readonly digest: (text: string) => string;
  /** This port speaks TLS. */
  readonly isSecure?: boolean;
  /** A worker without a socket said that it lives. */
  readonly signed?: (tenant: string, worker: string) => void;
}

/** What may be asked for by the route of commands. */
type CommandWords = Extract<OrderBody["order"], { type: WorkerCommand["type"] }>;

const enrolmentLimits = {
  /** Attempts of a worker that one rebind looks at. */
  attemptsMax: 200,
} as const;

export function enrolmentHandlers(
  options: EnrolmentOptions,
): Record<"enrolWorker" | "signWorker" | "commandWorker" | "getCommand", Handler> {
  const { engineClient, reader, environment } = options;
  const commands = createCommands(options);

  /** Under a key it is done once, and answered as the first time. */
  const enrol = async (
    call: Call,
    said: {
      workerId: string;
      name: string;
      about: WorkerAbout | null;
      status: EnrolWorker["status"];
      packages: WorkerAbout["packages"] | null;
    },
  ): Promise<Reply> => {
    const { workerId, ...rest } = said;
    const { tenant, user } = call.identity;
    const key = readIdempotencyKey(call);
    const order = {
      type: "worker.enrol",
      tenant,
      by: user,
      corr: call.requestId,
      ask: key === null ? null : { key, digest: options.digest(canonicalJson(["worker.enrol", user, said])) },
      worker: `${tenant}/${workerId}`,
      ...rest,
    } as const;
    const answer = await engineClient.request(order).catch((why: unknown) => {
      throw why instanceof Fault && why.code === "E.NOT_FOUND" ? unregistered(workerId) : why;
    });
    if (answer.of !== "enrolled") throw fault("E.INTERNAL", `worker.enrol was answered with ${answer.of}`);
    const { worker, heartbeatMs, isOnline, repeated } = answer;
    // One that has a socket is heard there.
    if (said.about === null && !isOnline) options.signed?.(tenant, worker);
    const wsUrl = addressFor(call, options.isSecure ?? false);
    return {
      body: { instanceId: instanceIn(worker), wsUrl, heartbeatIntervalMs: heartbeatMs, connected: isOnline },
      ...(repeated && { headers: { "idempotent-replayed": "true" } }),
    };
  };

  /** By name or instance id; of several of one name, one that is there. */
  const find = async (call: Call): Promise<{ worker: WorkerRow; workers: readonly WorkerRow[] }> => {
    const named = call.params["workerName"] ?? "";
    const { items: workers } = await reader.page({ page: "workers", tenant: call.identity.tenant });
    const own = workers.filter(({ id, name }) => name === named || instanceIn(id) === named);
    const worker = own.find(({ phase }) => phase === "online") ?? own[0];
    if (worker === undefined) throw fault("E.NOT_FOUND", `there is no worker ${named.slice(0, 100)}`);
    return { worker, workers };
  };
  /** False: it was carried out before under this key. */
  const carryOut = async (call: Call, named: Named, target: Target, command: CommandWords): Promise<boolean> => {
    const { id, ask } = named;
    const { tenant, user } = call.identity;
    const ordered = { tenant, by: user, corr: call.requestId, worker: target.worker.id };
    if (command.type === "rebind") {
      const came = await rebind(call, target, command.queue, ask);
      await engineClient.request({ type: "worker.noted", ...ordered, id, order: command, ...came });
      return true;
    }
    const answer = await (command.type === "drain"
      ? engineClient.request({ type: "worker.drain", ...ordered, on: true, command: id, ask })
      : engineClient.request({ type: "worker.order", ...ordered, id, order: command, ask }));
    return !("repeated" in answer);
  };
  /** What the worker holds ends there; what follows in those runs goes to the worker of the queue. */
  const rebind = async (call: Call, { worker, workers }: Target, queue: string, ask: Ask | null): Promise<Rebound> => {
    const { tenant, user } = call.identity;
    const deed = { action: "worker.rebind", targetType: "worker", target: instanceIn(worker.id), data: { queue } };
    const heir = await keepRefusal(engineClient, call, deed, () => {
      const found = workers.find(({ id }) => queueOf(id) === queue);
      if (found !== undefined) return found;
      throw fault("E.REQUEST.INVALID", `body.queue is not the queue of a worker here; the list of workers shows their queues`, {
        path: "body.queue",
      });
    });
    // Many commands carry it out: the key is its own before the first of them.
    await hasCome(engineClient, call, ask);
    if (heir.id === worker.id) return { error: null, details: { attempts: 0 } };
    const { held } = await reader.page({ page: "worker", tenant, worker: worker.id, limit: enrolmentLimits.attemptsMax });
    const asked = held.map(({ id, run }) =>
      engineClient
        .request({ type: "run.rebind", tenant, by: user, corr: call.requestId, run, node: id, worker: heir.id, mode: "drain" })
        .then(
          () => null,
          (why: unknown) => ({ task: id, code: why instanceof Fault ? why.code : "E.INTERNAL" }),
        ),
    );
    const refused = (await Promise.all(asked)).filter((one) => one !== null);
    const [first] = refused;
    if (first === undefined) return { error: null, details: { attempts: held.length } };
    const message = `${refused.length} of ${held.length} attempts of worker ${worker.name} could not be left to ${heir.name}`;
    return { error: { code: first.code, message }, details: { attempts: held.length, refused } };
  };
  /** A version that is not said is the newest that is known here. */
  const whole = async (tenant: string, command: WorkerCommand): Promise<CommandWords> => {
    if (command.type === "pkg.uninstall") return { ...command, version: command.version ?? null };
    if (command.type !== "pkg.install") return command;
    if (command.version !== undefined) return { ...command, version: command.version };
    const prefix = `${command.name}/`;
    const { items } = await reader.page({ page: "docs", tenant, collection: "package", prefix, limit: 1_000 });
    const versions = items.map(({ id }) => id.slice(id.lastIndexOf("/") + 1)).sort(compareVersions);
    const version = versions.at(-1);
    if (version !== undefined) return { ...command, version };
    throw fault("E.REQUEST.INVALID", `no version of ${command.name} is known here; say body.version`, { path: "body.version" });
  };

  return {
    async enrolWorker(call) {
      const said = readWorkerEnrolRequest(readBody(call));
      if (said instanceof Fault) throw said;
      const about = aboutIn(said);
      return enrol(call, {
        workerId: said.workerId,
        name: said.name ?? said.workerId,
        about,
        status: null,
        packages: about.packages,
      });
    },

    async signWorker(call) {
      const said = readWorkerHeartbeatRequest(readBody(call));
      if (said instanceof Fault) throw said;
      const packages = said.packages === undefined ? null : packagesIn(said.packages);
      return enrol(call, { workerId: said.workerId, name: said.workerId, about: null, status: said.status ?? null, packages });
    },

    async commandWorker(call) {
      const read = readWorkerCommand(readBody(call));
      if (read instanceof Fault) throw read;
      const { tenant } = call.identity;
      const named = call.params["workerName"] ?? "";
      // By what the caller said: which worker has the name, and which version is the newest, may be another now.
      const isIt = ({ worker, workerName, order }: OrderBody): boolean =>
        (workerName === named || instanceIn(worker) === named) && isSameOrder(order, asGiven(read, order));
      return commands.once(call, { isIt, newId: () => environment.ids.next() }, async (id, ask) => {
        const target = await find(call);
        if (!(await carryOut(call, { id, ask }, target, await whole(tenant, read)))) return null;
        const { body } = await commands.find(tenant, id);
        return body ?? { workerName: target.worker.name, sentAt: environment.clock.now() };
      });
    },

    async getCommand(call) {
      const id = call.params["commandId"] ?? "";
      const { body, head } = await commands.find(call.identity.tenant, id);
      if (body === null) throw fault("E.NOT_FOUND", `there is no command ${id.slice(0, 100)}`);
      return { body: viewCommand(id, body, head) };
    },
  };
}

/** The command as the one before was given, where the caller left the version to us. */
function asGiven(command: WorkerCommand, before: OrderBody["order"]): CommandWords {
  if (command.type === "pkg.uninstall") return { ...command, version: command.version ?? null };
  if (command.type !== "pkg.install") return command;
  return { ...command, version: command.version ?? (before.type === "pkg.install" ? before.version : "") };
}

/** What came of a rebind. */
type Rebound = Pick<Extract<Command, { type: "worker.noted" }>, "error" | "details">;

/** The id of a command, and the caller's key. */
interface Named {
  readonly id: string;
  readonly ask: Ask | null;
}

interface Target {
  readonly worker: WorkerRow;
  readonly workers: readonly WorkerRow[];
}

const unregistered = (workerId: string): Fault =>
  fault("E.NOT_FOUND", `there is no worker ${workerId.slice(0, 100)}; register it first`);

function aboutIn({ capabilities: said = {}, packages = [], runtimes }: WorkerEnrolRequest): WorkerAbout {
  const capabilities = Array.isArray(said) ? { features: said } : said;
  const {
    concurrency = {},
    features = [],
    payloadTypes = [],
    pool = "default",
    tags = {},
    hostname = "",
    version = "",
  } = capabilities;
  return {
    slots: concurrency.maxParallel ?? 1,
    ...(concurrency.perNodeLimits !== undefined && { perNodeLimits: concurrency.perNodeLimits }),
    packages: packagesIn(packages),
    runtimes: runtimes ?? capabilities.runtimes ?? [],
    features,
    payloadTypes,
    pool,
    tags,
    hostname,
    version,
    // Until its socket says more.
    dialect: "v2",
  };
}

const packagesIn = (packages: NonNullable<WorkerEnrolRequest["packages"]>): WorkerAbout["packages"] =>
  packages.map(({ name, version, status = "installed" }) => ({ name, version, status }));

/** As the caller reached us: it may be by another name than we know of ourselves. */
function addressFor(call: Call, isSecure: boolean): string {
  const host = call.header("host") ?? "";
  const named = /^[A-Za-z0-9._-]+(:\d{1,5})?$|^\[[0-9A-Fa-f:.]+\](:\d{1,5})?$/.test(host) ? host : "localhost";
  return `${isSecure ? "wss" : "ws"}://${named}${sessionPath}`;
}
