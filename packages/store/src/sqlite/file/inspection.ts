// What a file holds, for operators: read-only, beside a scheduler that may be using it.

import type { KeptRows } from "../../common/kept-rows.ts";
import { runPhases, workerPhases } from "../../common/row-shape.ts";
import { openDatabase } from "./connection.ts";
import { type FreeSpace, readFreeSpace } from "./free-space.ts";

export interface SqliteInspection {
  readonly tenants: readonly KeptRows[];
  readonly space: FreeSpace;
}

const endedPhases = ["succeeded", "failed", "cancelled"].map((phase) => (runPhases as readonly string[]).indexOf(phase));
const gonePhases = [workerPhases.indexOf("lost"), workerPhases.indexOf("left")];
const keptSql = `SELECT id AS tenant, position AS head, max(floor, removed) AS floor,
  (SELECT count(*) FROM run WHERE tenant = t.id) AS runs,
  (SELECT count(*) FROM run WHERE tenant = t.id AND phase IN (${endedPhases.join(", ")})) AS "endedRuns",
  (SELECT "createdAt" FROM run WHERE tenant = t.id ORDER BY id LIMIT 1) AS "oldestRunAt",
  (SELECT count(*) FROM ask WHERE id > t.id || '/' AND id < t.id || '0') AS keys,
  (SELECT count(*) FROM worker WHERE tenant = t.id AND phase IN (${gonePhases.join(", ")})) AS "goneWorkers"
  FROM tenant t ORDER BY id LIMIT ?`;

/** Of the first tenants by name. */
export function inspectSqlite(file: string, tenantsMax: number): SqliteInspection {
  const db = openDatabase(file, { readOnly: true, busyMs: 1_000 });
  try {
    return { tenants: db.prepare(keptSql).all(tenantsMax) as unknown as KeptRows[], space: readFreeSpace(db) };
  } finally {
    db.close();
  }
}
