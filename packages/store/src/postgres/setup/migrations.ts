// From an empty database to the newest schema: numbered steps, all of them in one transaction under one lock, so that schedulers that
// start at the same moment make the tables once. Also the functions of turns, which belong to a version of this program.

import { createHash } from "node:crypto";
import { fault } from "@astraflow/protocol";
import type { PostgresConnection } from "../connection/connection.ts";
import { createBeginFunctionSql } from "../sql/begin-function.ts";
import { callCommitFunctionSql, createCommitFunctionSql } from "../sql/commit-function.ts";
import { addDocumentsSql, addWorkerConditionSql, initialSchemaSql, schemaName } from "../sql/tables.ts";

/** A step that has been released is never edited: a change is the next step. */
const migrations: readonly string[] = [initialSchemaSql, addWorkerConditionSql, addDocumentsSql];

export const schemaVersion = migrations.length;

/**
 * A function's name holds the digest of its text: two versions of this program may work on one database side by side, each with its
 * own, as long as the tables suit both.
 */
function versionedFunction(base: string, textOf: (name: string) => string): { name: string; sql: string } {
  const digest = createHash("sha256").update(textOf(base)).digest("hex").slice(0, 12);
  const name = `${base}_${digest}`;
  return { name, sql: textOf(name) };
}

export const beginTurnFunction = versionedFunction("turn_begin", createBeginFunctionSql);
const commitTurnFunction = versionedFunction("turn_commit", createCommitFunctionSql);
export const commitTurnSql = callCommitFunctionSql(commitTurnFunction.name);

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

/** Zero: nothing of ours is here. */
export async function readVersion(connection: PostgresConnection): Promise<number> {
  const [[hasSchema, hasTable] = []] = await connection.queryRows(
    `SELECT to_regnamespace('${schemaName}') IS NOT NULL, to_regclass('${schemaName}.migration') IS NOT NULL`,
  );
  if (hasTable === true) {
    const [[version] = []] = await connection.queryRows(`SELECT coalesce(max(version), 0) FROM ${schemaName}.migration`);
    return Number(version);
  }
  if (hasSchema === true)
    throw fault("E.STORE.OPEN", `${connection.label} has a schema ${schemaName} that is not ours; use another database`, {
      place: connection.label,
    });
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
