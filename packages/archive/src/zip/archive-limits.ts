// What an archive may cost whoever reads it. All of them are counted while bytes are produced, whatever the archive says about itself.

import { packageLimits } from "@astraflow/protocol";

const MiB = 1024 * 1024;

export const archiveLimits = {
  archiveBytesMax: packageLimits.archiveBytesMax,
  entriesMax: 20_000,
  entryBytesMax: 512 * MiB,
  /** Of all entries together, unpacked. */
  totalBytesMax: 1_024 * MiB,
  /** Unpacked bytes per byte of the archive, beyond what is free: deflate itself reaches 1,032. */
  ratioMax: 100,
  ratioFreeBytes: 16 * MiB,
  /** Names and attributes of all entries. */
  directoryBytesMax: 4 * MiB,
} as const;
export type ArchiveLimits = { readonly [Key in keyof typeof archiveLimits]: number };
