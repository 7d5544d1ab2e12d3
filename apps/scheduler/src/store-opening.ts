// Opens the store that was chosen, for the engine and, read-only, for the doors. The only file that knows both kinds; which one it
// is to be is in the config.

import type { Store, StoreReader } from "@astraflow/engine";
import { openPostgres, openPostgresReader, openSqlite, openSqliteReader } from "@astraflow/store";
import type { StoreClock } from "./clock.ts";
import type { StorePlace } from "./store-place.ts";
import { type StoreWatch, watchStore } from "./store-watch.ts";

export interface StoreManner {
  /** A file's clock is this process's; a server brings its own. */
  readonly clock: StoreClock;
  readonly timeScale: number;
  readonly turnsInFlight: number;
  readonly failpoint?: (name: string) => void;
}

export function openStore(place: StorePlace, { clock, timeScale, turnsInFlight, failpoint }: StoreManner): Store {
  const armed = failpoint && { failpoint };
  if (place.of === "sqlite") return openSqlite({ file: place.file, clock, ...armed });
  return openPostgres({ url: place.url, connections: turnsInFlight, timeScale, ...armed });
}

export function openReader(place: StorePlace): StoreReader {
  return place.of === "sqlite" ? openSqliteReader({ file: place.file }) : openPostgresReader({ url: place.url });
}

/** Only a file can be taken away under its scheduler; a server that goes away comes back. */
export async function watchPlace(place: StorePlace): Promise<StoreWatch> {
  if (place.of === "sqlite") return watchStore(place.file);
  return { gone: new Promise(() => undefined), stop: () => undefined };
}
