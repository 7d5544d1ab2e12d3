// What an error of the server means for a turn: whose fault it is, whether it may be tried again, and which unit to leave out.

import type { ChangeSet, CommitOutcome, RowKey } from "@astraflow/engine";
import { keyOf, rootOf } from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { changedWorkersFault, refusedChangeSetFault } from "../../common/change-set-check.ts";
import type { PostgresAddress } from "../connection/address.ts";
import { redactedMessage, sqlStateOf } from "../connection/connection.ts";
import type { LoadedRows } from "./commit-payload.ts";

type FailedCommit = Extract<CommitOutcome, { outcome: "failed" }>;

/** Errors that our own functions raise. */
const epochOverState = "AF001";
const notDurableState = "AF002";
const workerChangedState = "AF004";
const uniqueViolationState = "23505";

/** Workers that are not what the turn relied on. */
export function changedWorkersFailure(error: unknown): FailedCommit | null {
  if (sqlStateOf(error) !== workerChangedState) return null;
  const doubts = JSON.parse((error as Error).message) as string[];
  return { outcome: "failed", changedWorkers: doubts, fault: changedWorkersFault(doubts) };
}

/** Data the tables do not take: bad values, broken constraints, texts too long for an index. */
export function isRejectedData(error: unknown): boolean {
  return /^(22|23|54)/.test(sqlStateOf(error) ?? "");
}

/** An error that leaves nothing written, without a unit to blame. */
export function turnFault(address: PostgresAddress, replica: string, epoch: number, error: unknown): Fault {
  const { label: place } = address;
  const state = sqlStateOf(error);
  const message = redactedMessage(address, error);
  if (state === epochOverState)
    return fault(
      "E.STORE.IN_USE",
      `another process has opened replica ${replica} (epoch ${message}); this one (epoch ${epoch}) may no longer write`,
      {
        replica,
        epoch,
      },
    );
  if (state === notDurableState)
    return fault(
      "E.STORE.DURABILITY",
      `${place} now has synchronous_commit = ${message}, so an acknowledged change could be lost; set it to on`,
      { place },
    );
  return fault(
    "E.STORE.BUSY",
    `PostgreSQL at ${place} rejected the turn: ${message}`,
    { place, ...(state === null ? {} : { state }) },
    error,
  );
}

/**
 * A row that was to be new and exists. Under a root that this turn holds, its unit was mistaken; under one that nobody could lock,
 * another turn was faster, and the whole turn goes again and will see that row.
 */
export function duplicateRowFailure(units: readonly ChangeSet[], loaded: LoadedRows, error: unknown): FailedCommit | null {
  const { table, detail } = error as { table?: string; detail?: string };
  const id = /\(id\)=\((.*)\)/s.exec(detail ?? "")?.[1];
  if (sqlStateOf(error) !== uniqueViolationState || table === undefined || id === undefined) return null;
  const key = `${table}/${id}` as RowKey;
  if (loaded.isUnlockedRoot(rootOf(key)))
    return { outcome: "failed", fault: fault("E.STORE.BUSY", `${key} was created by another turn at the same time; try again`) };
  const unit = units.findIndex((one) => one.puts.some((row) => keyOf(row) === key));
  return unit < 0
    ? null
    : { outcome: "failed", unit, fault: refusedChangeSetFault(unit, `${key} should be new but exists already`, error) };
}

/** Why a store cannot be opened. */
export function openPostgresFault(address: PostgresAddress, error: unknown): Fault {
  if (error instanceof Fault && error.code !== "E.STORE.BUSY") return error;
  const { label: place } = address;
  const why = error instanceof Fault ? error.message : `${place} cannot be opened: ${redactedMessage(address, error)}`;
  return fault("E.STORE.OPEN", why, { place }, error);
}
