// Which versions of a package a workflow asks for beside what its nodes say: `runtimes.*.workerHints`.

import type { Workflow } from "@astraflow/protocol";
import { compareVersions } from "../values/version-order.ts";

/** The least version hinted at, by package; of several hints for one package the highest. */
export function minVersionHints(definition: Workflow): ReadonlyMap<string, string> {
  const hints = new Map<string, string>();
  for (const { workerHints } of Object.values(definition.runtimes ?? {})) {
    if (workerHints?.package === undefined || workerHints.minVersion === undefined) continue;
    const other = hints.get(workerHints.package);
    if (other === undefined || compareVersions(other, workerHints.minVersion) < 0)
      hints.set(workerHints.package, workerHints.minVersion);
  }
  return hints;
}
