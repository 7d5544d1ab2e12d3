// What a turn takes and requests when it begins: how many of the waiting commands, and which rows, lists and claims. Pure.

import { listsNeededBy, rowsNeededBy } from "../core/decide.ts";
import { rowsForTimers } from "../core/timers.ts";
import type { DecisionContext } from "../core/unit-of-work/decision-context.ts";
import type { EngineSettings } from "../interface/settings.ts";
import type { QueueClaim, TurnRequest } from "../storage/port.ts";
import type { Millis, RowKey } from "../storage/rows.ts";
import type { WaitingCommand } from "./inbox.ts";

/** A turn of fewer commands than this is not worth splitting: it costs two calls to the store, however small. */
const commandsPerTurnMin = 128;

/** How many commands a turn takes: turns in flight share what waits, so that deciding overlaps committing. */
export function commandsForTurn(waiting: number, inFlight: number, { turnCommandsMax, turnsInFlight }: EngineSettings): number {
  const others = turnsInFlight - inFlight - 1;
  if (others <= 0) return turnCommandsMax;
  return Math.min(turnCommandsMax, Math.max(commandsPerTurnMin, Math.ceil(waiting / (others + 1))));
}

/** A run to be started gets its id here, so that a repeated turn requests the same rows. */
export function buildTurnRequest(
  context: DecisionContext,
  batch: readonly WaitingCommand[],
  claims: readonly QueueClaim[],
  { now, skip }: { readonly now: Millis; readonly skip: ReadonlySet<RowKey> },
): TurnRequest {
  const rows: RowKey[] = [];
  for (const item of batch) {
    if (item.command.type === "run.start") item.newRunId ??= context.nextId(now);
    for (const key of rowsNeededBy(item.command, item.newRunId)) rows.push(key);
  }
  rows.push(...rowsForTimers(context, now));
  const lists = batch.flatMap((item) => listsNeededBy(item.command));
  return { rows, claims, lists, due: context.settings.dueMax, mail: context.settings.mailMax, skip: [...skip] };
}
