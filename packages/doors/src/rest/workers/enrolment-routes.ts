// The routes by which a worker makes itself known without a socket, and commands to workers: drain, packages, and leaving what follows to
// another. What a command became is a document of the engine's.

import type {
  Command,
  EnrolWorker,
  IdempotencyKey,
  StoreReader,
  WorkerCommandRecord,
  WorkerDescription,
  WorkerRow,
} from "@astraflow/engine";
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
import {
  auditRefusal,
  type EngineClient,
  instanceIdOf,
  isSameCommand,
  presentCommand,
  registerIdempotencyKey,
  workerQueueOf,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import { sessionPath } from "../../session/server/websocket-door.ts";
import { type RestCall, type RestReply, type RouteHandler, readIdempotencyKey, readJsonBody } from "../requests/rest-call.ts";
import { createWorkerCommands } from "./worker-commands.ts";

export interface EnrolmentRoutesOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: DoorEnvironment;
  readonly digest: (text: string) => string;
  /** This port speaks TLS. */
  readonly isSecure?: boolean;
  /** A worker without a socket said that it lives. */
  readonly onSignOfLife?: (tenant: string, worker: string) => void;
}

/** What may be asked for by the route of commands. */
type CompleteCommand = Extract<WorkerCommandRecord["order"], { type: WorkerCommand["type"] }>;

const enrolmentLimits = {
  /** Attempts of a worker that one rebind looks at. */
  attemptsMax: 200,
} as const;

export function enrolmentHandlers(
  options: EnrolmentRoutesOptions,
): Record<"enrolWorker" | "signWorker" | "commandWorker" | "getCommand", RouteHandler> {
  const { engineClient, reader, environment } = options;
  const commands = createWorkerCommands(options);

  /** Under a key it is done once, and answered as the first time. */
  const enrol = async (
    call: RestCall,
    request: {
      workerId: string;
      name: string;
      about: WorkerDescription | null;
      status: EnrolWorker["status"];
      packages: WorkerDescription["packages"] | null;
    },
  ): Promise<RestReply> => {
    const { workerId, ...rest } = request;
    const { tenant, user } = call.identity;
    const key = readIdempotencyKey(call);
    const order = {
      type: "worker.enrol",
      tenant,
      by: user,
      corr: call.requestId,
      ask: key === null ? null : { key, digest: options.digest(canonicalJson(["worker.enrol", user, request])) },
      worker: `${tenant}/${workerId}`,
      ...rest,
    } as const;
    const answer = await engineClient.request(order).catch((why: unknown) => {
      throw why instanceof Fault && why.code === "E.NOT_FOUND" ? workerNotRegistered(workerId) : why;
    });
    if (answer.of !== "enrolled") throw fault("E.INTERNAL", `worker.enrol was answered with ${answer.of}`);
    const { worker, heartbeatMs, isOnline, repeated } = answer;
    // One that has a socket is heard there.
    if (request.about === null && !isOnline) options.onSignOfLife?.(tenant, worker);
    const wsUrl = sessionUrlFor(call, options.isSecure ?? false);
    return {
      body: { instanceId: instanceIdOf(worker), wsUrl, heartbeatIntervalMs: heartbeatMs, connected: isOnline },
      ...(repeated && { headers: { "idempotent-replayed": "true" } }),
    };
  };

  /** By name or instance id; of several of one name, one that is there. */
  const findTarget = async (call: RestCall): Promise<{ worker: WorkerRow; workers: readonly WorkerRow[] }> => {
    const named = call.params["workerName"] ?? "";
    const { items: workers } = await reader.page({ page: "workers", tenant: call.identity.tenant });
    const own = workers.filter(({ id, name }) => name === named || instanceIdOf(id) === named);
    const worker = own.find(({ phase }) => phase === "online") ?? own[0];
    if (worker === undefined) throw fault("E.NOT_FOUND", `there is no worker ${named.slice(0, 100)}`);
    return { worker, workers };
  };
  /** False: it was carried out before under this key. */
  const executeCommand = async (
    call: RestCall,
    named: CommandKey,
    target: TargetWorker,
    command: CompleteCommand,
  ): Promise<boolean> => {
    const { id, ask: idempotencyKey } = named;
    const { tenant, user } = call.identity;
    const ordered = { tenant, by: user, corr: call.requestId, worker: target.worker.id };
    if (command.type === "rebind") {
      const came = await rebind(call, target, command.queue, idempotencyKey);
      await engineClient.request({ type: "worker.noted", ...ordered, id, order: command, ...came });
      return true;
    }
    const answer = await (command.type === "drain"
      ? engineClient.request({ type: "worker.drain", ...ordered, on: true, command: id, ask: idempotencyKey })
      : engineClient.request({ type: "worker.order", ...ordered, id, order: command, ask: idempotencyKey }));
    return !("repeated" in answer);
  };
  /** What the worker holds ends there; what follows in those runs goes to the worker of the queue. */
  const rebind = async (
    call: RestCall,
    { worker, workers }: TargetWorker,
    queue: string,
    idempotencyKey: IdempotencyKey | null,
  ): Promise<RebindOutcome> => {
    const { tenant, user } = call.identity;
    const audit = { action: "worker.rebind", targetType: "worker", target: instanceIdOf(worker.id), data: { queue } };
    const successor = await auditRefusal(engineClient, call, audit, () => {
      const found = workers.find(({ id }) => workerQueueOf(id) === queue);
      if (found !== undefined) return found;
      throw fault("E.REQUEST.INVALID", `body.queue is not the queue of a worker here; the list of workers shows their queues`, {
        path: "body.queue",
      });
    });
    // Many commands carry it out: the key is its own before the first of them.
    await registerIdempotencyKey(engineClient, call, idempotencyKey);
    if (successor.id === worker.id) return { error: null, details: { attempts: 0 } };
    const { held } = await reader.page({ page: "worker", tenant, worker: worker.id, limit: enrolmentLimits.attemptsMax });
    const asked = held.map(({ id, run }) =>
      engineClient
        .request({
          type: "run.rebind",
          tenant,
          by: user,
          corr: call.requestId,
          run,
          node: id,
          worker: successor.id,
          mode: "drain",
        })
        .then(
          () => null,
          (why: unknown) => ({ task: id, code: why instanceof Fault ? why.code : "E.INTERNAL" }),
        ),
    );
    const refused = (await Promise.all(asked)).filter((one) => one !== null);
    const [first] = refused;
    if (first === undefined) return { error: null, details: { attempts: held.length } };
    const message = `${refused.length} of ${held.length} attempts of worker ${worker.name} could not be left to ${successor.name}`;
    return { error: { code: first.code, message }, details: { attempts: held.length, refused } };
  };
  /** A version that is not said is the newest that is known here. */
  const completeCommand = async (tenant: string, command: WorkerCommand): Promise<CompleteCommand> => {
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
      const request = readWorkerEnrolRequest(readJsonBody(call));
      if (request instanceof Fault) throw request;
      const about = toWorkerDescription(request);
      return enrol(call, {
        workerId: request.workerId,
        name: request.name ?? request.workerId,
        about,
        status: null,
        packages: about.packages,
      });
    },

    async signWorker(call) {
      const request = readWorkerHeartbeatRequest(readJsonBody(call));
      if (request instanceof Fault) throw request;
      const packages = request.packages === undefined ? null : readReportedPackages(request.packages);
      return enrol(call, {
        workerId: request.workerId,
        name: request.workerId,
        about: null,
        status: request.status ?? null,
        packages,
      });
    },

    async commandWorker(call) {
      const read = readWorkerCommand(readJsonBody(call));
      if (read instanceof Fault) throw read;
      const { tenant } = call.identity;
      const named = call.params["workerName"] ?? "";
      // By what the caller said: which worker has the name, and which version is the newest, may be another now.
      const isIt = ({ worker, workerName, order }: WorkerCommandRecord): boolean =>
        (workerName === named || instanceIdOf(worker) === named) && isSameCommand(order, withVersionOf(read, order));
      return commands.runOnce(call, { isIt, newId: () => environment.ids.next() }, async (id, idempotencyKey) => {
        const target = await findTarget(call);
        if (!(await executeCommand(call, { id, ask: idempotencyKey }, target, await completeCommand(tenant, read)))) return null;
        const { body } = await commands.find(tenant, id);
        return body ?? { workerName: target.worker.name, sentAt: environment.clock.now() };
      });
    },

    async getCommand(call) {
      const id = call.params["commandId"] ?? "";
      const { body, head } = await commands.find(call.identity.tenant, id);
      if (body === null) throw fault("E.NOT_FOUND", `there is no command ${id.slice(0, 100)}`);
      return { body: presentCommand(id, body, head) };
    },
  };
}

/** The command as the one before was given, where the caller left the version to us. */
function withVersionOf(command: WorkerCommand, before: WorkerCommandRecord["order"]): CompleteCommand {
  if (command.type === "pkg.uninstall") return { ...command, version: command.version ?? null };
  if (command.type !== "pkg.install") return command;
  return { ...command, version: command.version ?? (before.type === "pkg.install" ? before.version : "") };
}

/** What came of a rebind. */
type RebindOutcome = Pick<Extract<Command, { type: "worker.noted" }>, "error" | "details">;

/** The id of a command, and the caller's key. */
interface CommandKey {
  readonly id: string;
  readonly ask: IdempotencyKey | null;
}

interface TargetWorker {
  readonly worker: WorkerRow;
  readonly workers: readonly WorkerRow[];
}

const workerNotRegistered = (workerId: string): Fault =>
  fault("E.NOT_FOUND", `there is no worker ${workerId.slice(0, 100)}; register it first`);

function toWorkerDescription({ capabilities: request = {}, packages = [], runtimes }: WorkerEnrolRequest): WorkerDescription {
  const capabilities = Array.isArray(request) ? { features: request } : request;
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
    packages: readReportedPackages(packages),
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

const readReportedPackages = (packages: NonNullable<WorkerEnrolRequest["packages"]>): WorkerDescription["packages"] =>
  packages.map(({ name, version, status = "installed" }) => ({ name, version, status }));

/** As the caller reached us: it may be by another name than we know of ourselves. */
function sessionUrlFor(call: RestCall, isSecure: boolean): string {
  const host = call.header("host") ?? "";
  const named = /^[A-Za-z0-9._-]+(:\d{1,5})?$|^\[[0-9A-Fa-f:.]+\](:\d{1,5})?$/.test(host) ? host : "localhost";
  return `${isSecure ? "wss" : "ws"}://${named}${sessionPath}`;
}
