// Looks at the store that an address names, for `astra doctor`: reads, and changes nothing. What it means is judged in store-checkup.ts.

import { Fault } from "@astraflow/protocol";
import { inspectPostgres } from "@astraflow/store";
import { Refusal } from "./setting-readers.ts";
import { judgeServer, type StoreCheck } from "./store-checkup.ts";
import { readDenial } from "./store-denial.ts";
import { createVeil, nameStore, readStorePlace } from "./store-place.ts";

export async function checkStore(text: string): Promise<readonly StoreCheck[]> {
  const place = readStorePlace(text, ".");
  if (place instanceof Refusal) return [{ name: "store", isGood: false, found: `--store ${place.reason}` }];
  const name = nameStore(place);
  if (place.of === "sqlite") return [{ name: "store", isGood: true, found: `${name}: a file, for one scheduler` }];
  const begunAt = performance.now();
  try {
    const look = await inspectPostgres({ url: place.url });
    return judgeServer({ ...look, ownClockMs: Date.now(), tookMs: performance.now() - begunAt }, name);
  } catch (cause) {
    if (!(cause instanceof Fault)) throw cause;
    const denial = readDenial(cause);
    if (denial !== null) return [{ name: "postgres", isGood: false, found: `${name} ${denial.found}`, advice: denial.wayOut }];
    const found = createVeil(place)(`${name}: ${cause.message}`);
    return [{ name: "postgres", isGood: false, found, advice: "Start the server, or correct --store" }];
  }
}
