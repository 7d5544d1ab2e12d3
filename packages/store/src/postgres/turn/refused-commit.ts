// Whose fault it is that a commit was refused: workers that are not what they seemed, a unit that the tables do not take, or nobody's.

import type { ChangeSet, CommitOutcome } from "@astraflow/engine";
import { refusedChangeSetFault } from "../../common/change-set-check.ts";
import type { PostgresAddress } from "../connection/address.ts";
import { isConnectionLost, redactedMessage } from "../connection/connection.ts";
import { commitTurnSql } from "../sql/turn-functions.ts";
import { buildCommitPayload, findUnstorableText } from "./commit-payload.ts";
import { changedWorkersFailure, duplicateRowFailure, isRejectedData, turnFault } from "./server-errors.ts";
import type { PostgresTurn } from "./turn.ts";

/** Who speaks to the server, and under which epoch. */
export interface ReplicaEpoch {
  readonly replica: string;
  readonly epoch: number;
}

export const beginTransactionSql = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

export async function diagnoseRefusedCommit(
  turn: PostgresTurn,
  units: readonly ChangeSet[],
  error: unknown,
  address: PostgresAddress,
  { replica, epoch }: ReplicaEpoch,
): Promise<Extract<CommitOutcome, { outcome: "failed" }>> {
  const known = changedWorkersFailure(error) ?? duplicateRowFailure(units, turn, error);
  if (known !== null) return known;
  const bad = isRejectedData(error) ? findUnstorableText(units) : null;
  if (bad !== null) return { outcome: "failed", ...bad };
  const unit = isRejectedData(error) ? await findRefusedChangeSet(turn, units, { replica, epoch }) : -1;
  if (unit >= 0) return { outcome: "failed", unit, fault: refusedChangeSetFault(unit, redactedMessage(address, error), error) };
  return { outcome: "failed", fault: turnFault(address, replica, epoch, error) };
}

/** Tries each unit alone in a transaction that is thrown away, until one is refused as the whole turn was. */
async function findRefusedChangeSet(
  turn: PostgresTurn,
  units: readonly ChangeSet[],
  { replica, epoch }: ReplicaEpoch,
): Promise<number> {
  if (units.length === 1) return 0;
  for (const [index, unit] of units.entries()) {
    const payload = buildCommitPayload([unit], turn, { replica, epoch, lane: turn.pooled.number, turn: 0, now: turn.now }, []);
    if ("unit" in payload) return index;
    try {
      await turn.connection.query(`ROLLBACK; ${beginTransactionSql}`, 2);
      await turn.connection.execute(commitTurnSql, payload.values, false);
    } catch (error) {
      if (isRejectedData(error)) return index;
      // The world is in the way; the turn as a whole goes again.
      if (isConnectionLost(error)) return -1;
    }
  }
  return -1;
}
