// Opens the configured store, for the engine and, read-only, for the doors.

import type { Store, StoreReader } from "@astraflow/engine";
import { openPostgres, openPostgresReader, openSqlite, openSqliteReader } from "@astraflow/store";
import type { ClockPair } from "../platform/scaled-clock.ts";
import type { StoreAddress } from "../settings/store-address.ts";
import { type StoreFileWatch, watchStoreFile } from "./store-file-watch.ts";

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
  return address.of === "sqlite" ? openSqliteReader({ file: address.file }) : openPostgresReader({ url: address.url });
}

/** Only a file can be deleted under its scheduler; a server that is away comes back. */
export async function watchForStoreLoss(address: StoreAddress): Promise<StoreFileWatch> {
  if (address.of === "sqlite") return watchStoreFile(address.file);
  return { gone: new Promise(() => undefined), stop: () => undefined };
}
