// What a task needs of a worker, and whether a worker has it. Interned by digest: thousands of tasks share a handful of routes.

import { canonicalJson, compareVersions, type PlanNode } from "@astraflow/graph";
import type { WorkerAbout } from "../../command.ts";
import type { Line, RouteId, Tenant, WorkerId, WorkerRow } from "../../rows.ts";

export interface Needs {
  readonly tenant: Tenant;
  readonly packageName: string;
  readonly packageVersion: string;
  /** Any installed version from this one on will do; absent: exactly `packageVersion`. */
  readonly minVersion?: string;
  /** Part of the route because a worker may limit one node type: such tasks must not stand before others that could run. */
  readonly nodeType: string;
  readonly pool: string | null;
  readonly tags: Readonly<Record<string, string>>;
}

export function needsOf(tenant: Tenant, node: PlanNode): Needs {
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

export const needsText = (needs: Needs): string => canonicalJson(needs);

export const lineOf = (route: RouteId, pin: WorkerId | null): Line => (pin === null ? `r|${route}` : `r|${route}|${pin}`);

/** The route of a line of ready tasks; null for a line that waits for a concurrency key. */
export function routeOf(line: Line): { route: RouteId; pin: WorkerId | null } | null {
  if (!line.startsWith("r|")) return null;
  const bar = line.indexOf("|", 2);
  return bar < 0 ? { route: line.slice(2), pin: null } : { route: line.slice(2, bar), pin: line.slice(bar + 1) };
}

/** Why a worker cannot take a task, as a code and the fact behind it. */
export interface Misfit {
  readonly code: "tenant" | "package-missing" | "package-version" | "package-status" | "pool" | "tag";
  readonly has: string;
  readonly needs: string;
}

const announced = new WeakMap<WorkerRow, WorkerAbout>();

/** What a stored worker announced, read once. */
export function announcedBy(row: WorkerRow): WorkerAbout {
  let about = announced.get(row);
  if (about === undefined) announced.set(row, (about = { ...nothing, ...(JSON.parse(row.about) as Partial<WorkerAbout>) }));
  return about;
}

/** A row that was made before its worker announced anything. */
const nothing: WorkerAbout = {
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

/** The first rule this worker fails, or null when it can run the route. Capacity and health are not looked at here: they change. */
export function fits(needs: Needs, worker: { readonly tenant: Tenant; readonly about: WorkerAbout }): Misfit | null {
  const { about } = worker;
  if (worker.tenant !== needs.tenant) return { code: "tenant", has: worker.tenant, needs: needs.tenant };
  if (needs.pool !== null && about.pool !== needs.pool) return { code: "pool", has: about.pool, needs: needs.pool };
  for (const tag of Object.keys(needs.tags))
    if (about.tags[tag] !== needs.tags[tag])
      return { code: "tag", has: `${tag}=${about.tags[tag] ?? ""}`, needs: `${tag}=${needs.tags[tag]}` };
  return packageMisfit(needs, about);
}

function packageMisfit(needs: Needs, about: WorkerAbout): Misfit | null {
  const versions = about.packages.filter((one) => one.name === needs.packageName);
  const wanted = needs.minVersion === undefined ? needs.packageVersion : `${needs.minVersion} or later`;
  if (versions.length === 0) return { code: "package-missing", has: "", needs: `${needs.packageName}@${wanted}` };
  const serving = versions.filter((one) => serves(needs, one.version));
  const [first] = serving;
  if (first === undefined) return { code: "package-version", has: versions.map((one) => one.version).join(", "), needs: wanted };
  if (serving.some((one) => one.status === "installed")) return null;
  return { code: "package-status", has: first.status, needs: "installed" };
}

const serves = ({ minVersion, packageVersion }: Pick<Needs, "minVersion" | "packageVersion">, version: string): boolean =>
  minVersion === undefined ? version === packageVersion : compareVersions(version, minVersion) >= 0;

/** Which version a worker that fits runs the node with: the one authored where it is installed and late enough, else the latest there is. */
export function versionAt(node: Pick<PlanNode, "packageName" | "packageVersion" | "minVersion">, about: WorkerAbout): string {
  const { minVersion } = node;
  if (minVersion === null) return node.packageVersion;
  const installed = about.packages
    .filter(
      ({ name, version, status }) =>
        name === node.packageName && status === "installed" && compareVersions(version, minVersion) >= 0,
    )
    .map(({ version }) => version);
  if (installed.includes(node.packageVersion)) return node.packageVersion;
  return installed.sort(compareVersions).at(-1) ?? node.packageVersion;
}
