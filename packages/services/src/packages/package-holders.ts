// Which workers hold which version of a package, from what they last said of themselves.

import { isGone, type StoreReader, type WorkerRow } from "@astraflow/engine";
import type { PackageHolder } from "@astraflow/protocol";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { readWorkerDescription } from "../presentation/worker-description.ts";
import { instanceIdOf } from "../presentation/worker-view.ts";

/** Rows of workers that are read before others have their turn. */
const rowsAtOnce = 100;

/** By version, those that are connected first. Workers that are lost or have left hold nothing. */
export async function findPackageHolders(
  reader: StoreReader,
  environment: ServiceEnvironment,
  tenant: string,
  packageName: string,
): Promise<ReadonlyMap<string, readonly PackageHolder[]>> {
  const { items } = await reader.page({ page: "workers", tenant });
  // A look at the text is much cheaper than reading it, and most workers of a large fleet have other packages.
  const mention = JSON.stringify(packageName);
  const candidates = items.filter((worker) => !isGone(worker) && worker.about.includes(mention));
  const holders = new Map<string, PackageHolder[]>();
  for (const [index, worker] of candidates.entries()) {
    if (index % rowsAtOnce === rowsAtOnce - 1) await environment.yieldLoop?.();
    for (const { name, version, status } of readWorkerDescription(worker).packages ?? []) {
      if (name !== packageName || status === "failed") continue;
      const known = holders.get(version) ?? [];
      known.push(toHolder(worker, status));
      holders.set(version, known);
    }
  }
  for (const known of holders.values())
    known.sort((a, b) => Number(b.connected) - Number(a.connected) || (a.name < b.name ? -1 : 1));
  return holders;
}

const toHolder = ({ id, name, phase }: WorkerRow, status: string): PackageHolder => ({
  name,
  workerId: instanceIdOf(id),
  connected: phase === "online",
  status,
});
