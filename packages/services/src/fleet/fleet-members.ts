// The workers of a tenant as installs see them: which are there, what they hold, and which of them a request is about.

import { isGone, readCondition, type StoreReader, type WorkerRow } from "@astraflow/engine";
import type { FleetWorker } from "@astraflow/protocol";
import { readWorkerDescription } from "../presentation/worker-description.ts";
import { instanceIdOf } from "../presentation/worker-view.ts";

export interface FleetMember {
  readonly name: string;
  /** Its instance id. */
  readonly workerId: string;
  readonly pool: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly isConnected: boolean;
  /** It announces that it installs packages. */
  readonly canInstall: boolean;
  readonly slots: number;
  readonly packages: readonly { readonly name: string; readonly version: string; readonly status: string }[];
  /** Installs that it was sent and has not answered. */
  readonly openInstalls: readonly { readonly name: string; readonly version: string | null }[];
}

/** Which workers something is about. */
export interface FleetScope {
  /** Null: every pool. */
  readonly pool: string | null;
}

const installFeature = "pkg.install";
const installPayload = "biz.pkg.install";

/** All that are not gone, in an order that stays. */
export async function listFleet(reader: StoreReader, tenant: string): Promise<readonly FleetMember[]> {
  const { items } = await reader.page({ page: "workers", tenant });
  return items
    .filter((worker) => !isGone(worker))
    .map(toMember)
    .sort((a, b) => compareText(a.name, b.name) || compareText(a.workerId, b.workerId));
}

function toMember(row: WorkerRow): FleetMember {
  const about = readWorkerDescription(row);
  const { pool = "", tags = {}, slots = 0, packages = [], features = [], payloadTypes = [] } = about;
  const orders = (readCondition(row.condition).orders ?? []).map(({ order }) => order);
  return {
    name: row.name,
    workerId: instanceIdOf(row.id),
    pool,
    tags,
    isConnected: row.phase === "online",
    canInstall: features.includes(installFeature) || payloadTypes.includes(installPayload),
    slots,
    packages,
    openInstalls: orders.flatMap((order) => (order.type === "pkg.install" ? [{ name: order.name, version: order.version }] : [])),
  };
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Connected workers of the scope that can install packages. */
export const installableMembers = (fleet: readonly FleetMember[], { pool }: FleetScope): FleetMember[] =>
  fleet.filter((one) => one.isConnected && one.canInstall && (pool === null || one.pool === pool));

export const holdsVersion = ({ packages }: FleetMember, name: string, version: string): boolean =>
  packages.some((one) => one.name === name && one.version === version && one.status === "installed");

/** Whether it has anything of the package, or of one version of it, or is about to. */
export const hasTraceOf = ({ packages, openInstalls }: FleetMember, name: string, version: string | null): boolean =>
  [...packages, ...openInstalls].some((one) => one.name === name && (version === null || one.version === version));

/** Versions of a package that these workers have installed. */
export const heldVersions = (members: readonly FleetMember[], name: string): Set<string> =>
  new Set(members.flatMap(({ packages }) => packages.flatMap((one) => (isInstalled(one, name) ? [one.version] : []))));

const isInstalled = (one: FleetMember["packages"][number], name: string): boolean =>
  one.name === name && one.status === "installed";

export const toWaiting = ({ name, workerId }: Pick<FleetMember, "name" | "workerId">): FleetWorker => ({
  name,
  workerId,
  commandId: null,
  status: "waiting",
});

export const hasEnded = ({ status }: FleetWorker): boolean => status === "done" || status === "failed";
