// After a rollout some versions before the new one stay on the workers, so that going back is quick. Older ones are uninstalled, unless an
// open run names them.

import { comparePackageVersions } from "@astraflow/archive";
import type { PlanNode } from "@astraflow/graph";
import type { ServiceContext } from "../environment/service-environment.ts";
import type { Caller } from "../identity/identity.ts";
import type { PackageRepository } from "../packages/package-repository.ts";
import { cachedPlanOf } from "../presentation/plan-cache.ts";
import type { FleetInstalls } from "./fleet-installs.ts";
import { type FleetMember, heldVersions, holdsVersion, installableMembers, listFleet } from "./fleet-members.ts";
import type { RolloutRecord } from "./rollout-record.ts";

export const defaultKeptVersions = 2;

const retentionLimits = {
  /** Open runs that are looked at; where there are more nothing is uninstalled. */
  openRunsMax: 2_000,
  runsPerPage: 200,
} as const;
const openPhases = ["queued", "running", "ending"] as const;

export interface VersionRetentionOptions extends ServiceContext {
  readonly packages: PackageRepository;
  readonly installs: FleetInstalls;
  /** Versions before the newest one that workers of a tenant keep. */
  readonly keptVersionsOf: (tenant: string) => number;
}

export class VersionRetention {
  readonly #options: VersionRetentionOptions;

  constructor(options: VersionRetentionOptions) {
    this.#options = options;
  }

  /** Begins to uninstall what is too old. The ids of the removals are the rollout's, so that each is begun once. */
  async retireAfter(caller: Caller, { id, packageName, version, pool }: RolloutRecord): Promise<void> {
    const { reader, packages, installs, keptVersionsOf } = this.#options;
    const { tenant } = caller.identity;
    const members = installableMembers(await listFleet(reader, tenant), { pool });
    const { items: published } = await packages.list(tenant, packageName);
    const old = findOldVersions(members, packageName, version, keptVersionsOf(tenant))
      // What is not published here could not be installed again.
      .filter((one) => published.some((record) => record.version === one));
    if (old.length === 0) return;
    const needed = await this.#findNeededVersions(tenant, packageName);
    if (needed === null) return;
    for (const one of old.filter((candidate) => !needed.has(candidate)))
      await installs.begin(caller, {
        id: `${id}-retire-${one}`,
        packageName,
        version: one,
        action: "uninstall",
        members: members.filter((member) => holdsVersion(member, packageName, one)),
      });
  }

  /** Versions that open runs name; null: there are too many runs to know. */
  async #findNeededVersions(tenant: string, packageName: string): Promise<ReadonlySet<string> | null> {
    const { reader } = this.#options;
    const runsByDefinition = new Map<string, string>();
    let runsSeen = 0;
    for (const phase of openPhases)
      for (let before: { before?: string } = {}; ; ) {
        const query = { page: "runs", tenant, phase, limit: retentionLimits.runsPerPage, ...before } as const;
        const { items, next } = await reader.page(query);
        for (const { id, workflow } of items) runsByDefinition.set(workflow, id);
        runsSeen += items.length;
        if (runsSeen > retentionLimits.openRunsMax) return null;
        if (next === null) break;
        before = { before: next };
      }
    const needed = new Set<string>();
    for (const run of runsByDefinition.values()) {
      const { detail } = await reader.page({ page: "run", tenant, run, tasksMax: 0 });
      if (detail === null) continue;
      for (const node of allNodes(cachedPlanOf(detail.workflow).nodes))
        if (node.packageName === packageName) needed.add(node.packageVersion);
    }
    return needed;
  }
}

/** Held versions below the new one, without the newest of them that are kept. */
function findOldVersions(members: readonly FleetMember[], name: string, version: string, kept: number): string[] {
  const older = [...heldVersions(members, name)].filter((one) => comparePackageVersions(one, version) < 0);
  return older.sort((a, b) => comparePackageVersions(b, a)).slice(kept);
}

/** With those inside containers. */
function* allNodes(nodes: readonly PlanNode[]): Generator<PlanNode> {
  for (const node of nodes) {
    yield node;
    if (node.container !== null) yield* allNodes(node.container.body.nodes);
  }
}
