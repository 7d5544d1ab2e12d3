// Finding out what became of a turn whose commit was not answered. The lost connection holds a lock that ends with its transaction,
// so whoever gets that lock knows that it is over, one way or the other, and the lane's row says which.

import { fault } from "@astraflow/protocol";
import type { PostgresConnection } from "../connection/connection.ts";
import type { PooledConnection } from "../connection/connection-pool.ts";
import { lockMsMax } from "../sql/begin-function.ts";
import { textLiteral } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";

export type SettledOutcome = "committed" | "absent";

/** How many outcomes are remembered for whoever asks again. */
const outcomesMax = 1_000;

/** What became of the last turns. */
export class SettledOutcomes {
  readonly #byTurn = new Map<number, SettledOutcome>();

  get(turn: number): SettledOutcome {
    return this.#byTurn.get(turn) ?? "absent";
  }

  remember(turn: number, outcome: SettledOutcome): void {
    this.#byTurn.set(turn, outcome);
    if (this.#byTurn.size <= outcomesMax) return;
    const [oldest] = this.#byTurn.keys();
    if (oldest !== undefined) this.#byTurn.delete(oldest);
  }
}

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
    throw fault("E.STORE.IN_USE", `replica ${me.replica} was opened again; epoch ${me.epoch} is over`, { replica: me.replica });
  return Number(lastTurn) === turn ? "committed" : "absent";
}
