// Whose fault it is that a commit was refused: workers that are not what they seemed, a unit that the tables do not take, or nobody's.

import type { ChangeSet, CommitOutcome } from "@astraflow/engine";
import { refuse } from "../unit-check.ts";
import type { Address } from "./address.ts";
import { isEndOfSession, messageOf } from "./link.ts";
import { commitText } from "./migrations.ts";
import { badText, payloadOf } from "./payload.ts";
import type { PostgresTurn } from "./turn.ts";
import { doubledRow, doubtedWorkers, faultOf, isRefusedData } from "./verdict.ts";

/** Who speaks to the server, and under which epoch. */
export interface Speaker {
  readonly replica: string;
  readonly epoch: number;
}

export const beginText = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

export async function blame(
  turn: PostgresTurn,
  units: readonly ChangeSet[],
  error: unknown,
  address: Address,
  { replica, epoch }: Speaker,
): Promise<Extract<CommitOutcome, { outcome: "failed" }>> {
  const known = doubtedWorkers(error) ?? doubledRow(units, turn, error);
  if (known !== null) return known;
  const bad = isRefusedData(error) ? badText(units) : null;
  if (bad !== null) return { outcome: "failed", ...bad };
  const unit = isRefusedData(error) ? await findRefused(turn, units, { replica, epoch }) : -1;
  if (unit >= 0) return { outcome: "failed", unit, fault: refuse(unit, messageOf(address, error), error) };
  return { outcome: "failed", fault: faultOf(address, replica, epoch, error) };
}

/** Tries each unit alone in a transaction that is thrown away, until one is refused as the whole turn was. */
async function findRefused(turn: PostgresTurn, units: readonly ChangeSet[], { replica, epoch }: Speaker): Promise<number> {
  if (units.length === 1) return 0;
  for (const [index, unit] of units.entries()) {
    const payload = payloadOf([unit], turn, { replica, epoch, lane: turn.lane.number, turn: 0, now: turn.now }, []);
    if ("unit" in payload) return index;
    try {
      await turn.link.query(`ROLLBACK; ${beginText}`, 2);
      await turn.link.call(commitText, payload.values, false);
    } catch (error) {
      if (isRefusedData(error)) return index;
      // The world is in the way; the turn as a whole goes again.
      if (isEndOfSession(error)) return -1;
    }
  }
  return -1;
}
