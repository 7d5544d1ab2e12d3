// What can be set for one tenant, what holds where nothing is, and which settings make no sense. How long a worker may be silent depends
// on its dialect too: the older ones cannot be told a period.

import type { Tenant } from "../storage/rows.ts";
import type { EngineSettings } from "./world.ts";

export interface TenantSettings {
  readonly heartbeatMs: number;
  readonly leaseMs: number;
  /** For workers of the older dialects, which beat every 30 to 35 s and cannot be told otherwise. */
  readonly quietHeartbeatMs: number;
  readonly quietLeaseMs: number;
  /** A worker that says it uses this much gets nothing new. Above 100: never. */
  readonly drainMemPct: number;
  readonly drainDiskPct: number;
  /** A worker without a free slot for this long is said to be saturated. */
  readonly saturatedMs: number;
}

/** A worker's use must fall this far below the threshold before it gets work again, so that it does not flutter. */
export const reliefMarginPct = 5;

const tenantSettingNames = [
  "heartbeatMs",
  "leaseMs",
  "quietHeartbeatMs",
  "quietLeaseMs",
  "drainMemPct",
  "drainDiskPct",
  "saturatedMs",
] as const satisfies readonly (keyof TenantSettings)[];

export function settingsForTenant(settings: EngineSettings, tenant: Tenant): TenantSettings {
  return Object.hasOwn(settings.tenants, tenant) ? { ...settings, ...settings.tenants[tenant] } : settings;
}

/** Dialects that can neither be told a period nor report what they run. */
export const isOlderDialect = (dialect: string): boolean => dialect === "first" || dialect === "v1";

/** What a session is judged by and how long its boot's lease is. */
export interface WorkerTimings {
  readonly heartbeatMs: number;
  readonly leaseMs: number;
}

export function workerTimings(settings: EngineSettings, tenant: Tenant, dialect: string): WorkerTimings {
  const limits = settingsForTenant(settings, tenant);
  return isOlderDialect(dialect) ? { heartbeatMs: limits.quietHeartbeatMs, leaseMs: limits.quietLeaseMs } : limits;
}

/** Everything about the thresholds that cannot be meant, as sentences; empty when all is well. */
export function settingsProblems(settings: EngineSettings): string[] {
  const problems = tenantSettingProblems(settings, "");
  for (const [tenant, own] of Object.entries(settings.tenants)) {
    for (const name of Object.keys(own))
      if (!(tenantSettingNames as readonly string[]).includes(name))
        problems.push(`tenant ${tenant}: there is no threshold ${name}`);
    problems.push(...tenantSettingProblems(settingsForTenant(settings, tenant), `tenant ${tenant}: `));
  }
  return [...new Set(problems)];
}

function tenantSettingProblems(limits: TenantSettings, whose: string): string[] {
  const problems: string[] = [];
  for (const name of tenantSettingNames)
    if (!Number.isFinite(limits[name]) || limits[name] <= 0)
      problems.push(`${whose}${name} must be a number above 0, not ${limits[name]}`);
  for (const [lease, heartbeat] of [
    ["leaseMs", "heartbeatMs"],
    ["quietLeaseMs", "quietHeartbeatMs"],
  ] as const)
    if (limits[lease] < 2 * limits[heartbeat])
      problems.push(
        `${whose}${lease} ${limits[lease]} is less than two heartbeats (${heartbeat} ${limits[heartbeat]}): one late beat would lose the worker`,
      );
  for (const name of ["drainMemPct", "drainDiskPct"] as const)
    if (limits[name] <= reliefMarginPct || limits[name] > 101)
      problems.push(`${whose}${name} must be above ${reliefMarginPct} and at most 101, which means never; it is ${limits[name]}`);
  return problems;
}
