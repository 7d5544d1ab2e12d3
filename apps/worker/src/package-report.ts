// What a worker says of its packages once they are loaded: in its log, and in its ready line where one of them does not work.

import path from "node:path";
import { findUnknownManifestFields } from "@astraflow/protocol";
import type { LoadedPackagesSummary } from "@astraflow/runtime";

/** Directories of packages that are not offered at all. */
function failedDirsOf({ packages, problems }: LoadedPackagesSummary): Set<string> {
  const loaded = new Set(packages.map(({ dir }) => dir));
  return new Set(problems.map(({ dir }) => dir).filter((dir) => !loaded.has(dir)));
}

/** `1 package is loaded, 3 are not` */
export function countPackages(summary: LoadedPackagesSummary): string {
  const loaded = summary.packages.length;
  const failed = failedDirsOf(summary).size;
  const counted = loaded === 1 ? "1 package is loaded" : `${loaded} packages are loaded`;
  return failed === 0 ? counted : `${counted}, ${failed} ${failed === 1 ? "is" : "are"} not`;
}

/** A worker without a package gets no work for it: its operator should not have to find that out from a run that waits. */
export function describeMissingPackages(summary: LoadedPackagesSummary, packagesDir: string): { readonly warning?: string } {
  const { packages, problems } = summary;
  const failed = failedDirsOf(summary).size;
  const first = problems.find(({ dir }) => failed === 0 || packages.every((one) => one.dir !== dir));
  if (first === undefined)
    return packages.length > 0 ? {} : { warning: `no package was found in ${packagesDir}: this worker gets no work` };
  const others = problems.length - 1;
  const more = others === 0 ? "" : others === 1 ? "; 1 more problem is in the log" : `; ${others} more problems are in the log`;
  const reason = `${path.relative(packagesDir, first.dir)}: ${first.message}${more}`;
  if (packages.length === 0)
    return { warning: `no package in ${packagesDir} can be loaded, so this worker gets no work: ${reason}` };
  if (failed === 0) return { warning: `some nodes of the packages cannot be run: ${reason}` };
  const count = `${failed} of ${failed + packages.length} packages`;
  return { warning: `${count} cannot be loaded: ${reason}` };
}

/** Fields that are listed for one manifest; one slip is often repeated in every node. */
const unknownFieldsMax = 20;

/** Fields of a manifest that nothing reads: perhaps a slip, which would go unnoticed. */
export const findManifestWarnings = ({ packages }: LoadedPackagesSummary): { readonly dir: string; readonly message: string }[] =>
  packages.flatMap(({ dir, manifestJson }) =>
    findUnknownManifestFields(manifestJson, unknownFieldsMax).map(({ path: at, hint }) => ({
      dir,
      message: `manifest.${at.join(".")} is not a known field of a manifest, so it has no effect${hint}`,
    })),
  );
