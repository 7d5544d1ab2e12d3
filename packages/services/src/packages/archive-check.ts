// Reads a stored archive as a stranger's: its entries, its manifest, the content of every file. Costly, so an app does it on a thread.

import {
  type ByteSource,
  checkContentDigest,
  type LocatedEntry,
  type PackageArchive,
  readEntryContent,
  readPackageArchive,
} from "@astraflow/archive";
import { Fault, fault, type Manifest } from "@astraflow/protocol";
import { type BlobKey, type BlobStore, missingBytesFault } from "../resources/blob-store.ts";
import type { PackageResourceRecord } from "./package-store.ts";
import type { ResourceRecord } from "../resources/resource-store.ts";

/** Where the bytes of an archive are; plain data, so that it can be sent to a thread. */
export interface StoredArchive {
  readonly provider: ResourceRecord["provider"];
  readonly blobKey: BlobKey;
  readonly sizeBytes: number;
}

/** What is known of an archive in which nothing is wrong. */
export interface CheckedArchive {
  readonly manifest: Manifest;
  readonly resources: readonly PackageResourceRecord[];
}

const resourcesFolder = "resources/";
/** Files of one archive that can be fetched by themselves; a worker has them all with the archive. */
const resourcesMax = 1_000;

/** Reads ahead, because archives are mostly read from front to back and each read opens the blob. */
const readAheadBytes = 1024 * 1024;

/** Throws E.PKG.INVALID for whatever is wrong. */
export async function checkStoredArchive(blobs: BlobStore, { blobKey, sizeBytes }: StoredArchive): Promise<CheckedArchive> {
  const source = createBlobSource(blobs, blobKey, sizeBytes);
  try {
    const archive = await readPackageArchive(source);
    checkEntryNames(archive.entries);
    const resources = listResources(archive);
    await checkContents(source, archive);
    return { manifest: archive.manifest, resources };
  } catch (why) {
    // What caused it are the stranger's bytes, not a bug of ours, which a cause would stand for.
    if (why instanceof Fault && why.code === "E.PKG.INVALID") throw fault(why.code, why.message, why.details);
    throw why;
  }
}

/** Of a signed archive the digest of all files is compared; of any other they are read all the same, since their sizes may be lies. */
async function checkContents(source: ByteSource, archive: PackageArchive): Promise<void> {
  if (archive.manifest.signature?.sha256 !== undefined) return checkContentDigest(source, archive);
  for (const entry of archive.entries) {
    if (entry.kind !== "file") continue;
    for await (const _chunk of readEntryContent(source, entry)) {
      // Only measured and compared with its checksum.
    }
  }
}

/** Files of the archive that are resources, and those that the repository is to be sent. */
function listResources({ manifest, entries }: PackageArchive): PackageResourceRecord[] {
  const files = new Map(entries.filter(({ kind }) => kind === "file").map((entry) => [entry.name, entry]));
  const declared = new Map(manifest.resources.map((resource) => [resource.path, resource]));
  const digestOf = (path: string): string | null => declared.get(path)?.sha256?.toLowerCase() ?? null;
  const inArchive = [...files.values()].filter(({ name }) => declared.has(name) || name.startsWith(resourcesFolder));
  const absent = [...declared.values()].filter(({ path, url }) => url === undefined && !files.has(path));
  const unproven = absent.find(({ sha256 }) => sha256 === undefined);
  if (unproven !== undefined)
    throw fault("E.PKG.INVALID", `resource ${unproven.path} is not in the archive and has no address, so it needs its SHA-256`, {
      entry: unproven.path,
    });
  return [
    ...inArchive.slice(0, resourcesMax).map((entry) => ({
      path: entry.name,
      sha256: digestOf(entry.name),
      sizeBytes: entry.bytes,
      place: { of: "archive", entry } as const,
    })),
    ...absent.map(({ path }) => ({ path, sha256: digestOf(path), sizeBytes: 0, place: null })),
  ];
}

function checkEntryNames(entries: readonly LocatedEntry[]): void {
  const own = entries.find(({ name }) => name.startsWith("."));
  if (own !== undefined)
    throw fault("E.PKG.INVALID", `entry "${own.name}" begins with a dot; such names are the installer's own`, {
      entry: own.name,
    });
}

export function createBlobSource(blobs: BlobStore, key: BlobKey, size: number): ByteSource {
  let window: { readonly start: number; readonly bytes: Buffer } = { start: 0, bytes: Buffer.alloc(0) };
  return {
    size,
    async read(position, length) {
      const isInside = position >= window.start && position + length <= window.start + window.bytes.length;
      if (!isInside) {
        const end = Math.min(size, position + Math.max(length, readAheadBytes)) - 1;
        window = { start: position, bytes: await readRange(blobs, key, position, end) };
        if (window.bytes.length < length) throw missingBytesFault();
      }
      return window.bytes.subarray(position - window.start, position - window.start + length);
    },
  };
}

async function readRange(blobs: BlobStore, key: BlobKey, start: number, end: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  if (end >= start) for await (const chunk of blobs.read(key, { start, end })) chunks.push(chunk);
  return Buffer.concat(chunks);
}
