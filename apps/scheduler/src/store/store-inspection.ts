// Inspects a store for `astra doctor`, read-only. The findings are rated in postgres-checks.ts.

import { Fault } from "@astraflow/protocol";
import { SettingProblem } from "@astraflow/settings";
import { inspectPostgres } from "@astraflow/store";
import { createPasswordMask, describeStoreAddress, parseStoreAddress } from "../settings/store-address.ts";
import { explainConnectionRefusal } from "./connection-refusal.ts";
import { checkServer, type StoreCheck } from "./postgres-checks.ts";

export async function checkStore(text: string): Promise<readonly StoreCheck[]> {
  const address = parseStoreAddress(text, ".");
  if (address instanceof SettingProblem) return [{ name: "store", isGood: false, found: `--store ${address.reason}` }];
  const name = describeStoreAddress(address);
  if (address.of === "sqlite") return [{ name: "store", isGood: true, found: `${name}: a file, for one scheduler` }];
  const begunAt = performance.now();
  try {
    const inspection = await inspectPostgres({ url: address.url });
    return checkServer({ ...inspection, ownClockMs: Date.now(), tookMs: performance.now() - begunAt }, name);
  } catch (cause) {
    if (!(cause instanceof Fault)) throw cause;
    const refusal = explainConnectionRefusal(cause);
    if (refusal !== null) return [{ name: "postgres", isGood: false, found: `${name} ${refusal.problem}`, advice: refusal.fix }];
    const found = createPasswordMask(address)(`${name}: ${cause.message}`);
    return [{ name: "postgres", isGood: false, found, advice: "Start the server, or correct --store" }];
  }
}
