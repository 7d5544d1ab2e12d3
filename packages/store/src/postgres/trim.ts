// Retention: rows of the log below a floor go, and the floor stays, so that a cursor from before it is answered and not misled. What
// tasks printed goes by its age.

import type { Millis, Position, Tenant } from "@astraflow/engine";
import type { Link } from "./link.ts";
import { textValue, wholeValue } from "./literal.ts";
import { schema } from "./schema.ts";

/** Few enough that the tenant's row, which every turn of the tenant needs, is never locked for long. */
const rowsMax = 1_000;

export async function trimLog(link: Link, tenant: Tenant, floor: Position): Promise<number> {
  const id = textValue(tenant);
  const results = await link.query(
    `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
     UPDATE ${schema}.tenant SET floor = greatest(floor, least(${Math.floor(floor)}, position)) WHERE id = ${id};
     DELETE FROM ${schema}.event WHERE tenant = ${id} AND first IN (
       SELECT first FROM ${schema}.event WHERE tenant = ${id} AND last <= (SELECT floor FROM ${schema}.tenant WHERE id = ${id})
       ORDER BY first LIMIT ${rowsMax});
     COMMIT`,
    4,
  );
  return results[2]?.rowCount ?? 0;
}

/** Nobody changes what was printed, so nobody is in the way. */
export async function trimChunks(link: Link, before: Millis): Promise<number> {
  const [result] = await link.query(
    `DELETE FROM ${schema}.chunk WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM ${schema}.chunk WHERE at < ${wholeValue(before)} ORDER BY at LIMIT ${rowsMax}))`,
    1,
  );
  return result?.rowCount ?? 0;
}
