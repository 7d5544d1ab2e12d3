// Opens the configured store, for the engine and, read-only, for the doors; and notices when its file is lost.

import { statfsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Store, StoreReader } from "@astraflow/engine";
import { openPostgres, openSqlite, PostgresReader, SqliteReader } from "@astraflow/store";
import type { ClockPair } from "../platform/scaled-clock.ts";
import type { StoreAddress } from "../settings/store-address.ts";

export interface OpenStoreOptions {
  /** For SQLite; a PostgreSQL server has its own clock. */
  readonly clock: ClockPair;
  readonly timeScale: number;
  readonly turnsInFlight: number;
  readonly failpoint?: (name: string) => void;
}

export function openStore(address: StoreAddress, { clock, timeScale, turnsInFlight, failpoint }: OpenStoreOptions): Store {
  const armed = failpoint && { failpoint };
  if (address.of === "sqlite") return openSqlite({ file: address.file, clock, ...armed });
  return openPostgres({ url: address.url, connections: turnsInFlight, timeScale, ...armed });
}

export function openStoreReader(address: StoreAddress): StoreReader {
  return address.of === "sqlite" ? new SqliteReader({ file: address.file }) : new PostgresReader({ url: address.url });
}

/** With less than this a turn may fail, and so may the checkpoint that would make room. */
const freeBytesMin = 4 * 1024 * 1024;

/** Whether there is room for the file of the store; a server looks after its own disk. */
export function hasRoomForStore(address: StoreAddress): boolean {
  if (address.of !== "sqlite") return true;
  const { bavail, bsize } = statfsSync(dirname(address.file));
  return bavail * bsize >= freeBytesMin;
}

const fileCheckMs = 1_000;

/**
 * Detects that the store's file was deleted or replaced while the scheduler runs. SQLite would keep writing into a file without a name, and
 * everything accepted from then on would be lost, so the scheduler stops instead: `gone` resolves. A server that is away comes back.
 */
export async function watchForStoreLoss(address: StoreAddress) {
  const gone = Promise.withResolvers<Error>();
  if (address.of !== "sqlite") return { gone: gone.promise, stop: () => undefined };
  const { file } = address;
  const first = await stat(file);
  const checkFile = async () => {
    const why = await stat(file).then(
      (now) => (now.ino === first.ino && now.dev === first.dev ? null : "was replaced by another file"),
      (cause: NodeJS.ErrnoException) => (cause.code === "ENOENT" || cause.code === "ENOTDIR" ? "was deleted" : null),
    );
    if (why !== null)
      gone.resolve(new Error(`the store ${file} ${why} while it was in use; put it back, or restart with the present file`));
  };
  const timer = setInterval(() => void checkFile(), fileCheckMs);
  return { gone: gone.promise, stop: () => clearInterval(timer) };
}
