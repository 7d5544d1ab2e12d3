// Settings of the engine: for one tenant, for all, their defaults, and which make no sense.

import type { Tenant } from "../storage/rows.ts";

export interface TenantSettings {
  readonly heartbeatMs: number;
  readonly leaseMs: number;
  /** For workers of the older dialects, whose heartbeat every 30 to 35 s cannot be changed. */
  readonly quietHeartbeatMs: number;
  readonly quietLeaseMs: number;
  /** A worker that reports this much use gets no new tasks. Above 100: never. */
  readonly drainMemPct: number;
  readonly drainDiskPct: number;
  /** A worker without a free slot for this long is reported as saturated. */
  readonly saturatedMs: number;
}

/** Settings for every tenant, and in `tenants` those of single ones. */
export interface EngineSettings extends TenantSettings {
  readonly tenants: Readonly<Record<Tenant, Partial<TenantSettings>>>;
  readonly turnCommandsMax: number;
  readonly turnBytesMax: number;
  /** Turns whose commits may be under way at once, on different roots. More than one only where the store allows it. */
  readonly turnsInFlight: number;
  /** Rows one turn may sweep for a cursor (ending a run, a lost worker). */
  readonly sweepTasksMax: number;
  readonly dueMax: number;
  readonly mailMax: number;
  /** Queues claimed in one turn; more active queues take turns. */
  readonly claimLinesMax: number;
  /** Commands that may wait; more are refused with E.OVERLOADED. */
  readonly inboxMax: number;
  readonly ackDeadlineMs: number;
  /** Attempts acked and older than this have their ack stored. */
  readonly ackStoreMs: number;
  /** How long after its join a worker that cannot report its attempts is sent their dispatches again. */
  readonly recheckMs: number;
  /** Beyond its lease: how long nothing may be reported of an attempt before a worker that cannot list its attempts is sent it again. */
  readonly silentGraceMs: number;
  /** How long a task does not go back to a worker that handed it back and may be leaving. */
  readonly handBackPauseMs: number;
  /** How long an attempt that is over keeps its slot at a worker that cannot stop it, at most. */
  readonly unstoppedSlotMs: number;
  /** How long a worker may leave a package command without any answer, unless the command sets a time of its own. */
  readonly packageDeadlineMs: number;
  /** A turn begins at least this often, so that the engine notices an absence. */
  readonly idleMs: number;
  readonly maxDeliveries: number;
  readonly queueTimeoutMs: number | null;
  /** Longest time of an attempt whose node sets no limit of its own; null: none. */
  readonly attemptTimeoutMs: number | null;
  readonly runTimeoutMs: number | null;
  readonly retry: {
    readonly maxAttempts: number;
    readonly backoffMs: number;
    readonly factor: number;
    readonly backoffMsMax: number;
  };
}

const tenantDefaults: TenantSettings = {
  heartbeatMs: 10_000,
  leaseMs: 30_000,
  quietHeartbeatMs: 35_000,
  quietLeaseMs: 105_000,
  drainMemPct: 90,
  drainDiskPct: 95,
  saturatedMs: 60_000,
};

export const defaultSettings: EngineSettings = {
  ...tenantDefaults,
  turnCommandsMax: 1024,
  turnBytesMax: 4 * 1024 * 1024,
  turnsInFlight: 1,
  sweepTasksMax: 500,
  dueMax: 500,
  mailMax: 200,
  claimLinesMax: 64,
  inboxMax: 100_000,
  ackDeadlineMs: 5_000,
  ackStoreMs: 1_000,
  recheckMs: 2_000,
  silentGraceMs: 60_000,
  handBackPauseMs: 10_000,
  unstoppedSlotMs: 3_600_000,
  packageDeadlineMs: 30 * 60_000,
  tenants: {},
  idleMs: 1_000,
  maxDeliveries: 5,
  queueTimeoutMs: null,
  attemptTimeoutMs: 24 * 3_600_000,
  runTimeoutMs: null,
  retry: { maxAttempts: 1, backoffMs: 1_000, factor: 2, backoffMsMax: 60_000 },
};

/** A worker's use must fall this far below the threshold before it gets work again, so that it does not flutter. */
export const reliefMarginPct = 5;

const tenantSettingNames = Object.keys(tenantDefaults) as (keyof TenantSettings)[];

export function settingsForTenant(settings: EngineSettings, tenant: Tenant): TenantSettings {
  return Object.hasOwn(settings.tenants, tenant) ? { ...settings, ...settings.tenants[tenant] } : settings;
}

/** Dialects that cannot be given a period: all but v2. Empty where nothing is known of the worker. */
export const isOlderDialect = (dialect: string): boolean => dialect !== "v2" && dialect !== "";

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
        `${whose}${lease} ${limits[lease]} is less than two heartbeats (${heartbeat} ${limits[heartbeat]}): one late heartbeat would end its lease`,
      );
  for (const name of ["drainMemPct", "drainDiskPct"] as const)
    if (limits[name] <= reliefMarginPct || limits[name] > 101)
      problems.push(`${whose}${name} must be above ${reliefMarginPct} and at most 101, which means never; it is ${limits[name]}`);
  return problems;
}
