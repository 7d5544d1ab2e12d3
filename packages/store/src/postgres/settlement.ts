// Finding out what became of a turn whose commit was not answered. The lost connection holds a lock that ends with its transaction,
// so whoever gets that lock knows that it is over, one way or the other, and the lane's row says which.

import { fault } from "@astraflow/protocol";
import { lockMsMax } from "./begin-sql.ts";
import type { Lane } from "./lanes.ts";
import type { Link } from "./link.ts";
import { textValue } from "./literal.ts";
import { schema } from "./schema.ts";

export type Outcome = "committed" | "absent";

/** How many outcomes are remembered for whoever asks again. */
const outcomesMax = 1_000;

/** What became of the last turns. */
export class Outcomes {
  readonly #known = new Map<number, Outcome>();

  of(turn: number): Outcome {
    return this.#known.get(turn) ?? "absent";
  }

  remember(turn: number, outcome: Outcome): void {
    this.#known.set(turn, outcome);
    if (this.#known.size <= outcomesMax) return;
    const [oldest] = this.#known.keys();
    if (oldest !== undefined) this.#known.delete(oldest);
  }
}

export interface Unsettled {
  readonly lane: Lane;
  /** The lock of the connection that was lost. */
  readonly nonce: string;
}

export async function settleTurn(
  link: Link,
  me: { replica: string; epoch: number },
  turn: number,
  { lane, nonce }: Unsettled,
): Promise<Outcome> {
  const text = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = ${2 * lockMsMax}; SELECT pg_advisory_xact_lock(${nonce});
    SELECT epoch, last_turn FROM ${schema}.lane WHERE replica = ${textValue(me.replica)} AND lane = ${lane.number}; COMMIT`;
  const results = await link.query(text, 5);
  const [epoch, lastTurn] = results[3]?.rows[0] ?? [];
  if (epoch === undefined || Number(epoch) !== me.epoch)
    throw fault("E.STORE.IN_USE", `replica ${me.replica} was opened again; epoch ${me.epoch} is over`, { replica: me.replica });
  return Number(lastTurn) === turn ? "committed" : "absent";
}
