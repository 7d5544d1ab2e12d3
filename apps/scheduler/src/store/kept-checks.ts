// What the store keeps and for how long, as lines of `astra doctor`.

import { existsSync } from "node:fs";
import { errorMessage, Fault } from "@astraflow/protocol";
import type { RetentionPolicy } from "@astraflow/services";
import { SettingProblem } from "@astraflow/settings";
import { inspectPostgresRows, inspectSqlite, type KeptRows, type SqliteInspection } from "@astraflow/store";
import { dayMs } from "../settings/setting-readers.ts";
import { describeStoreAddress, parseStoreAddress } from "../settings/store-address.ts";
import type { StoreCheck } from "./postgres-checks.ts";

const tenantsShownMax = 20;
/** With less than this nobody misses the space. */
const freeShareMax = 0.5;
const mebibyte = 1024 * 1024;

/** Empty where there is no store yet, and for a server that cannot be reached: the check of the store has a line about that. */
export async function checkKeptRows(store: string, dataDir: string, retention: RetentionPolicy): Promise<readonly StoreCheck[]> {
  const address = parseStoreAddress(store, dataDir);
  if (address instanceof SettingProblem || (address.of === "sqlite" && !existsSync(address.file))) return [];
  try {
    if (address.of === "postgres") return await checkServerRows(address.url, retention);
    const { tenants, space } = inspectSqlite(address.file, tenantsShownMax + 1);
    return [...describeKept(tenants, retention), describeSpace(space, address.file)];
  } catch (cause) {
    return [{ name: "kept", isGood: false, found: `${describeStoreAddress(address)} cannot be read: ${errorMessage(cause)}` }];
  }
}

async function checkServerRows(url: string, retention: RetentionPolicy): Promise<readonly StoreCheck[]> {
  try {
    return describeKept(await inspectPostgresRows(url, tenantsShownMax + 1), retention);
  } catch (cause) {
    if (cause instanceof Fault) return [];
    throw cause;
  }
}

export function describeKept(tenants: readonly KeptRows[], retention: RetentionPolicy): StoreCheck[] {
  const shown = tenants.slice(0, tenantsShownMax).map(describeTenant);
  const more = tenants.length > tenantsShownMax ? ["and more tenants"] : [];
  const found = [...shown, ...more].join("; ") || "nothing yet";
  return [
    { name: "kept", isGood: true, found },
    { name: "retention", isGood: true, found: describeRetention(retention) },
  ];
}

function describeTenant({ tenant, runs, endedRuns, oldestRunAt, floor, head, keys, goneWorkers }: KeptRows): string {
  const since = oldestRunAt === null ? "" : `, the oldest of ${new Date(oldestRunAt).toISOString()}`;
  const log = floor === 0 ? `the whole log, ${head} facts` : `the log from ${floor + 1} to ${head}`;
  return `${tenant}: ${runs} runs (${endedRuns} finished${since}), ${log}, ${keys} idempotency keys, ${goneWorkers} workers that are gone`;
}

function describeRetention({ runsMs, runsMax, keysMs, workersMs, auditMs }: RetentionPolicy): string {
  const age = (ms: number | null): string =>
    ms === null ? "for ever" : ms % dayMs === 0 ? `${ms / dayMs} d` : `${Math.round(ms / 3_600_00) / 10} h`;
  const count = runsMax === null ? "" : `, the newest ${runsMax} of a tenant`;
  return `finished runs ${age(runsMs)}${count}, idempotency keys ${age(keysMs)}, workers that are gone ${age(workersMs)}, audit entries ${age(auditMs)} (by environment and file; flags and tenants of a running scheduler may differ)`;
}

export function describeSpace({ pageBytes, pages, freePages, canShrink }: SqliteInspection["space"], file: string): StoreCheck {
  const size = (count: number): string => `${((count * pageBytes) / mebibyte).toFixed(1)} MiB`;
  const found = `${size(pages)}, ${size(freePages)} of it free for new rows`;
  if (canShrink) return { name: "space", isGood: true, found: `${found}; given back to the disk as rows are removed` };
  const isMuch = freePages > pages * freeShareMax && freePages * pageBytes > 64 * mebibyte;
  const advice = `This file was made by an earlier version and keeps its size. To give the space back, stop the scheduler and run: sqlite3 ${file} "PRAGMA auto_vacuum = INCREMENTAL; VACUUM;"`;
  return { name: "space", isGood: true, found, ...(isMuch && { advice }) };
}
