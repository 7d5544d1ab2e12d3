// Installs and removals of a package on chosen workers, on a pool or on all: one document each, with the state of every worker.

import { canonicalJson } from "@astraflow/graph";
import {
  type FleetInstall,
  type FleetInstallRequest,
  type FleetWorker,
  fault,
  omitUndefined,
  packageFleetLimits,
} from "@astraflow/protocol";
import { searchTermFor, sortKeyOf } from "../documents/derived-names.ts";
import {
  idempotencyKeyFor,
  isConflict,
  notFound,
  RecordStore,
  recordPut,
  type StoredRecord,
  wasCarriedOut,
} from "../documents/documents.ts";
import { listRunningRecords, runningTerm } from "../documents/tenant-rounds.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller, type CallerIdentity } from "../identity/identity.ts";
import type { PackageInstalls } from "../packages/package-installs.ts";
import type { PackageRepository } from "../packages/package-repository.ts";
import { isoTime } from "../presentation/iso-time.ts";
import type { FleetCommands, FleetOrder } from "./fleet-commands.ts";
import { advanceEach } from "./fleet-loop.ts";
import { type FleetMember, hasEnded, hasTraceOf, installableMembers, listFleet, toWaiting } from "./fleet-members.ts";
import { listOperations, type OperationPage } from "./operation-list.ts";

const fleetInstallCollection = "package-install";
/** So long an install that is over can be looked up. */
export const endedOperationMs = 30 * 86_400_000;

export interface FleetInstallRecord {
  readonly id: string;
  readonly packageName: string;
  readonly version: string | null;
  readonly action: "install" | "uninstall";
  readonly allowOlder: boolean;
  readonly status: "running" | "done";
  readonly workers: readonly FleetWorker[];
  readonly identity: CallerIdentity;
  readonly requestId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** An install that the scheduler itself begins, under an id by which it begins once. */
export type PlannedInstall = Pick<FleetInstallRecord, "id" | "packageName" | "version" | "action"> & {
  readonly members: readonly FleetMember[];
  /** Also where a worker had a higher version; absent: not there. */
  readonly allowOlder?: boolean;
};

export class FleetInstalls {
  readonly #context: ServiceContext;
  readonly #packages: PackageRepository;
  readonly #installs: PackageInstalls;
  readonly #commands: FleetCommands;
  readonly #records: RecordStore<FleetInstallRecord>;

  constructor(context: ServiceContext, packages: PackageRepository, installs: PackageInstalls, commands: FleetCommands) {
    this.#context = context;
    this.#packages = packages;
    this.#installs = installs;
    this.#commands = commands;
    this.#records = new RecordStore(context, fleetInstallCollection);
  }

  async start(caller: Caller, packageName: string, request: FleetInstallRequest, key: string | null) {
    const { digest, engineClient, environment } = this.#context;
    const { tenant, user } = caller.identity;
    const { action = "install", allowOlder } = request;
    const id = key === null ? environment.ids.next() : `install-${digest(canonicalJson([tenant, user, key]))}`;
    const ask = idempotencyKeyFor(digest, key, ["installPackage", user, packageName, request]);
    const repeated = await this.#plan(tenant, packageName, { ...request, action }).then(
      async ({ version, members }) => {
        const record = this.#newRecord(caller, { id, packageName, version, action, members, ...omitUndefined({ allowOlder }) });
        return (await this.#write(record, 0, { action: `package.${action}`, ask })).repeated;
      },
      async (why: unknown) => {
        if (await wasCarriedOut(engineClient, caller, ask)) return true;
        throw why;
      },
    );
    const found = await this.#records.find(tenant, id);
    if (found.record === null) throw fault("E.NOT_FOUND", "the install of this Idempotency-Key is no longer kept; use a new key");
    return { install: presentInstall(found.record), head: found.head, repeated };
  }

  async #plan(tenant: string, packageName: string, request: FleetInstallRequest) {
    const version =
      request.action === "install" ? await this.#chooseVersion(tenant, packageName, request) : (request.version ?? null);
    return { version, members: chooseMembers(await listFleet(this.#context.reader, tenant), packageName, request, version) };
  }

  /** Begins what the scheduler itself wants done; false: it was begun before. */
  async begin(caller: Caller, planned: PlannedInstall): Promise<boolean> {
    try {
      const record = this.#newRecord(caller, planned);
      await this.#write(record, 0, { action: `package.${planned.action}`, ask: null });
      return true;
    } catch (why) {
      if (!isConflict(why)) throw why;
      return false;
    }
  }

  async find(tenant: string, packageName: string, id: string) {
    const { record, head } = await this.#records.find(tenant, id);
    if (record === null || record.packageName !== packageName) throw notFound(`install of package ${packageName}`, id);
    return { install: presentInstall(record), head };
  }

  list(tenant: string, packageName: string, page: OperationPage) {
    const query = { tenant, collection: fleetInstallCollection, packageName };
    return listOperations({ reader: this.#context.reader, packages: this.#packages }, query, page, presentInstall);
  }

  /** One step of everything that is not done; true: something is left to do. */
  async step(tenant: string): Promise<boolean> {
    const running = await listRunningRecords(this.#records, tenant, ({ status }) => status === "running");
    await advanceEach(this.#context, tenant, running, (stored) => this.#advance(stored));
    return running.length > 0;
  }

  async #advance({ record, rev }: StoredRecord<FleetInstallRecord>): Promise<void> {
    const { identity, requestId } = record;
    const operation = { id: record.id, caller: { identity, requestId } };
    const order: FleetOrder = record;
    const workers = await this.#commands.advance(operation, order, record.workers);
    const isDone = workers.every(hasEnded);
    if (workers === record.workers && !isDone) return;
    const next: FleetInstallRecord = {
      ...record,
      workers,
      status: isDone ? "done" : "running",
      updatedAt: this.#context.environment.clock.now(),
    };
    await this.#write(next, rev, { action: isDone ? `package.${record.action}.done` : null, ask: null });
  }

  async #chooseVersion(tenant: string, name: string, { version }: FleetInstallRequest): Promise<string> {
    const record = await this.#installs.choose(tenant, { name, version });
    if (record === null)
      throw fault(
        "E.NOT_FOUND",
        `${version === undefined ? `no version of ${name} is` : `${name} ${version} is not`} published here; publish it first`,
      );
    await this.#installs.checkTrust(tenant, record);
    return record.version;
  }

  #newRecord({ identity, requestId }: Caller, { members, allowOlder = false, ...planned }: PlannedInstall): FleetInstallRecord {
    const now = this.#context.environment.clock.now();
    const workers = members.map(toWaiting);
    const status = workers.length === 0 ? ("done" as const) : ("running" as const);
    return { ...planned, allowOlder, status, workers, identity, requestId, createdAt: now, updatedAt: now };
  }

  #write(
    record: FleetInstallRecord,
    rev: number,
    { action, ask }: { readonly action: string | null; readonly ask: ReturnType<typeof idempotencyKeyFor> },
  ) {
    const { id, packageName, version, status, createdAt, identity, requestId } = record;
    const isRunning = status === "running";
    const terms = `${isRunning ? runningTerm : status} ${searchTermFor("package", packageName)}`;
    const keep = isRunning ? {} : { keepMs: endedOperationMs };
    const { done, failed } = countWorkers(record.workers);
    const data = omitUndefined({
      package: packageName,
      version: version ?? undefined,
      workers: record.workers.length,
      done,
      failed,
    });
    return this.#records.write(actorOf({ identity, requestId }), {
      puts: [recordPut(fleetInstallCollection, record, rev, { sort: sortKeyOf(createdAt), terms, ...keep })],
      ask,
      ...(action !== null && { audit: { action, targetType: "package-install", target: id, data } }),
    });
  }
}

function chooseMembers(
  fleet: readonly FleetMember[],
  packageName: string,
  request: FleetInstallRequest,
  version: string | null,
): readonly FleetMember[] {
  const { workers, pool, all, action } = request;
  if ([workers, pool, all].filter((one) => one !== undefined).length !== 1)
    throw fault("E.REQUEST.INVALID", "name the workers in exactly one of body.workers, body.pool and body.all", { path: "body" });
  const members =
    workers !== undefined
      ? workers.map((wanted) => findMember(fleet, wanted))
      : action === "uninstall"
        ? fleet.filter((one) => (pool === undefined || one.pool === pool) && hasTraceOf(one, packageName, version))
        : installableMembers(fleet, { pool: pool ?? null });
  if (members.length === 0 && action !== "uninstall") throw noWorkersFault(pool ?? null);
  if (members.length > packageFleetLimits.workersMax)
    throw fault(
      "E.LIMIT.REACHED",
      `${members.length} workers are more than the ${packageFleetLimits.workersMax} of one install; name a pool or some of them`,
    );
  return [...new Map(members.map((one) => [one.workerId, one])).values()];
}

export const noWorkersFault = (pool: string | null) =>
  fault(
    "E.CONFLICT",
    `no worker${pool === null ? "" : ` of pool ${pool}`} that can install packages is connected; start one, or look at the list of workers`,
  );

function findMember(fleet: readonly FleetMember[], wanted: string): FleetMember {
  const found = fleet.filter(({ name, workerId }) => name === wanted || workerId === wanted);
  const member = found.find(({ isConnected }) => isConnected) ?? found[0];
  if (member === undefined) throw notFound("worker", wanted);
  return member;
}

function countWorkers(workers: readonly FleetWorker[]): FleetInstall["counts"] {
  const done = workers.filter(({ status }) => status === "done").length;
  const failed = workers.filter(({ status }) => status === "failed").length;
  return { waiting: workers.length - done - failed, done, failed };
}

function presentInstall(record: FleetInstallRecord): FleetInstall {
  const { id, packageName, version, action, status, workers, identity, createdAt, updatedAt } = record;
  return {
    installId: id,
    packageName,
    version,
    action,
    status,
    counts: countWorkers(workers),
    workers: [...workers],
    createdAt: isoTime(createdAt),
    createdBy: identity.user,
    updatedAt: isoTime(updatedAt),
  };
}
