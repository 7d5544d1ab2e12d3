// What a turn takes and asks for when it begins: how many of the waiting commands, and which rows, lists and claims. Pure.

import { rowsForTimers } from "../core/clockwork.ts";
import { listsFor, rowsFor } from "../core/decide.ts";
import type { Tools } from "../core/tools.ts";
import type { Claim, Want } from "../port.ts";
import type { Key, Millis } from "../rows.ts";
import type { Settings } from "../world.ts";
import type { Waiting } from "./inbox.ts";

/** A turn of fewer commands than this is not worth splitting: it costs two calls to the store, however small. */
const shareMin = 128;

/**
 * How many commands a turn takes: where others may fly beside it, what waits is shared among them, so that deciding overlaps
 * committing.
 */
export function shareOf(waiting: number, inFlight: number, { turnCommandsMax, turnsInFlight }: Settings): number {
  const others = turnsInFlight - inFlight - 1;
  if (others <= 0) return turnCommandsMax;
  return Math.min(turnCommandsMax, Math.max(shareMin, Math.ceil(waiting / (others + 1))));
}

/** A run that is to be born gets its id here, so that a turn that goes again asks for the same rows. */
export function wantOf(
  tools: Tools,
  batch: readonly Waiting[],
  claims: readonly Claim[],
  { now, skip }: { readonly now: Millis; readonly skip: ReadonlySet<Key> },
): Want {
  const rows: Key[] = [];
  for (const item of batch) {
    if (item.command.type === "run.start") item.run ??= tools.nextId(now);
    for (const key of rowsFor(item.command, item.run)) rows.push(key);
  }
  rows.push(...rowsForTimers(tools, now));
  const lists = batch.flatMap((item) => listsFor(item.command));
  return { rows, claims, lists, due: tools.settings.dueMax, mail: tools.settings.mailMax, skip: [...skip] };
}
