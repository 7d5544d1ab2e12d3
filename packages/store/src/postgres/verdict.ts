// What an error of the server means for a turn: whose fault it is, whether it may be tried again, and which unit to leave out.

import type { ChangeSet, CommitOutcome, RowKey } from "@astraflow/engine";
import { keyOf, rootOf } from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { doubtFault, refuse } from "../unit-check.ts";
import type { Address } from "./address.ts";
import { messageOf, stateOf } from "./link.ts";
import type { Knowledge } from "./payload.ts";

type Failed = Extract<CommitOutcome, { outcome: "failed" }>;

/** Errors that our own functions raise. */
const isOver = "AF001";
const isNotDurable = "AF002";
const isInDoubt = "AF004";
const uniqueViolation = "23505";

/** Workers that are not what the turn relied on. */
export function doubtedWorkers(error: unknown): Failed | null {
  if (stateOf(error) !== isInDoubt) return null;
  const doubts = JSON.parse((error as Error).message) as string[];
  return { outcome: "failed", changedWorkers: doubts, fault: doubtFault(doubts) };
}

/** Data the tables do not take: bad values, broken constraints, texts too long for an index. */
export function isRefusedData(error: unknown): boolean {
  return /^(22|23|54)/.test(stateOf(error) ?? "");
}

/** An error that leaves nothing written, without a unit to blame. */
export function faultOf(address: Address, replica: string, epoch: number, error: unknown): Fault {
  const { place } = address;
  const state = stateOf(error);
  const message = messageOf(address, error);
  if (state === isOver)
    return fault("E.STORE.IN_USE", `replica ${replica} was opened again under epoch ${message}; epoch ${epoch} is over`, {
      replica,
      epoch,
    });
  if (state === isNotDurable)
    return fault(
      "E.STORE.DURABILITY",
      `${place} now has synchronous_commit = ${message}, so a turn could be lost after it was answered; set it to on`,
      { place },
    );
  return fault(
    "E.STORE.BUSY",
    `${place} did not take the turn: ${message}`,
    { place, ...(state === null ? {} : { state }) },
    error,
  );
}

/**
 * A row that was to be new and exists. Under a root that this turn holds, its unit was mistaken; under one that nobody could lock,
 * another turn was faster, and the whole turn goes again and will see that row.
 */
export function doubledRow(units: readonly ChangeSet[], known: Knowledge, error: unknown): Failed | null {
  const { table, detail } = error as { table?: string; detail?: string };
  const id = /\(id\)=\((.*)\)/s.exec(detail ?? "")?.[1];
  if (stateOf(error) !== uniqueViolation || table === undefined || id === undefined) return null;
  const key = `${table}/${id}` as RowKey;
  if (known.isLoose(rootOf(key)))
    return { outcome: "failed", fault: fault("E.STORE.BUSY", `${key} was made by another turn at the same moment; try again`) };
  const unit = units.findIndex((one) => one.puts.some((row) => keyOf(row) === key));
  return unit < 0 ? null : { outcome: "failed", unit, fault: refuse(unit, `${key} was to be new and exists`, error) };
}

/** Why a store cannot be opened. */
export function openFault(address: Address, error: unknown): Fault {
  if (error instanceof Fault && error.code !== "E.STORE.BUSY") return error;
  const { place } = address;
  const why = error instanceof Fault ? error.message : `${place} cannot be opened: ${messageOf(address, error)}`;
  return fault("E.STORE.OPEN", why, { place }, error);
}
