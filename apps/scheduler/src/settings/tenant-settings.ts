// Settings of single tenants, out of `tenants` in the configuration file, checked together with those of the whole scheduler.

import type { TenantSettings } from "@astraflow/engine";
import { didYouMean, isRecord, omitUndefined, type SchemaMode } from "@astraflow/protocol";
import type { RetentionPolicy } from "@astraflow/services";
import { SettingProblem } from "@astraflow/settings";
import {
  dayMs,
  namePattern,
  readAge,
  readKeptCount,
  readPercent,
  readSchemaMode,
  readSwitch,
  readWhole,
  readWindow,
} from "./setting-readers.ts";

/** What one tenant has of its own; the rest is as for everybody. */
export interface TenantConfig {
  readonly thresholds: Partial<TenantSettings>;
  readonly retention: Partial<RetentionPolicy>;
  readonly sendWindow?: number;
  readonly recvWindow?: number;
  readonly isCertificateRequired: boolean;
  readonly schemaMode?: SchemaMode;
  readonly packageKeep?: number;
  readonly isPackageOnDemand?: boolean;
}

const readMs = readWhole({ min: 100, max: dayMs, unit: "milliseconds" });

type TenantField = keyof TenantSettings | keyof RetentionPolicy | Exclude<keyof TenantConfig, "thresholds" | "retention">;
interface TenantRow {
  readonly field: TenantField;
  read(text: string): number | boolean | null | SchemaMode | SettingProblem;
}

const tenantRows: Readonly<Record<string, TenantRow>> = {
  heartbeat: { field: "heartbeatMs", read: readMs },
  lease: { field: "leaseMs", read: readMs },
  quietHeartbeat: { field: "quietHeartbeatMs", read: readMs },
  quietLease: { field: "quietLeaseMs", read: readMs },
  drainMemory: { field: "drainMemPct", read: readPercent },
  drainDisk: { field: "drainDiskPct", read: readPercent },
  saturated: { field: "saturatedMs", read: readMs },
  sendWindow: { field: "sendWindow", read: readWindow },
  recvWindow: { field: "recvWindow", read: readWindow },
  schemaMode: { field: "schemaMode", read: readSchemaMode },
  retainRuns: { field: "runsMs", read: readAge },
  retainRunsMax: { field: "runsMax", read: readKeptCount },
  retainKeys: { field: "keysMs", read: readAge },
  retainWorkers: { field: "workersMs", read: readAge },
  retainAudit: { field: "auditMs", read: readAge },
  packageKeep: { field: "packageKeep", read: readWhole({ min: 0, max: 100, unit: "versions" }) },
  packageOnDemand: { field: "isPackageOnDemand", read: readSwitch },
  requireCertificate: { field: "isCertificateRequired", read: readSwitch },
};

export const tenantKeys: readonly string[] = Object.keys(tenantRows);

/** The file's `tenants`, read, and all problems with them. */
export function readTenants(
  given: { readonly value: unknown; readonly name: string } | undefined,
  everybody: { readonly thresholds: TenantSettings; readonly retention: RetentionPolicy },
): { readonly tenants: Readonly<Record<string, TenantConfig>>; readonly problems: readonly string[] } {
  const tenants: Record<string, TenantConfig> = {};
  const problems: string[] = [];
  if (given === undefined) return { tenants, problems };
  if (!isRecord(given.value)) {
    problems.push(`${given.name} must be an object with settings by tenant, like {"acme": {"lease": 60000}}.`);
    return { tenants, problems };
  }
  for (const [tenant, own] of Object.entries(given.value)) {
    const name = `"${tenant}" of ${given.name}`;
    if (!namePattern.test(tenant))
      problems.push(`${name} is no name of a tenant; use letters, digits, dots, dashes and underscores.`);
    else if (!isRecord(own)) problems.push(`${name} must be an object with settings, like {"lease": 60000}.`);
    else {
      const config = readTenant(own, name, problems);
      tenants[tenant] = config;
      problems.push(...findLeaseProblems({ ...everybody.thresholds, ...config.thresholds }, tenantNames, ` of ${name}`));
      problems.push(...findRetentionProblems({ ...everybody.retention, ...config.retention }, `"retainAudit" of ${name}`));
    }
  }
  return { tenants, problems };
}

function readTenant(own: Record<string, unknown>, name: string, problems: string[]): TenantConfig {
  const values: { [K in TenantField]?: number | boolean | null | SchemaMode } = {};
  for (const [key, given] of Object.entries(own)) {
    const row = Object.hasOwn(tenantRows, key) ? tenantRows[key] : undefined;
    const text = ["number", "boolean", "string"].includes(typeof given) ? String(given) : "…";
    const value = row?.read(text);
    if (value instanceof SettingProblem) problems.push(`"${key}" of ${name} ${value.reason}.`);
    else if (row !== undefined && value !== undefined) values[row.field] = value;
    else
      problems.push(
        `There is no setting "${key}" for a tenant (${name})${didYouMean(key, tenantKeys) || `; remove it, or write one of ${tenantKeys.join(", ")}.`}`,
      );
  }
  const { sendWindow, recvWindow, schemaMode, isCertificateRequired = false, ...more } = values;
  const { packageKeep, isPackageOnDemand, ...others } = more;
  const { runsMs, runsMax, keysMs, workersMs, auditMs, ...thresholds } = others;
  const retention = omitUndefined({ runsMs, runsMax, keysMs, workersMs, auditMs });
  // Each reader returns what its field holds.
  return {
    thresholds,
    retention,
    ...omitUndefined({ sendWindow, recvWindow, schemaMode, packageKeep, isPackageOnDemand }),
    isCertificateRequired,
  } as TenantConfig;
}

/** Audit entries are part of the log, which is kept as long as runs. */
export function findRetentionProblems({ runsMs, auditMs }: RetentionPolicy, name: string): string[] {
  if (auditMs === null || (runsMs !== null && auditMs >= runsMs)) return [];
  const runs = runsMs === null ? "runs are kept for ever" : "runs are kept longer";
  return [`${name} would end before that of other log entries, because ${runs} (retainRuns); make it longer, or off.`];
}

/** How leases and heartbeats are called where they were set. */
interface TimeNames {
  readonly lease: string;
  readonly quietLease: string;
}
export const flagNames: TimeNames = { lease: "--lease", quietLease: "quietLease" };
const tenantNames: TimeNames = { lease: `"lease"`, quietLease: `"quietLease"` };

/** A lease that one late heartbeat would end is refused. */
export function findLeaseProblems(times: TenantSettings, names: TimeNames, where = ""): string[] {
  const judge = (name: string, leaseMs: number, heartbeatMs: number): string[] =>
    leaseMs >= heartbeatMs * 2
      ? []
      : [
          `${name}${where} is ${leaseMs}, shorter than two heartbeats (${heartbeatMs} ms each), so one late heartbeat would take a healthy worker's work away; make it at least ${heartbeatMs * 2}.`,
        ];
  return [
    ...judge(names.lease, times.leaseMs, times.heartbeatMs),
    ...judge(names.quietLease, times.quietLeaseMs, times.quietHeartbeatMs),
  ];
}
