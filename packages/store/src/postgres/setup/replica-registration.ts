// Entering a database as one replica: the newest schema, one cluster, one epoch on, and the lanes of older epochs gone, so that
// whoever still holds one cannot commit any more.

import { fault } from "@astraflow/protocol";
import type { PostgresConnection } from "../connection/connection.ts";
import { textLiteral } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";
import { migrate } from "./migrations.ts";

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
  const born = await checkClusterName(connection, me.cluster);
  const [[raised] = []] = await connection.queryRows(
    `INSERT INTO ${schemaName}.replica AS r (id, epoch, last_turn, clock) VALUES (${textLiteral(me.replica)}, 1, 0, 0)
     ON CONFLICT (id) DO UPDATE SET epoch = r.epoch + 1 RETURNING epoch`,
  );
  const epoch = Number(raised);
  // Waits for a commit of the older epoch that is under way and sees what it wrote; one that comes later finds its lane gone.
  await connection.query(
    `WITH gone AS (DELETE FROM ${schemaName}.lane WHERE replica = ${textLiteral(me.replica)} RETURNING last_turn, clock)
     UPDATE ${schemaName}.replica r SET last_turn = greatest(r.last_turn, g.last_turn), clock = greatest(r.clock, g.clock)
     FROM (SELECT max(last_turn) AS last_turn, max(clock) AS clock FROM gone) g WHERE r.id = ${textLiteral(me.replica)};
     INSERT INTO ${schemaName}.lane (replica, lane, epoch, last_turn, clock)
     SELECT id, n, ${epoch}, 0, clock FROM ${schemaName}.replica, generate_series(0, ${lanes - 1}) n WHERE id = ${textLiteral(me.replica)};
     DELETE FROM ${schemaName}.mail WHERE replica = ${textLiteral(me.replica)} AND epoch < ${epoch}`,
    3,
  );
  const [[lastTurn] = []] = await connection.queryRows(
    `SELECT last_turn FROM ${schemaName}.replica WHERE id = ${textLiteral(me.replica)}`,
  );
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
  const meta = new Map(
    (await connection.queryRows(`SELECT name, value FROM ${schemaName}.meta`)).map(([name, value]) => [
      String(name),
      String(value),
    ]),
  );
  const cluster = meta.get("cluster");
  if (cluster !== given)
    throw fault("E.STORE.OPEN", `${connection.label} belongs to cluster ${cluster}, not to ${given}`, {
      place: connection.label,
      cluster,
      given,
    });
  return Number(meta.get("born"));
}
