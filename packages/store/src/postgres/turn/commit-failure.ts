// Finds out why a commit was refused: changed workers, one bad change set, or the server; and whether it may be tried again.

import { type ChangeSet, type CommitOutcome, keyOf, type RowKey, rootOf } from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { changedWorkersFault, invalidChangeSet } from "../../common/change-set-check.ts";
import { supersededFault } from "../../common/store-faults.ts";
import { isConnectionLost, type PostgresAddress, redactedMessage, sqlStateOf } from "../connection/connection.ts";
import { commitTurnSql } from "../sql/commit-function.ts";
import { buildCommitPayload, findUnstorableText } from "./commit-payload.ts";
import type { PostgresTurn, ReplicaEpoch } from "./turn.ts";

type FailedCommit = Extract<CommitOutcome, { outcome: "failed" }>;

/** Errors that our own functions raise. */
const epochOverState = "AF001";
const notDurableState = "AF002";
const workerChangedState = "AF004";
const uniqueViolationState = "23505";

export const beginTransactionSql = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

export async function diagnoseRefusedCommit(
  turn: PostgresTurn,
  units: readonly ChangeSet[],
  error: unknown,
  address: PostgresAddress,
  replica: ReplicaEpoch,
): Promise<FailedCommit> {
  const known = changedWorkersFailure(error) ?? duplicateRowFailure(units, turn, error);
  if (known !== null) return known;
  if (isRejectedData(error)) {
    const bad = findUnstorableText(units);
    if (bad !== null) return { outcome: "failed", ...bad };
    const unit = await findRefusedChangeSet(turn, units, replica);
    if (unit >= 0) return { outcome: "failed", ...invalidChangeSet(unit, redactedMessage(address, error), error) };
  }
  return { outcome: "failed", fault: turnFault(address, replica, error) };
}

/** Tries each unit alone in a transaction that is thrown away, until one is refused as the whole turn was. */
async function findRefusedChangeSet(turn: PostgresTurn, units: readonly ChangeSet[], replica: ReplicaEpoch): Promise<number> {
  if (units.length === 1) return 0;
  for (const [index, unit] of units.entries()) {
    const payload = buildCommitPayload([unit], turn, 0, replica, []);
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

/** Workers that are not what the turn relied on. */
function changedWorkersFailure(error: unknown): FailedCommit | null {
  if (sqlStateOf(error) !== workerChangedState) return null;
  const changedWorkers = JSON.parse((error as Error).message) as string[];
  return { outcome: "failed", changedWorkers, fault: changedWorkersFault(changedWorkers) };
}

/** Data the tables do not take: bad values, broken constraints, texts too long for an index. */
function isRejectedData(error: unknown): boolean {
  return /^(22|23|54)/.test(sqlStateOf(error) ?? "");
}

/**
 * A row that was to be new and exists. Under a root that this turn holds, its unit was mistaken; under one that nobody could lock,
 * another turn was faster, and the whole turn goes again and will see that row.
 */
function duplicateRowFailure(units: readonly ChangeSet[], turn: PostgresTurn, error: unknown): FailedCommit | null {
  const { table, detail } = error as { table?: string; detail?: string };
  const id = /\(id\)=\((.*)\)/s.exec(detail ?? "")?.[1];
  if (sqlStateOf(error) !== uniqueViolationState || table === undefined || id === undefined) return null;
  const key = `${table}/${id}` as RowKey;
  if (turn.unlockedRoots.has(rootOf(key)))
    return { outcome: "failed", fault: fault("E.STORE.BUSY", `${key} was created by another turn at the same time; try again`) };
  const unit = units.findIndex((one) => one.puts.some((row) => keyOf(row) === key));
  if (unit < 0) return null;
  return { outcome: "failed", ...invalidChangeSet(unit, `${key} should be new but exists already`, error) };
}

/** An error that leaves nothing written, without a unit to blame. */
export function turnFault(address: PostgresAddress, { replica, epoch }: ReplicaEpoch, error: unknown): Fault {
  const { label: place } = address;
  const state = sqlStateOf(error);
  const message = redactedMessage(address, error);
  if (state === epochOverState) return supersededFault(replica, epoch, message);
  if (state === notDurableState) {
    const danger = `${place} now has synchronous_commit = ${message}, so an acknowledged change could be lost; set it to on`;
    return fault("E.STORE.DURABILITY", danger, { place });
  }
  const details = state === null ? { place } : { place, state };
  return fault("E.STORE.BUSY", `PostgreSQL at ${place} rejected the turn: ${message}`, details, error);
}

/** Why a store cannot be opened. */
export function openPostgresFault(address: PostgresAddress, error: unknown): Fault {
  if (error instanceof Fault && error.code !== "E.STORE.BUSY") return error;
  const { label: place } = address;
  const why = error instanceof Fault ? error.message : `${place} cannot be opened: ${redactedMessage(address, error)}`;
  return fault("E.STORE.OPEN", why, { place }, error);
}
