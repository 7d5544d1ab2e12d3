// When the content of the WAL is moved into the database file: at a clean stop, by size, and after a while. SQLite does it by itself only
// at its own size, and a store with little to do would have half an hour of work in the WAL alone.

import { statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { markClosed } from "./damage-check.ts";

/** A WAL above `walBytesKept` is moved once this much time has passed since the last time. */
export const walCheckMs = 30_000;
const walBytesKept = 1024 * 1024;
const commitsPerCheck = 64;

export interface WalPolicyOptions {
  readonly file: string;
  /** How long the connection waits for others otherwise. */
  readonly busyMs: number;
  /** Above this it is moved at once. */
  readonly walBytesMax: number;
  readonly clock: { mono(): number };
}

/** Called after each commit; looks at the file after some of them. */
export class WalCheckpoints {
  readonly #options: WalPolicyOptions;
  #commits = 0;
  #checkpointedAt: number;

  constructor(options: WalPolicyOptions) {
    this.#options = options;
    this.#checkpointedAt = options.clock.mono();
  }

  /** A reader that stays long keeps the WAL from starting over; once it is gone, this gives the space back. */
  handleCommit(db: DatabaseSync): void {
    if (++this.#commits % commitsPerCheck !== 0) return;
    const { file, walBytesMax, busyMs, clock } = this.#options;
    const bytes = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    const now = clock.mono();
    const isDue = bytes > walBytesMax || (bytes > walBytesKept && now - this.#checkpointedAt >= walCheckMs);
    if (!isDue) return;
    this.#checkpointedAt = now;
    db.exec("PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)");
    db.exec(`PRAGMA busy_timeout = ${busyMs}`);
  }
}

/** Moves everything into the database file. SQLite does so by itself only when the last connection closes, and readers may be open. */
export function emptyWal(db: DatabaseSync): void {
  try {
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (error) {
    refuseUnlessSqlite(error);
  }
}

/** Before the writer's connection closes. */
export function closeCleanly(db: DatabaseSync): void {
  try {
    markClosed(db);
  } catch (error) {
    refuseUnlessSqlite(error);
    return;
  }
  emptyWal(db);
}

/** A disk that is full or fails, or a foreign lock. Nothing is lost: the WAL stays, and the next start reads it. */
function refuseUnlessSqlite(error: unknown): void {
  if ((error as { errcode?: number }).errcode === undefined) throw error;
}
