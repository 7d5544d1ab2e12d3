// Opens a database as one replica: newest schema, same cluster, next epoch. Lanes of older epochs go, so that nobody commits under them.

import { fault } from "@astraflow/protocol";
import { foreignClusterFault, refuseNewerSchema } from "../../common/store-faults.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import { beginTurnFunction } from "../sql/begin-function.ts";
import { commitTurnFunction } from "../sql/commit-function.ts";
import { textLiteral } from "../sql/literals.ts";
import { addDocumentsSql, addRemovedPositionSql, addWorkerConditionSql, initialSchemaSql, schemaName } from "../sql/tables.ts";

export interface RegisteredReplica {
  readonly epoch: number;
  readonly lastTurn: number;
  /** When the store was made, by the server's clock: the zero point of scaled time. */
  readonly born: number;
}

const registrationLockMsMax = 15_000;

export async function registerReplica(
  connection: PostgresConnection,
  me: { replica: string; cluster: string },
  lanes: number,
  step: (name: string) => void,
): Promise<RegisteredReplica> {
  await connection.query(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = ${registrationLockMsMax}`, 2);
  await migrate(connection, step);
  const replica = textLiteral(me.replica);
  const born = await checkClusterName(connection, me.cluster);
  const [[raised] = []] = await connection.queryRows(
    `INSERT INTO ${schemaName}.replica AS r (id, epoch, last_turn, clock) VALUES (${replica}, 1, 0, 0)
     ON CONFLICT (id) DO UPDATE SET epoch = r.epoch + 1 RETURNING epoch`,
  );
  const epoch = Number(raised);
  // Waits for a commit of the older epoch that is under way and sees what it wrote; one that comes later finds its lane gone.
  await connection.query(
    `WITH gone AS (DELETE FROM ${schemaName}.lane WHERE replica = ${replica} RETURNING last_turn, clock)
     UPDATE ${schemaName}.replica r SET last_turn = greatest(r.last_turn, g.last_turn), clock = greatest(r.clock, g.clock)
     FROM (SELECT max(last_turn) AS last_turn, max(clock) AS clock FROM gone) g WHERE r.id = ${replica};
     INSERT INTO ${schemaName}.lane (replica, lane, epoch, last_turn, clock)
     SELECT id, n, ${epoch}, 0, clock FROM ${schemaName}.replica, generate_series(0, ${lanes - 1}) n WHERE id = ${replica};
     DELETE FROM ${schemaName}.mail WHERE replica = ${replica} AND epoch < ${epoch}`,
    3,
  );
  const [[lastTurn] = []] = await connection.queryRows(`SELECT last_turn FROM ${schemaName}.replica WHERE id = ${replica}`);
  await connection.query("COMMIT", 1);
  return { epoch, lastTurn: Number(lastTurn), born };
}

/** The cluster's name is written once and compared ever after. */
async function checkClusterName(connection: PostgresConnection, given: string): Promise<number> {
  await connection.query(
    `INSERT INTO ${schemaName}.meta (name, value) VALUES ('cluster', ${textLiteral(given)}),
       ('born', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text) ON CONFLICT (name) DO NOTHING`,
    1,
  );
  const rows = await connection.queryRows(`SELECT name, value FROM ${schemaName}.meta`);
  const { cluster, born } = Object.fromEntries(rows) as { cluster: string; born: string };
  if (cluster !== given) throw foreignClusterFault(connection.label, cluster, given, { place: connection.label });
  return Number(born);
}

/** A step that has been released is never edited: a change is the next step. */
const migrations: readonly string[] = [initialSchemaSql, addWorkerConditionSql, addDocumentsSql, addRemovedPositionSql];

export const schemaVersion = migrations.length;

/** Any number, as long as all versions of this program use the same. */
const migrationLock = "4706219558021477201";

/**
 * Brings the database to the newest schema under one lock, so that schedulers that start at the same time create the tables once. Also
 * creates the functions of turns, which belong to a version of this program.
 */
async function migrate(connection: PostgresConnection, step: (name: string) => void): Promise<void> {
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
  const { label: place } = connection;
  const [[hasSchema, hasTable] = []] = await connection.queryRows(
    `SELECT to_regnamespace('${schemaName}') IS NOT NULL, to_regclass('${schemaName}.migration') IS NOT NULL`,
  );
  if (hasTable === true) {
    const [[version] = []] = await connection.queryRows(`SELECT coalesce(max(version), 0) FROM ${schemaName}.migration`);
    return Number(version);
  }
  if (hasSchema === true)
    throw fault("E.STORE.OPEN", `${place} has a schema named ${schemaName} that AstraFlow did not create; use another database`, {
      place,
    });
  return 0;
}

export const refuseNewer = (place: string, version: number): void => refuseNewerSchema(place, version, schemaVersion, { place });
