// Finds out what became of a turn whose commit was not answered. The lost connection holds a lock that ends with its transaction: whoever
// gets that lock knows that the transaction is over, and the row of its connection says whether it was committed.

import { fault, LruMap } from "@astraflow/protocol";
import type { PostgresConnection } from "../connection/connection.ts";
import type { PooledConnection } from "../connection/connection-pool.ts";
import { lockMsMax } from "../sql/begin-function.ts";
import { textLiteral } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";

export type SettledOutcome = "committed" | "absent";

/** How many outcomes are remembered for whoever asks again. */
const outcomesMax = 1_000;

/** The outcomes of the last turns. */
export const createSettledOutcomes = (): LruMap<number, SettledOutcome> =>
  new LruMap({ entriesMax: outcomesMax, touchOnGet: false });

export interface UnsettledTurn {
  readonly pooled: PooledConnection;
  /** The lock of the connection that was lost. */
  readonly nonce: string;
}

export async function settleTurn(
  connection: PostgresConnection,
  me: { replica: string; epoch: number },
  turn: number,
  { pooled, nonce }: UnsettledTurn,
): Promise<SettledOutcome> {
  const text = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = ${2 * lockMsMax}; SELECT pg_advisory_xact_lock(${nonce});
    SELECT epoch, last_turn FROM ${schemaName}.lane WHERE replica = ${textLiteral(me.replica)} AND lane = ${pooled.number}; COMMIT`;
  const results = await connection.query(text, 5);
  const [epoch, lastTurn] = results[3]?.rows[0] ?? [];
  if (epoch === undefined || Number(epoch) !== me.epoch)
    throw fault(
      "E.STORE.IN_USE",
      `another process has opened replica ${me.replica}; this one (epoch ${me.epoch}) may no longer write`,
      { replica: me.replica },
    );
  return Number(lastTurn) === turn ? "committed" : "absent";
}
