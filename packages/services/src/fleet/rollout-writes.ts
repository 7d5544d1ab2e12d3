// The documents that a rollout writes: its own, its lock, and the version that it withdraws.

import type { DocPut } from "@astraflow/engine";
import { searchTermFor, sortKeyOf } from "../documents/derived-names.ts";
import { type DocumentWrite, isNotFound, recordPut } from "../documents/documents.ts";
import { runningTerm } from "../documents/tenant-rounds.ts";
import type { PackageRepository } from "../packages/package-repository.ts";
import { packageVersionPut } from "../packages/package-store.ts";
import { endedOperationMs } from "./fleet-installs.ts";
import { isOpenRollout, type RolloutRecord, rolloutCollection, rolloutLockCollection } from "./rollout-record.ts";

export interface RolloutWriteOptions {
  /** Of its audit entry; null: none. */
  readonly action: string | null;
  readonly puts?: readonly DocPut[];
}

/** Its lock goes in the write that ends it. */
export function planRolloutWrite(
  record: RolloutRecord,
  rev: number,
  { action, puts = [] }: RolloutWriteOptions,
): Pick<DocumentWrite, "puts" | "drops" | "audit"> {
  const { id, packageName, version, previousVersion, pool, status, reason, tasks, createdAt, lockRev } = record;
  const isOpen = isOpenRollout(record);
  const terms = `${isOpen ? runningTerm : status} ${searchTermFor("package", packageName)}`;
  const keep = isOpen ? {} : { keepMs: endedOperationMs };
  const data = { package: packageName, version, previousVersion, pool, status, tasks, ...(reason !== null && { reason }) };
  return {
    puts: [recordPut(rolloutCollection, record, rev, { sort: sortKeyOf(createdAt), terms, ...keep }), ...puts],
    drops: isOpen ? [] : [{ collection: rolloutLockCollection, name: packageName, rev: lockRev }],
    ...(action !== null && { audit: { action, targetType: "rollout", target: id, data } }),
  };
}

/** The version is offered no longer to those who do not name it. One that was deleted meanwhile needs nothing. */
export async function planWithdrawal(
  packages: PackageRepository,
  tenant: string,
  name: string,
  version: string,
): Promise<DocPut[]> {
  try {
    const { record, rev } = await packages.find(tenant, name, version);
    return record.status === "withdrawn" ? [] : [packageVersionPut({ ...record, status: "withdrawn" }, rev)];
  } catch (why) {
    if (!isNotFound(why)) throw why;
    return [];
  }
}
