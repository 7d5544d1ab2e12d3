// Finds out what became of a turn whose commit was not answered. The lost connection holds a lock that ends with its transaction: whoever
// gets that lock knows that the transaction is over, and the row of its connection says whether it was committed.

import { supersededFault } from "../../common/store-faults.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import type { PooledConnection } from "../connection/connection-pool.ts";
import { lockMsMax } from "../sql/begin-function.ts";
import { textLiteral } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";
import type { ReplicaEpoch } from "./turn.ts";

export type SettledOutcome = "committed" | "absent";

export interface UnsettledTurn {
  readonly pooled: PooledConnection;
  /** The lock of the connection that was lost. */
  readonly nonce: string;
}

export async function settleTurn(
  connection: PostgresConnection,
  { replica, epoch }: ReplicaEpoch,
  turn: number,
  { pooled, nonce }: UnsettledTurn,
): Promise<SettledOutcome> {
  const text = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = ${2 * lockMsMax}; SELECT pg_advisory_xact_lock(${nonce});
    SELECT epoch, last_turn FROM ${schemaName}.lane WHERE replica = ${textLiteral(replica)} AND lane = ${pooled.number}; COMMIT`;
  const results = await connection.query(text, 5);
  const [current, lastTurn] = results[3]?.rows[0] ?? [];
  if (current === undefined || Number(current) !== epoch) throw supersededFault(replica, epoch, current ?? "unknown");
  return Number(lastTurn) === turn ? "committed" : "absent";
}
