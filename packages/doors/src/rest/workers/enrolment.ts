// The routes by which a worker makes itself known without a socket, and commands to workers: drain, packages, and leaving what follows to
// another. What a command became is a document; the engine writes those that a worker has to answer, the others are written here.

import type { Reader, WorkerAbout, WorkerRow } from "@astraflow/engine";
import { canonicalText, compareVersions } from "@astraflow/graph";
import {
  Fault,
  fault,
  readWorkerCommand,
  readWorkerEnrol,
  readWorkerSign,
  type WorkerCommand,
  type WorkerEnrolRequest,
} from "@astraflow/protocol";
import type { Link } from "../../link.ts";
import type { Outside } from "../../outside.ts";
import { isConflict } from "../../people/people-store.ts";
import { sessionPath } from "../../session/door.ts";
import { type Call, type Handler, type Reply, readBody, readIdempotencyKey } from "../call.ts";
import { type CommandBody, type CommandWords, isSameCommand, viewCommand, viewCommandRef } from "./enrolment-view.ts";
import { instanceIn, queueOf } from "./view-workers.ts";

export interface EnrolmentOptions {
  readonly link: Link;
  readonly reader: Reader;
  readonly outside: Outside;
  readonly digest: (text: string) => string;
  /** This port speaks TLS. */
  readonly isSecure?: boolean;
}

const enrolmentLimits = {
  /** As long as those are kept that a worker answers. */
  commandMs: 7 * 86_400_000,
  /** Attempts of a worker that one rebind looks at. */
  attemptsMax: 200,
} as const;

export function enrolmentHandlers(
  options: EnrolmentOptions,
): Record<"enrolWorker" | "signWorker" | "commandWorker" | "getCommand", Handler> {
  const { link, reader, outside } = options;

  const enrol = async (
    call: Call,
    said: {
      workerId: string;
      name: string;
      about: WorkerAbout | null;
      status: string | null;
      packages: WorkerAbout["packages"] | null;
    },
  ): Promise<Reply> => {
    const { workerId, ...rest } = said;
    const { tenant, user } = call.identity;
    const order = {
      type: "worker.enrol",
      tenant,
      by: user,
      corr: call.requestId,
      worker: `${tenant}/${workerId}`,
      ...rest,
    } as const;
    const answer = await link.ask(order).catch((why: unknown) => {
      throw why instanceof Fault && why.code === "E.NOT_FOUND" ? unregistered(workerId) : why;
    });
    if (answer.of !== "enrolled") throw fault("E.INTERNAL", `worker.enrol was answered with ${answer.of}`);
    const { worker, heartbeatMs, isOnline } = answer;
    const wsUrl = addressFor(call, options.isSecure ?? false);
    return { body: { instanceId: instanceIn(worker), wsUrl, heartbeatIntervalMs: heartbeatMs, connected: isOnline } };
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
  const commandOf = async (tenant: string, id: string): Promise<{ body: CommandBody | null; head: number }> => {
    const { items, head } = await reader.page({ page: "doc", tenant, collection: "command", names: [id] });
    const [doc = null] = items;
    return { body: doc === null ? null : (JSON.parse(doc.body) as CommandBody), head };
  };
  /** A command that the scheduler carries out itself is over when it is written down. */
  const note = async (
    call: Call,
    id: string,
    worker: WorkerRow,
    order: CommandWords,
    details: NonNullable<CommandBody["details"]> | null,
  ): Promise<void> => {
    const now = outside.clock.now();
    const { tenant, user } = call.identity;
    const body: CommandBody = {
      worker: worker.id,
      workerName: worker.name,
      order,
      by: user,
      corr: call.requestId,
      status: details?.["refused"] === undefined ? "acked" : "failed",
      sentAt: now,
      endedAt: now,
      ...(details !== null && { details }),
    };
    const put = {
      collection: "command",
      name: id,
      rev: 0,
      body: JSON.stringify(body),
      sort: id,
      due: now + enrolmentLimits.commandMs,
    };
    await link.ask({ type: "docs.write", tenant, by: user, corr: call.requestId, puts: [put] });
  };

  const carryOut = async (call: Call, id: string, target: Target, command: CommandWords): Promise<void> => {
    const { worker } = target;
    const { tenant, user } = call.identity;
    const ordered = { tenant, by: user, corr: call.requestId };
    if (command.type === "drain") {
      await link.ask({ type: "worker.drain", ...ordered, worker: worker.id, on: true, command: id });
      return note(call, id, worker, command, null);
    }
    if (command.type === "rebind") return note(call, id, worker, command, await rebind(call, target, command.queue));
    await link.ask({ type: "worker.order", ...ordered, worker: worker.id, id, order: command });
  };
  /** What the worker holds ends there; what follows in those runs goes to the worker of the queue. */
  const rebind = async (call: Call, { worker, workers }: Target, queue: string): Promise<NonNullable<CommandBody["details"]>> => {
    const { tenant, user } = call.identity;
    const heir = workers.find(({ id }) => queueOf(id) === queue);
    if (heir === undefined)
      throw fault("E.REQUEST.INVALID", `body.queue is not the queue of a worker here; the list of workers shows their queues`, {
        path: "body.queue",
      });
    if (heir.id === worker.id) return { attempts: 0 };
    const { held } = await reader.page({ page: "worker", tenant, worker: worker.id, limit: enrolmentLimits.attemptsMax });
    const asked = held.map(({ id, run }) =>
      link
        .ask({ type: "run.rebind", tenant, by: user, corr: call.requestId, run, node: id, worker: heir.id, mode: "drain" })
        .then(
          () => null,
          (why: unknown) => ({ task: id, code: why instanceof Fault ? why.code : "E.INTERNAL" }),
        ),
    );
    const refused = (await Promise.all(asked)).filter((one) => one !== null);
    return { attempts: held.length, ...(refused.length > 0 && { refused }) };
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
      readIdempotencyKey(call);
      const said = readWorkerEnrol(readBody(call));
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
      readIdempotencyKey(call);
      const said = readWorkerSign(readBody(call));
      if (said instanceof Fault) throw said;
      const packages = said.packages === undefined ? null : packagesIn(said.packages);
      return enrol(call, { workerId: said.workerId, name: said.workerId, about: null, status: said.status ?? null, packages });
    },

    async commandWorker(call) {
      const key = readIdempotencyKey(call);
      const read = readWorkerCommand(readBody(call));
      if (read instanceof Fault) throw read;
      const { tenant } = call.identity;
      const target = await find(call);
      const command = await whole(tenant, read);
      const id = key === null ? outside.ids.next() : options.digest(canonicalText({ of: "command", tenant, key }));
      const repeat = async (): Promise<Reply | null> => {
        const { body } = await commandOf(tenant, id);
        if (body === null) return null;
        if (isSameCommand(body, target.worker.id, command))
          return { body: viewCommandRef(id, body), headers: { "idempotent-replayed": "true" } };
        throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for another command; use a new key");
      };
      const before = key === null ? null : await repeat();
      if (before !== null) return before;
      try {
        await carryOut(call, id, target, command);
      } catch (why) {
        // Another request under the same key was quicker.
        const other = isConflict(why) && key !== null ? await repeat() : null;
        if (other === null) throw why;
        return other;
      }
      const ref = { workerName: target.worker.name, sentAt: outside.clock.now() };
      return { body: viewCommandRef(id, ref), headers: { location: `/api/v1/commands/${id}` } };
    },

    async getCommand(call) {
      const id = call.params["commandId"] ?? "";
      const { body, head } = await commandOf(call.identity.tenant, id);
      if (body === null) throw fault("E.NOT_FOUND", `there is no command ${id.slice(0, 100)}`);
      return { body: viewCommand(id, body, head) };
    },
  };
}

interface Target {
  readonly worker: WorkerRow;
  readonly workers: readonly WorkerRow[];
}

const unregistered = (workerId: string): Fault =>
  fault("E.NOT_FOUND", `there is no worker ${workerId.slice(0, 100)}; register it first`);

function aboutIn({ capabilities = {}, packages = [], runtimes }: WorkerEnrolRequest): WorkerAbout {
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
