// What a scheduler does with packages on many workers, each part built once.

import type { ServiceContext } from "../environment/service-environment.ts";
import type { PackageInstalls } from "../packages/package-installs.ts";
import type { PackageRepository } from "../packages/package-repository.ts";
import type { WorkerCommands } from "../workers/worker-commands.ts";
import { FleetCommands } from "./fleet-commands.ts";
import { FleetInstalls } from "./fleet-installs.ts";
import { FleetLoop } from "./fleet-loop.ts";
import { OnDemandInstalls } from "./on-demand-installs.ts";
import { RolloutDriver, type RolloutDriverOptions } from "./rollout-driver.ts";
import { Rollouts } from "./rollouts.ts";
import { defaultKeptVersions, VersionRetention } from "./version-retention.ts";
import { WithdrawnVersions } from "./withdrawn-versions.ts";

export interface FleetServicesOptions {
  /** Versions before the newest one that stay on the workers of a tenant after a rollout; absent: two. */
  readonly keptVersionsOf?: (tenant: string) => number;
  /** Whether packages that tasks wait for are installed without an order; absent: never. */
  readonly isOnDemandAllowed?: (tenant: string) => boolean;
  readonly onRolloutEnded?: RolloutDriverOptions["onEnded"];
}

interface FleetParts {
  readonly packages: PackageRepository;
  readonly packageInstalls: PackageInstalls;
  readonly commands: WorkerCommands;
}

export function createFleetServices(
  options: ServiceContext & FleetServicesOptions & { readonly hasPolling?: boolean | undefined },
  { packages, packageInstalls, commands: workerCommands }: FleetParts,
) {
  const { keptVersionsOf = () => defaultKeptVersions, isOnDemandAllowed = () => false, onRolloutEnded } = options;
  const commands = new FleetCommands(options, workerCommands);
  const installs = new FleetInstalls(options, packages, packageInstalls, commands);
  const retention = new VersionRetention({ ...options, packages, installs, keptVersionsOf });
  const driver = new RolloutDriver({
    ...options,
    packages,
    commands,
    onFinished: (caller, record) => retention.retireAfter(caller, record),
    onEnded: onRolloutEnded,
  });
  const onDemand = new OnDemandInstalls({ ...options, packages, installs, isAllowed: isOnDemandAllowed });
  const withdrawn = new WithdrawnVersions(options);
  const loop = new FleetLoop({
    ...options,
    steps: [
      (tenant) => driver.step(tenant),
      (tenant) => withdrawn.step(tenant).then(() => false),
      (tenant) => onDemand.step(tenant).then(() => false),
      (tenant) => installs.step(tenant),
    ],
  });
  return { installs, rollouts: new Rollouts(options, packages, packageInstalls), loop };
}
