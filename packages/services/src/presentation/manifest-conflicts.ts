// Package versions of which workers announced different manifests: who has which.

import { isGone, type WorkerRow } from "@astraflow/engine";
import type { ManifestHolders } from "@astraflow/protocol";
import { readWorkerDescription } from "./worker-description.ts";

/** By `<name>/<version>`; only versions of which there are several manifests. */
export type ManifestConflicts = ReadonlyMap<string, readonly ManifestHolders[]>;

/** Workers named for one manifest; further ones are only counted. */
const namedWorkersMax = 20;

export const noConflicts: ManifestConflicts = new Map();

/** Workers that are lost or have left announce nothing any more. */
export function findManifestConflicts(workers: readonly WorkerRow[]): ManifestConflicts {
  const holders = new Map<string, Map<string, string[]>>();
  for (const worker of workers) {
    if (isGone(worker)) continue;
    for (const { name, version, manifest } of readWorkerDescription(worker).packages ?? []) {
      if (manifest === undefined) continue;
      const ofVersion = holders.get(`${name}/${version}`) ?? new Map<string, string[]>();
      holders.set(`${name}/${version}`, ofVersion);
      ofVersion.set(manifest, [...(ofVersion.get(manifest) ?? []), worker.name]);
    }
  }
  const conflicts = [...holders].filter(([, manifests]) => manifests.size > 1);
  return new Map(conflicts.map(([version, manifests]) => [version, presentHolders(manifests)]));
}

const presentHolders = (manifests: ReadonlyMap<string, readonly string[]>): ManifestHolders[] =>
  [...manifests].map(([manifest, names]) => ({
    manifest,
    workers: names.toSorted().slice(0, namedWorkersMax),
    workerCount: names.length,
  }));
