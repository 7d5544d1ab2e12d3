// Installs that nobody ordered: tasks wait, and only because no worker has their package. Where the operator allows it the published
// version is installed on the least busy worker that could run them.

import { comparePackageVersions } from "@astraflow/archive";
import type { TaskRequirements } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { RecordStore } from "../documents/documents.ts";
import { listRunningRecords } from "../documents/tenant-rounds.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import type { Caller } from "../identity/identity.ts";
import { isPreRelease } from "../packages/package-installs.ts";
import type { PackageRepository } from "../packages/package-repository.ts";
import type { FleetInstalls } from "./fleet-installs.ts";
import { type FleetMember, installableMembers, listFleet } from "./fleet-members.ts";
import { isOpenRollout, type RolloutRecord, rolloutCollection } from "./rollout-record.ts";

const onDemandLimits = {
  /** Queues looked at in one step, and workers whose load is compared. */
  queuesMax: 200,
  workersMax: 50,
  tasksCounted: 1,
  /** One worker is tried with one version this often. */
  retryMs: 600_000,
} as const;

/** Who such installs are recorded under. */
const onDemandUser = "scheduler";

export interface OnDemandInstallsOptions extends ServiceContext {
  readonly packages: PackageRepository;
  readonly installs: FleetInstalls;
  readonly isAllowed: (tenant: string) => boolean;
}

export class OnDemandInstalls {
  readonly #options: OnDemandInstallsOptions;
  readonly #rollouts: RecordStore<RolloutRecord>;

  constructor(options: OnDemandInstallsOptions) {
    this.#options = options;
    this.#rollouts = new RecordStore(options, rolloutCollection);
  }

  /** Looks at everything that waits, and begins one install for each version that is missing. */
  async step(tenant: string): Promise<void> {
    const { reader, isAllowed } = this.#options;
    if (!isAllowed(tenant)) return;
    const { items: queues } = await reader.page({ page: "lines", tenant, max: onDemandLimits.tasksCounted });
    const waiting = queues.flatMap(({ route, tasks }) => (route === null || tasks === 0 ? [] : [route]));
    if (waiting.length === 0) return;
    const fleet = await listFleet(reader, tenant);
    const begun = new Set<string>();
    for (const { needs } of waiting.slice(0, onDemandLimits.queuesMax)) {
      const requirements = JSON.parse(needs) as TaskRequirements;
      const fitting = fleet.filter((one) => one.isConnected && hasPlaceFor(requirements, one));
      if (fitting.some((one) => hasOrGets(requirements, one))) continue;
      const version = await this.#chooseVersion(tenant, requirements);
      const wanted = version === null ? null : canonicalJson([requirements.packageName, version, requirements.pool]);
      if (version === null || wanted === null || begun.has(wanted)) continue;
      begun.add(wanted);
      await this.#begin(tenant, requirements.packageName, version, installableMembers(fitting, requirements));
    }
  }

  /** The only version that will do, else the one that serves best; never one that is withdrawn. */
  async #chooseVersion(tenant: string, requirements: TaskRequirements): Promise<string | null> {
    const { packageName, packageVersion, minVersion } = requirements;
    const { items } = await this.#options.packages.list(tenant, packageName);
    const offered = items.flatMap(({ status, version }) => (status === "published" ? [version] : []));
    if (minVersion === undefined) return offered.includes(packageVersion) ? packageVersion : null;
    const rollout = await this.#findOpenRollout(tenant, packageName);
    // How many workers get the version of an open rollout, and when, is the rollout's to say.
    const fitting = offered.filter((one) => comparePackageVersions(one, minVersion) >= 0 && one !== rollout?.version);
    const preferred = [packageVersion, rollout?.previousVersion].find((one) => typeof one === "string" && fitting.includes(one));
    return preferred ?? fitting.find((one) => !isPreRelease(one)) ?? fitting[0] ?? null;
  }

  async #findOpenRollout(tenant: string, packageName: string): Promise<RolloutRecord | undefined> {
    const open = await listRunningRecords(this.#rollouts, tenant, isOpenRollout);
    return open.find(({ record }) => record.packageName === packageName && record.kind === "rollout")?.record;
  }

  async #begin(tenant: string, packageName: string, version: string, candidates: readonly FleetMember[]): Promise<void> {
    const { digest, environment, installs } = this.#options;
    const period = Math.floor(environment.clock.now() / onDemandLimits.retryMs);
    for (const member of await this.#leastBusyFirst(tenant, candidates)) {
      const id = `demand-${digest(canonicalJson([packageName, version, member.workerId, period]))}`;
      // It may have had a higher version, which is withdrawn by now or which other runs name.
      const planned = { id, packageName, version, action: "install", members: [member], allowOlder: true } as const;
      // One that was tried in this period, and has not got it, is passed over.
      if (await installs.begin(systemCaller(tenant, id), planned)) return;
    }
  }

  async #leastBusyFirst(tenant: string, candidates: readonly FleetMember[]): Promise<readonly FleetMember[]> {
    const { reader } = this.#options;
    const loads = await Promise.all(
      candidates.slice(0, onDemandLimits.workersMax).map(async (member) => {
        const { held } = await reader.page({ page: "worker", tenant, worker: `${tenant}/${member.workerId}`, limit: 1_000 });
        return { member, load: held.length / Math.max(1, member.slots) };
      }),
    );
    return loads.sort((a, b) => a.load - b.load).map(({ member }) => member);
  }
}

const systemCaller = (tenant: string, requestId: string): Caller => ({
  identity: { tenant, user: onDemandUser, grants: [] },
  requestId,
});

const hasPlaceFor = ({ pool, tags }: TaskRequirements, member: FleetMember): boolean =>
  (pool === null || member.pool === pool) && Object.entries(tags).every(([tag, value]) => member.tags[tag] === value);

/** It has a version that will do, whatever its state, or is installing one. */
const hasOrGets = ({ packageName, packageVersion, minVersion }: TaskRequirements, member: FleetMember): boolean =>
  [...member.packages, ...member.openInstalls].some(
    ({ name, version }) =>
      name === packageName &&
      version !== null &&
      (minVersion === undefined ? version === packageVersion : comparePackageVersions(version, minVersion) >= 0),
  );
