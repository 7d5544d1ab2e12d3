// Runs writes in one transaction, which is rolled back if they throw.

import type { DatabaseSync } from "node:sqlite";

export function inTransaction<T>(db: DatabaseSync, write: () => T): T {
  db.exec("BEGIN IMMEDIATE");
  try {
    const answer = write();
    db.exec("COMMIT");
    return answer;
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK");
    throw error;
  }
}
