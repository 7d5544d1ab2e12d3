// Settings of single tenants, out of `tenants` in the configuration file, checked together with those of the whole scheduler.

import type { TenantSettings } from "@astraflow/engine";
import { didYouMean } from "@astraflow/protocol";
import { SettingProblem } from "@astraflow/settings";
import { dayMs, namePattern, readPercent, readSwitch, readWhole, readWindow } from "./setting-readers.ts";

/** What one tenant has of its own; the rest is as for everybody. */
export interface TenantConfig {
  readonly thresholds: Partial<TenantSettings>;
  readonly sendWindow?: number;
  readonly recvWindow?: number;
  readonly isCertificateRequired: boolean;
}

const readMs = readWhole({ min: 100, max: dayMs, unit: "milliseconds" });

const thresholdRows = {
  heartbeat: { field: "heartbeatMs", read: readMs },
  lease: { field: "leaseMs", read: readMs },
  quietHeartbeat: { field: "quietHeartbeatMs", read: readMs },
  quietLease: { field: "quietLeaseMs", read: readMs },
  drainMemory: { field: "drainMemPct", read: readPercent },
  drainDisk: { field: "drainDiskPct", read: readPercent },
  saturated: { field: "saturatedMs", read: readMs },
} as const satisfies Record<string, { field: keyof TenantSettings; read: (text: string) => number | SettingProblem }>;

const windowKeys = ["sendWindow", "recvWindow"] as const;
export const tenantKeys: readonly string[] = [...Object.keys(thresholdRows), ...windowKeys, "requireCertificate"];

/** The file's `tenants`, read, and all problems with them. */
export function readTenants(
  given: { readonly value: unknown; readonly name: string } | undefined,
  everybody: TenantSettings,
): { readonly tenants: Readonly<Record<string, TenantConfig>>; readonly problems: readonly string[] } {
  const tenants: Record<string, TenantConfig> = {};
  const problems: string[] = [];
  if (given === undefined) return { tenants, problems };
  if (!isObject(given.value)) {
    problems.push(`${given.name} must be an object with settings by tenant, like {"acme": {"lease": 60000}}.`);
    return { tenants, problems };
  }
  for (const [tenant, own] of Object.entries(given.value)) {
    const name = `"${tenant}" of ${given.name}`;
    if (!namePattern.test(tenant))
      problems.push(`${name} is no name of a tenant; use letters, digits, dots, dashes and underscores.`);
    else if (!isObject(own)) problems.push(`${name} must be an object with settings, like {"lease": 60000}.`);
    else {
      const config = readTenant(own, name, problems);
      tenants[tenant] = config;
      problems.push(...findLeaseProblems({ ...everybody, ...config.thresholds }, tenantNames, ` of ${name}`));
    }
  }
  return { tenants, problems };
}

function readTenant(own: Record<string, unknown>, name: string, problems: string[]): TenantConfig {
  const thresholds: { -readonly [K in keyof TenantSettings]?: number } = {};
  const windows: { -readonly [K in (typeof windowKeys)[number]]?: number } = {};
  let isCertificateRequired = false;
  for (const [key, given] of Object.entries(own)) {
    const text = typeof given === "number" || typeof given === "boolean" || typeof given === "string" ? String(given) : "…";
    const note = <T>(value: T | SettingProblem): value is T => {
      if (value instanceof SettingProblem) problems.push(`"${key}" of ${name} ${value.reason}.`);
      return !(value instanceof SettingProblem);
    };
    const window = windowKeys.find((one) => one === key);
    if (key === "requireCertificate") {
      const value = readSwitch(text);
      if (note(value)) isCertificateRequired = value;
    } else if (window !== undefined) {
      const value = readWindow(text);
      if (note(value)) windows[window] = value;
    } else if (isThreshold(key)) {
      const { field, read } = thresholdRows[key];
      const value = read(text);
      if (note(value)) thresholds[field] = value;
    } else
      problems.push(
        `There is no setting "${key}" for a tenant (${name})${didYouMean(key, tenantKeys) || `; remove it, or write one of ${tenantKeys.join(", ")}.`}`,
      );
  }
  return { thresholds, ...windows, isCertificateRequired };
}

const isThreshold = (key: string): key is keyof typeof thresholdRows => Object.hasOwn(thresholdRows, key);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

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
