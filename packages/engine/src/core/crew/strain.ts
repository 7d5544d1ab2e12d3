// Workers that run short of memory or disk get nothing new until they have room again, and hear that they drain. An operator's drain is
// another matter: neither undoes the other, and a worker hears of the end only when neither holds.

import type { BeatWorker, WorkerAbout } from "../../command.ts";
import { type WorkerRow, workerKey } from "../../rows.ts";
import { reliefPoints, type TenantSettings } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import type { Seat } from "./floor.ts";

type Said = Pick<BeatWorker, "memPct" | "diskPct">;

/** What a worker has too little of after this beat. One that no longer says how much it uses stays as it was. */
export function strainAfter(strain: string | null, said: Said, limits: TenantSettings): string | null {
  const was = strain === null ? [] : strain.split(" ");
  const isShort = (cause: string, pct: number | undefined, limit: number): boolean => {
    if (pct === undefined) return was.includes(cause);
    return was.includes(cause) ? pct > limit - reliefPoints : pct >= limit;
  };
  const now: string[] = [];
  if (isShort("memory", said.memPct, limits.drainMemPct)) now.push("memory");
  if (isShort("disk", said.diskPct, limits.drainDiskPct)) now.push("disk");
  return now.length === 0 ? null : now.join(" ");
}

/** What keeps a worker from new work, as its seat will stand after what this turn has decided so far. */
export function keptBy(board: Board, seat: Seat): { draining: boolean; strain: string | null } {
  let { draining, strain } = seat;
  if (!board.changed.has(seat.worker)) return { draining, strain };
  for (const move of board.moves) {
    if (move.move === "drain" && move.worker === seat.worker) draining = move.on;
    if (move.move === "beat" && move.worker === seat.worker) strain = move.strain;
  }
  return { draining, strain };
}

/**
 * After a beat: the log hears of a strain that came or went, the worker of a drain that came or went, whoever wanted it. True: a drain that
 * was ended elsewhere, of which the worker hears nothing because its strain keeps it from work.
 */
export function showStrain(
  board: Board,
  seat: Seat,
  row: WorkerRow,
  beat: { readonly said: Said; readonly strain: string | null; readonly limits: TenantSettings },
): boolean {
  const { said, strain, limits } = beat;
  const before = keptBy(board, seat);
  const wasKept = before.draining || before.strain !== null;
  const isKept = row.draining || strain !== null;
  const { memPct = null, diskPct = null } = said;
  if (before.strain === null && strain !== null)
    board.say(seat.tenant, workerKey(seat.worker), "worker.strained", {
      memPct,
      diskPct,
      limit: { memPct: limits.drainMemPct, diskPct: limits.drainDiskPct },
    });
  if (before.strain !== null && strain === null)
    board.say(seat.tenant, workerKey(seat.worker), "worker.relieved", { memPct, diskPct });
  // Drained or undrained through another scheduler: the row says so, this floor does not know yet.
  if (row.draining !== before.draining) board.move({ move: "drain", worker: seat.worker, on: row.draining });
  if (wasKept === isKept) return strain !== null && before.draining && !row.draining;
  const reason =
    row.draining !== before.draining
      ? "asked elsewhere"
      : strain === null
        ? "room again"
        : `short of ${strain.replace(" ", " and ")}`;
  board.effect({ type: "drain", session: seat.session, worker: seat.worker, on: isKept, reason });
  return false;
}

/** Only those that know the end of a drain acknowledge either word. */
export const hearsDrains = ({ dialect, features }: Pick<WorkerAbout, "dialect" | "features">): boolean =>
  dialect === "v2" && features.includes("undrain");

/** An operator's drain came or went: a worker that is kept from work by its strain anyway hears nothing new. */
export function tellDrain(board: Board, seat: Seat, on: boolean, reason: string): void {
  if (keptBy(board, seat).strain === null)
    board.effect({ type: "drain", session: seat.session, worker: seat.worker, on, reason });
}
