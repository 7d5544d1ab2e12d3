// What a task needs of a worker, and whether a worker has it. Interned by digest: thousands of tasks share a handful of routes.

import { canonicalText, type PlanNode } from "@astraflow/graph";
import type { WorkerAbout } from "../command.ts";
import type { Line, RouteId, Tenant, WorkerId } from "../rows.ts";

export interface Needs {
  readonly tenant: Tenant;
  readonly packageName: string;
  readonly packageVersion: string;
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
    nodeType: node.type,
    pool: node.policy.pool ?? null,
    tags: node.policy.tags ?? {},
  };
}

export const needsText = (needs: Needs): string => canonicalText(needs);

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

/** The first rule this worker fails, or null when it can run the route. Capacity and health are not looked at here: they change. */
export function fits(needs: Needs, worker: { readonly tenant: Tenant; readonly about: WorkerAbout }): Misfit | null {
  const { about } = worker;
  if (worker.tenant !== needs.tenant) return { code: "tenant", has: worker.tenant, needs: needs.tenant };
  if (needs.pool !== null && about.pool !== needs.pool) return { code: "pool", has: about.pool, needs: needs.pool };
  for (const tag of Object.keys(needs.tags))
    if (about.tags[tag] !== needs.tags[tag])
      return { code: "tag", has: `${tag}=${about.tags[tag] ?? ""}`, needs: `${tag}=${needs.tags[tag]}` };
  const versions = about.packages.filter((one) => one.name === needs.packageName);
  if (versions.length === 0) return { code: "package-missing", has: "", needs: `${needs.packageName}@${needs.packageVersion}` };
  const exact = versions.find((one) => one.version === needs.packageVersion);
  if (exact === undefined)
    return { code: "package-version", has: versions.map((one) => one.version).join(", "), needs: needs.packageVersion };
  return exact.status === "installed" ? null : { code: "package-status", has: exact.status, needs: "installed" };
}
