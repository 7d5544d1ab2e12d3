// Looks at the store that an address names, for `astra doctor`: reads, and changes nothing. What a server's settings mean is judged in
// store-checkup.ts; until the store can be asked for them, only whether it answers is seen here.

import { Fault } from "@astraflow/protocol";
import { Refusal } from "./setting-table.ts";
import type { StoreCheck } from "./store-checkup.ts";
import { openReader } from "./store-opening.ts";
import { createVeil, nameStore, readStorePlace } from "./store-place.ts";

export async function checkStore(text: string): Promise<readonly StoreCheck[]> {
  const place = readStorePlace(text, ".");
  if (place instanceof Refusal) return [{ name: "store", isGood: false, found: `--store ${place.reason}` }];
  const name = nameStore(place);
  if (place.of === "sqlite") return [{ name: "store", isGood: true, found: `${name}: a file, for one scheduler` }];
  const reader = openReader(place);
  try {
    await reader.page({ page: "routes" });
    return [{ name: "postgres", isGood: true, found: `${name} answers` }];
  } catch (cause) {
    if (!(cause instanceof Fault)) throw cause;
    const found = createVeil(place)(`${name}: ${cause.message}`);
    // It answered, and there is nothing to read yet.
    if (cause.code === "E.STORE.OPEN") return [{ name: "postgres", isGood: true, found }];
    return [{ name: "postgres", isGood: false, found, advice: "Start the server, or correct --store" }];
  } finally {
    await reader.close();
  }
}
