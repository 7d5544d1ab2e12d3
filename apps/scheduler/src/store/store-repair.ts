// `astra doctor --repair`: makes a store whose files were refused as damaged open again, with what is left of it.

import { Fault } from "@astraflow/protocol";
import { SettingProblem } from "@astraflow/settings";
import { repairSqlite } from "@astraflow/store";
import { describeStoreAddress, parseStoreAddress } from "../settings/store-address.ts";
import type { StoreCheck } from "./postgres-checks.ts";

export function repairStore(storeSetting: string, dataDir: string): StoreCheck {
  const name = "repair";
  const address = parseStoreAddress(storeSetting, dataDir);
  if (address instanceof SettingProblem) return { name, isGood: false, found: `--store ${address.reason}` };
  const place = describeStoreAddress(address);
  if (address.of === "postgres")
    return {
      name,
      isGood: false,
      found: `${place} is a server`,
      advice: "Restore a backup with astra restore; see docs/guides/backup.md",
    };
  try {
    const { done, problem } = repairSqlite(address.file, new Date().toISOString().replaceAll(/[:.]/g, "-"));
    if (problem !== null) return { name, isGood: false, found: [...done, problem].join("; ") };
    return { name, isGood: true, found: done.length === 0 ? `${place} needs no repair` : `${place}: ${done.join("; ")}` };
  } catch (cause) {
    if (!(cause instanceof Fault)) throw cause;
    return { name, isGood: false, found: cause.message };
  }
}
