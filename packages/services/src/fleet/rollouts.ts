// Rollouts of a package's version in phases, and rollbacks: what callers ask for. rollout-driver.ts carries them out.

import { comparePackageVersions } from "@astraflow/archive";
import type { DocPut } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import {
  fault,
  type PackageRollbackRequest,
  type PhaseTarget,
  packageFleetLimits,
  type RolloutRequest,
} from "@astraflow/protocol";
import { searchTermFor } from "../documents/derived-names.ts";
import {
  idempotencyKeyFor,
  isConflict,
  notFound,
  RecordStore,
  readDocument,
  retryOnConflict,
  wasCarriedOut,
} from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import type { PackageInstalls } from "../packages/package-installs.ts";
import type { PackageRepository } from "../packages/package-repository.ts";
import { type PackageVersionRecord, packageVersionPut } from "../packages/package-store.ts";
import { noWorkersFault } from "./fleet-installs.ts";
import { type FleetMember, heldVersions, holdsVersion, installableMembers, listFleet, toWaiting } from "./fleet-members.ts";
import { listOperations, type OperationPage } from "./operation-list.ts";
import {
  beginRollback,
  defaultFailureLimits,
  defaultObserveMs,
  defaultPhases,
  finish,
  isOpenRollout,
  presentRollout,
  type RolloutRecord,
  rolloutCollection,
  rolloutLockCollection,
  workersFor,
} from "./rollout-record.ts";
import { planRolloutWrite, planWithdrawal } from "./rollout-writes.ts";

/** A stop and a step of the driver may meet. */
const stopAttemptsMax = 5;

type PlannedRollout = Pick<RolloutRecord, "kind" | "version" | "previousVersion" | "pool" | "phases"> &
  Partial<Pick<RolloutRecord, "failures" | "observeMs">> & { readonly puts: readonly DocPut[] };

export class Rollouts {
  readonly #context: ServiceContext;
  readonly #packages: PackageRepository;
  readonly #installs: PackageInstalls;
  readonly #records: RecordStore<RolloutRecord>;

  constructor(context: ServiceContext, packages: PackageRepository, installs: PackageInstalls) {
    this.#context = context;
    this.#packages = packages;
    this.#installs = installs;
    this.#records = new RecordStore(context, rolloutCollection);
  }

  async start(caller: Caller, packageName: string, request: RolloutRequest, key: string | null) {
    const { tenant } = caller.identity;
    const { version, pool = null, phases = defaultPhases } = request;
    return this.#begin(caller, packageName, ["startRollout", request], key, async () => {
      checkPhases(phases);
      const { record, rev } = await this.#packages.find(tenant, packageName, version);
      await this.#installs.checkTrust(tenant, record);
      const members = await this.#findMembers(tenant, pool);
      return {
        kind: "rollout",
        version,
        previousVersion: previousOf(heldVersions(members, packageName), version),
        pool,
        phases: phases.map((target) => ({ target, status: "waiting", workers: [] })),
        failures: { ...defaultFailureLimits, ...request.failures },
        ...(request.observeMs !== undefined && { observeMs: request.observeMs }),
        puts: republishIfWithdrawn(record, rev),
      };
    });
  }

  /** One step back to the version before, or to a named one, on all workers of the scope at once. */
  async rollback(caller: Caller, packageName: string, request: PackageRollbackRequest, key: string | null) {
    const { tenant } = caller.identity;
    const { pool = null } = request;
    return this.#begin(caller, packageName, ["rollbackPackage", request], key, async () => {
      const members = await this.#findMembers(tenant, pool);
      const { items: published } = await this.#packages.list(tenant, packageName);
      if (published.length === 0) throw notFound("published version of package", packageName);
      const current = findCurrent(published, members, packageName, request.to);
      const target = request.to ?? (await this.#findPrevious(tenant, packageName, published, current));
      const { record, rev } = await this.#packages.find(tenant, packageName, target);
      await this.#installs.checkTrust(tenant, record);
      const holders = members.filter((one) => holdsVersion(one, packageName, current));
      // Where only a pool goes back, the others go on with the version.
      const withdrawn = pool === null ? await planWithdrawal(this.#packages, tenant, packageName, current) : [];
      return {
        kind: "rollback",
        version: target,
        previousVersion: current,
        pool,
        phases: [{ target: "100%", status: "installing", workers: holders.map(toWaiting) }],
        observeMs: 0,
        puts: [...republishIfWithdrawn(record, rev), ...withdrawn],
      };
    });
  }

  /** Workers keep what they have, or go back. */
  async stop(caller: Caller, packageName: string, id: string, isRollback: boolean, key: string | null) {
    const { environment, digest, engineClient } = this.#context;
    const { tenant, user } = caller.identity;
    const ask = idempotencyKeyFor(digest, key, ["stopRollout", user, packageName, id, isRollback]);
    return retryOnConflict(stopAttemptsMax, async () => {
      const { record, rev } = await this.#find(tenant, packageName, id).catch(async (why: unknown) => {
        await wasCarriedOut(engineClient, caller, ask);
        throw why;
      });
      const reason = { code: "operator", message: `${user} stopped it` } as const;
      const now = environment.clock.now();
      if (record.status !== "running") {
        if (!(await wasCarriedOut(engineClient, caller, ask))) throw endedFault(record);
        return { ...(await this.find(tenant, packageName, id)), repeated: true };
      }
      const goesBack = isRollback && record.kind === "rollout";
      const next = goesBack ? beginRollback(record, reason) : finish({ ...record, reason }, "stopped", now);
      const puts = goesBack ? await planWithdrawal(this.#packages, tenant, packageName, record.version) : [];
      const write = planRolloutWrite({ ...next, updatedAt: now }, rev, { action: "package.rollout.stop", puts });
      const { repeated } = await this.#records.write(actorOf(caller), { ...write, ask });
      const found = await this.#find(tenant, packageName, id);
      return { rollout: presentRollout(found.record), head: found.head, repeated };
    });
  }

  async find(tenant: string, packageName: string, id: string) {
    const { record, head } = await this.#find(tenant, packageName, id);
    return { rollout: presentRollout(record), head };
  }

  list(tenant: string, packageName: string, page: OperationPage) {
    const query = { tenant, collection: rolloutCollection, packageName };
    return listOperations({ reader: this.#context.reader, packages: this.#packages }, query, page, presentRollout);
  }

  async #find(tenant: string, packageName: string, id: string) {
    const { record, rev, head } = await this.#records.find(tenant, id);
    if (record === null || record.packageName !== packageName) throw notFound(`rollout of package ${packageName}`, id);
    return { record, rev, head };
  }

  async #begin(
    caller: Caller,
    packageName: string,
    request: readonly unknown[],
    key: string | null,
    plan: () => Promise<PlannedRollout>,
  ) {
    const { environment, digest, engineClient } = this.#context;
    const { tenant, user } = caller.identity;
    const id = key === null ? environment.ids.next() : `rollout-${digest(canonicalJson([tenant, user, key]))}`;
    const ask = idempotencyKeyFor(digest, key, [user, packageName, ...request]);
    const lock: DocPut = {
      collection: rolloutLockCollection,
      name: packageName,
      rev: 0,
      body: JSON.stringify({ rolloutId: id }),
    };
    const repeated = await this.#newRecord(caller, packageName, id, plan).then(
      async ({ record, puts }) => {
        const write = planRolloutWrite(record, 0, { action: `package.${record.kind}`, puts: [lock, ...puts] });
        const written = this.#records.write(actorOf(caller), { ...write, ask });
        return (await written.catch((why: unknown) => this.#explainConflict(tenant, packageName, why))).repeated;
      },
      async (why: unknown) => {
        if (await wasCarriedOut(engineClient, caller, ask)) return true;
        throw why;
      },
    );
    const found = await this.#find(tenant, packageName, id);
    return { rollout: presentRollout(found.record), head: found.head, repeated };
  }

  async #newRecord(caller: Caller, packageName: string, id: string, plan: () => Promise<PlannedRollout>) {
    const { environment, reader } = this.#context;
    const { identity, requestId } = caller;
    const { puts, ...planned } = await plan();
    const now = environment.clock.now();
    const { head } = await readDocument(reader, identity.tenant, rolloutLockCollection, packageName);
    const record: RolloutRecord = {
      id,
      packageName,
      status: "running",
      phase: 0,
      failures: defaultFailureLimits,
      observeMs: defaultObserveMs,
      observeUntil: null,
      tasks: { succeeded: 0, failed: 0 },
      logCursor: head,
      rollback: null,
      reason: null,
      lockRev: 1,
      identity,
      requestId,
      createdAt: now,
      updatedAt: now,
      finishedAt: null,
      ...planned,
    };
    return { record, puts };
  }

  /** Of two rollouts that begin at once, or of one that is open, the other one is named. */
  async #explainConflict(tenant: string, packageName: string, why: unknown): Promise<never> {
    if (!isConflict(why)) throw why;
    const { doc } = await readDocument(this.#context.reader, tenant, rolloutLockCollection, packageName);
    if (doc === null) throw why;
    const { rolloutId } = JSON.parse(doc.body) as { readonly rolloutId: string };
    throw fault("E.CONFLICT", `rollout ${rolloutId} of package ${packageName} is not over; wait for its end, or stop it`, {
      rolloutId,
    });
  }

  async #findMembers(tenant: string, pool: string | null): Promise<readonly FleetMember[]> {
    const members = installableMembers(await listFleet(this.#context.reader, tenant), { pool });
    if (members.length === 0) throw noWorkersFault(pool);
    if (members.length > packageFleetLimits.workersMax)
      throw fault(
        "E.LIMIT.REACHED",
        `${members.length} workers are more than the ${packageFleetLimits.workersMax} of one rollout; name a pool`,
      );
    return members;
  }

  /** The version that the last rollout of the current one replaced, else the next lower one. */
  async #findPrevious(
    tenant: string,
    name: string,
    published: readonly PackageVersionRecord[],
    current: string,
  ): Promise<string> {
    const offered = published.filter(({ status }) => status === "published").map(({ version }) => version);
    const { items } = await this.#records.list({ tenant, search: searchTermFor("package", name), order: "desc", limit: 100 });
    const last =
      items.find(({ record }) => record.kind === "rollout" && record.version === current)?.record.previousVersion ?? null;
    const previous = last !== null && offered.includes(last) ? last : previousOf(new Set(offered), current, "lower");
    if (previous !== null) return previous;
    throw fault("E.CONFLICT", `no published version of ${name} is older than ${current}; name one in body.to`, {
      path: "body.to",
    });
  }
}

/** The newest below this version; if there is none, the newest of the others, unless only lower ones will do. */
function previousOf(versions: ReadonlySet<string>, version: string, which: "lower" | "any" = "any"): string | null {
  const others = [...versions].filter((one) => one !== version).sort((a, b) => comparePackageVersions(b, a));
  const lower = others.find((one) => comparePackageVersions(one, version) < 0);
  return lower ?? (which === "any" ? (others[0] ?? null) : null);
}

/** The newest version in use that is not withdrawn, other than the one to go back to. */
function findCurrent(
  published: readonly PackageVersionRecord[],
  members: readonly FleetMember[],
  name: string,
  target: string | undefined,
): string {
  const held = heldVersions(members, name);
  const offered = published.filter(({ status, version }) => status === "published" && version !== target && held.has(version));
  const current = offered[0]?.version;
  if (current !== undefined) return current;
  throw fault("E.CONFLICT", `no connected worker holds a version of ${name} that could be taken back`, { package: name });
}

/** Somebody wants it in use again. */
const republishIfWithdrawn = (record: PackageVersionRecord, rev: number): DocPut[] =>
  record.status === "withdrawn" ? [packageVersionPut({ ...record, status: "published" }, rev)] : [];

function checkPhases(phases: readonly PhaseTarget[]): void {
  const sizes = phases.map((target) => workersFor(target, packageFleetLimits.workersMax));
  const at = sizes.findIndex((size, index) => index > 0 && size < (sizes[index - 1] ?? 0));
  // Numbers and shares can only be compared once the workers are known.
  const isComparable = phases.every((target) => typeof target === typeof phases[0]);
  if (at >= 0 && isComparable)
    throw fault("E.REQUEST.INVALID", `body.phases[${at}] is smaller than the phase before it`, { path: `body.phases[${at}]` });
}

const endedFault = ({ id, status }: Pick<RolloutRecord, "id" | "status">) =>
  fault("E.CONFLICT", `rollout ${id} is ${status} and cannot be stopped${isOpenRollout({ status }) ? "; wait for its end" : ""}`);
