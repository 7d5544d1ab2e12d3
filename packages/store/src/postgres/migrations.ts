// From an empty database to the newest schema: numbered steps, all of them in one transaction under one lock, so that schedulers that
// start at the same moment make the tables once. Also the functions of turns, which belong to a version of this program.

import { createHash } from "node:crypto";
import { fault } from "@astraflow/protocol";
import { beginSql } from "./begin-sql.ts";
import { commitCall, commitSql } from "./commit-sql.ts";
import type { Link } from "./link.ts";
import { documents, firstSchema, schema, workerCondition } from "./schema.ts";

/** A step that has been released is never edited: a change is the next step. */
const migrations: readonly string[] = [firstSchema, workerCondition, documents];

export const schemaVersion = migrations.length;

/**
 * A function's name holds the digest of its text: two versions of this program may work on one database side by side, each with its
 * own, as long as the tables suit both.
 */
function named(base: string, textOf: (name: string) => string): { name: string; sql: string } {
  const digest = createHash("sha256").update(textOf(base)).digest("hex").slice(0, 12);
  const name = `${base}_${digest}`;
  return { name, sql: textOf(name) };
}

export const beginFunction = named("turn_begin", beginSql);
const commitFunction = named("turn_commit", commitSql);
export const commitText = commitCall(commitFunction.name);

/** Any number, as long as all versions of this program use the same. */
const migrationLock = "4706219558021477201";

/** Runs inside a transaction that the caller ends. */
export async function migrate(link: Link, step: (name: string) => void): Promise<void> {
  await link.query(`SELECT pg_advisory_xact_lock(${migrationLock})`, 1);
  const version = await readVersion(link);
  refuseNewer(link.place, version);
  if (version < schemaVersion) {
    step("postgres.migrate");
    if (version === 0)
      await link.query(
        `CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.migration (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`,
        2,
      );
    for (const [index, sql] of migrations.entries())
      if (index >= version) await link.query(`${sql}; INSERT INTO ${schema}.migration (version) VALUES (${index + 1})`, 2);
    step("postgres.migrated");
  }
  for (const { name, sql } of [beginFunction, commitFunction]) {
    const [[isThere] = []] = await link.rows(
      `SELECT 1 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = '${schema}' AND p.proname = '${name}'`,
    );
    if (isThere === undefined) await link.query(sql, 1);
  }
}

/** Zero: nothing of ours is here. */
export async function readVersion(link: Link): Promise<number> {
  const [[hasSchema, hasTable] = []] = await link.rows(
    `SELECT to_regnamespace('${schema}') IS NOT NULL, to_regclass('${schema}.migration') IS NOT NULL`,
  );
  if (hasTable === true) {
    const [[version] = []] = await link.rows(`SELECT coalesce(max(version), 0) FROM ${schema}.migration`);
    return Number(version);
  }
  if (hasSchema === true)
    throw fault("E.STORE.OPEN", `${link.place} has a schema ${schema} that is not ours; use another database`, {
      place: link.place,
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
