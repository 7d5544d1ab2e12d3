// What a task needs of a worker, and whether a worker has it. Interned by digest: thousands of tasks share a handful of routes.

import { canonicalJson, compareVersions, type PlanNode } from "@astraflow/graph";
import type { WorkerDescription, WorkerPackageRef } from "../../interface/command.ts";
import type { QueueName, RouteId, RouteRow, Tenant, WorkerId, WorkerRow } from "../../storage/rows.ts";
import { parsedColumn } from "../rows/parsed-column.ts";

export interface TaskRequirements {
  readonly tenant: Tenant;
  readonly packageName: string;
  readonly packageVersion: string;
  /** Any installed version from this one on will do; absent: exactly `packageVersion`. */
  readonly minVersion?: string;
  /** Part of the route because a worker may limit one node type: such tasks must not block others that could run. */
  readonly nodeType: string;
  readonly pool: string | null;
  readonly tags: Readonly<Record<string, string>>;
}

export function requirementsOf(tenant: Tenant, node: PlanNode): TaskRequirements {
  return {
    tenant,
    packageName: node.packageName,
    packageVersion: node.packageVersion,
    // Left out where there is none, so that routes keep the digest they had before there was one.
    ...(node.minVersion === null ? {} : { minVersion: node.minVersion }),
    nodeType: node.type,
    pool: node.policy.pool ?? null,
    tags: node.policy.tags ?? {},
  };
}

export const readRequirements = (row: RouteRow): TaskRequirements => JSON.parse(row.needs) as TaskRequirements;
export const requirementsText = (requirements: TaskRequirements): string => canonicalJson(requirements);

export const queueName = (route: RouteId, pin: WorkerId | null): QueueName => (pin === null ? `r|${route}` : `r|${route}|${pin}`);

/** The route of a queue of ready tasks; null for a queue that waits for a concurrency key. */
export function parseQueueName(queue: QueueName): { route: RouteId; pin: WorkerId | null } | null {
  if (!queue.startsWith("r|")) return null;
  const bar = queue.indexOf("|", 2);
  return bar < 0 ? { route: queue.slice(2), pin: null } : { route: queue.slice(2, bar), pin: queue.slice(bar + 1) };
}

/** Why a worker cannot take a task, as a code and the fact behind it. */
export interface RouteMismatch {
  readonly code: "tenant" | "package-missing" | "package-version" | "package-status" | "pool" | "tag";
  readonly has: string;
  readonly needs: string;
}

/** For a row that was made before its worker announced anything. */
const emptyDescription: WorkerDescription = {
  slots: 0,
  packages: [],
  runtimes: [],
  features: [],
  payloadTypes: [],
  pool: "",
  tags: {},
  hostname: "",
  version: "",
  dialect: "",
};

const descriptionColumn = parsedColumn<WorkerRow, WorkerDescription>(
  (row) => row.about,
  emptyDescription,
  (text) => ({ ...emptyDescription, ...(JSON.parse(text) as Partial<WorkerDescription>) }),
);

/** What a stored worker announced. */
export const readDescription = descriptionColumn.read;

/** The first rule this worker fails, or null when it can run the route. Capacity and health change and are not checked here. */
export function findMismatch(
  requirements: TaskRequirements,
  worker: { readonly tenant: Tenant; readonly about: WorkerDescription },
): RouteMismatch | null {
  const { about: description } = worker;
  if (worker.tenant !== requirements.tenant) return { code: "tenant", has: worker.tenant, needs: requirements.tenant };
  if (requirements.pool !== null && description.pool !== requirements.pool)
    return { code: "pool", has: description.pool, needs: requirements.pool };
  for (const tag of Object.keys(requirements.tags))
    if (description.tags[tag] !== requirements.tags[tag])
      return { code: "tag", has: `${tag}=${description.tags[tag] ?? ""}`, needs: `${tag}=${requirements.tags[tag]}` };
  return findPackageMismatch(requirements, description);
}

/** The same for a worker as it is stored. */
export const findStoredMismatch = (tenant: Tenant, node: PlanNode, worker: WorkerRow): RouteMismatch | null =>
  findMismatch(requirementsOf(tenant, node), { tenant: worker.tenant, about: readDescription(worker) });

function findPackageMismatch(requirements: TaskRequirements, description: WorkerDescription): RouteMismatch | null {
  const versions = description.packages.filter((one) => one.name === requirements.packageName);
  const wanted = requirements.minVersion === undefined ? requirements.packageVersion : `${requirements.minVersion} or later`;
  if (versions.length === 0) return { code: "package-missing", has: "", needs: `${requirements.packageName}@${wanted}` };
  const serving = versions.filter((one) => isVersionAccepted(requirements, one.version));
  const [first] = serving;
  if (first === undefined) return { code: "package-version", has: versions.map((one) => one.version).join(", "), needs: wanted };
  if (serving.some((one) => isOffered(one, requirements.packageVersion))) return null;
  return { code: "package-status", has: first.status, needs: "installed" };
}

/** What is withdrawn is there for those who name it. */
const isOffered = ({ status, version }: WorkerPackageRef, named: string): boolean =>
  status === "installed" || (status === withdrawnStatus && version === named);

const withdrawnStatus = "withdrawn";

/** The description with the versions marked that are withdrawn now; the same one where nothing changes. */
export function markWithdrawn(about: WorkerDescription, withdrawn: ReadonlySet<string> = new Set()): WorkerDescription {
  const statusOf = ({ name, version, status }: WorkerPackageRef): string => {
    if (status !== "installed" && status !== withdrawnStatus) return status;
    return withdrawn.has(`${name}@${version}`) ? withdrawnStatus : "installed";
  };
  if (about.packages.every((one) => statusOf(one) === one.status)) return about;
  return { ...about, packages: about.packages.map((one) => ({ ...one, status: statusOf(one) })) };
}

const isVersionAccepted = (
  { minVersion, packageVersion }: Pick<TaskRequirements, "minVersion" | "packageVersion">,
  version: string,
): boolean => (minVersion === undefined ? version === packageVersion : compareVersions(version, minVersion) >= 0);

/** Which version a matching worker runs: the authored one where it is installed and new enough, otherwise the latest. */
export function versionFor(
  node: Pick<PlanNode, "packageName" | "packageVersion" | "minVersion">,
  description: WorkerDescription,
): string {
  const { minVersion } = node;
  if (minVersion === null) return node.packageVersion;
  const installed = description.packages
    .filter(
      (one) =>
        one.name === node.packageName && isOffered(one, node.packageVersion) && compareVersions(one.version, minVersion) >= 0,
    )
    .map(({ version }) => version);
  if (installed.includes(node.packageVersion)) return node.packageVersion;
  return installed.sort(compareVersions).at(-1) ?? node.packageVersion;
}
