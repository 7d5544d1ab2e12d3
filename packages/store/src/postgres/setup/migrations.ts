// Brings a database to the newest schema: numbered steps, all in one transaction under one lock, so that schedulers that start at the same
// time create the tables once. Also creates the functions of turns, which belong to a version of this program.

import { fault } from "@astraflow/protocol";
import type { PostgresConnection } from "../connection/connection.ts";
import { addDocumentsSql, addWorkerConditionSql, initialSchemaSql, schemaName } from "../sql/tables.ts";
import { beginTurnFunction, commitTurnFunction } from "../sql/turn-functions.ts";

/** A step that has been released is never edited: a change is the next step. */
const migrations: readonly string[] = [initialSchemaSql, addWorkerConditionSql, addDocumentsSql];

export const schemaVersion = migrations.length;

/** Any number, as long as all versions of this program use the same. */
const migrationLock = "4706219558021477201";

/** Runs inside a transaction that the caller ends. */
export async function migrate(connection: PostgresConnection, step: (name: string) => void): Promise<void> {
  await connection.query(`SELECT pg_advisory_xact_lock(${migrationLock})`, 1);
  const version = await readVersion(connection);
  refuseNewer(connection.label, version);
  if (version < schemaVersion) {
    step("postgres.migrate");
    if (version === 0)
      await connection.query(
        `CREATE SCHEMA ${schemaName}; CREATE TABLE ${schemaName}.migration (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`,
        2,
      );
    for (const [index, sql] of migrations.entries())
      if (index >= version)
        await connection.query(`${sql}; INSERT INTO ${schemaName}.migration (version) VALUES (${index + 1})`, 2);
    step("postgres.migrated");
  }
  for (const { name, sql } of [beginTurnFunction, commitTurnFunction]) {
    const [[isThere] = []] = await connection.queryRows(
      `SELECT 1 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = '${schemaName}' AND p.proname = '${name}'`,
    );
    if (isThere === undefined) await connection.query(sql, 1);
  }
}

/** Zero: there are no AstraFlow tables. */
export async function readVersion(connection: PostgresConnection): Promise<number> {
  const [[hasSchema, hasTable] = []] = await connection.queryRows(
    `SELECT to_regnamespace('${schemaName}') IS NOT NULL, to_regclass('${schemaName}.migration') IS NOT NULL`,
  );
  if (hasTable === true) {
    const [[version] = []] = await connection.queryRows(`SELECT coalesce(max(version), 0) FROM ${schemaName}.migration`);
    return Number(version);
  }
  if (hasSchema === true)
    throw fault(
      "E.STORE.OPEN",
      `${connection.label} has a schema named ${schemaName} that AstraFlow did not create; use another database`,
      {
        place: connection.label,
      },
    );
  return 0;
}

export function refuseNewer(place: string, version: number): void {
  if (version > schemaVersion)
    throw fault(
      "E.STORE.SCHEMA_NEWER",
      `${place} has schema ${version}, this program knows up to ${schemaVersion}; start the newer version again, or restore a backup`,
      { place, schema: version, known: schemaVersion },
    );
}
