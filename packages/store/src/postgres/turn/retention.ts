// Removes old rows of the log, and remembers up to where (the floor), and what tasks printed long ago.

import type { Millis, Position, Tenant } from "@astraflow/engine";
import type { PostgresConnection } from "../connection/connection.ts";
import { integerLiteral, textLiteral } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";

/** Few enough that the tenant's row, which every turn of the tenant needs, is never locked for long. */
const trimRowsMax = 1_000;

export async function trimLog(connection: PostgresConnection, tenant: Tenant, floor: Position): Promise<number> {
  const id = textLiteral(tenant);
  const results = await connection.query(
    `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
     UPDATE ${schemaName}.tenant SET floor = greatest(floor, least(${Math.floor(floor)}, position)) WHERE id = ${id};
     DELETE FROM ${schemaName}.event WHERE tenant = ${id} AND first IN (
       SELECT first FROM ${schemaName}.event WHERE tenant = ${id} AND last <= (SELECT floor FROM ${schemaName}.tenant WHERE id = ${id})
       ORDER BY first LIMIT ${trimRowsMax});
     COMMIT`,
    4,
  );
  return results[2]?.rowCount ?? 0;
}

/** Nobody changes what was printed, so nobody is in the way. */
export async function trimChunks(connection: PostgresConnection, before: Millis): Promise<number> {
  const [result] = await connection.query(
    `DELETE FROM ${schemaName}.chunk WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM ${schemaName}.chunk WHERE at < ${integerLiteral(before)} ORDER BY at LIMIT ${trimRowsMax}))`,
    1,
  );
  return result?.rowCount ?? 0;
}
