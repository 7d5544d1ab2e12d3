// A package as one archive: built from its files, read and checked as a whole, signed.

import { createHash } from "node:crypto";
import {
  Fault,
  fault,
  isRecord,
  type JsonObject,
  limits as jsonLimits,
  type Manifest,
  type PackageSignature,
  readJson,
  readManifest,
} from "@astraflow/protocol";
import { findPackageProblems } from "./manifest/package-problems.ts";
import { lockFileName } from "./python/requirements-lock.ts";
import { computeContentDigest, type DigestedFile, manifestFileName, sha256Hex } from "./signature/content-digest.ts";
import type { PrivateKey } from "./signature/ed25519-key.ts";
import { type SignatureClaims, signArchive } from "./signature/package-signature.ts";
import { type ArchiveLimits, archiveLimits } from "./zip/archive-limits.ts";
import type { ByteSource } from "./zip/byte-source.ts";
import { readEntryContent, readWholeEntry } from "./zip/entry-content.ts";
import { type LocatedEntry, readZipEntries } from "./zip/read-zip.ts";
import { type ArchiveFile, writeZip } from "./zip/write-zip.ts";

export interface PackageArchive {
  readonly entries: readonly LocatedEntry[];
  /** As it was written. */
  readonly manifestJson: JsonObject;
  readonly manifest: Manifest;
}

export interface ReadPackageOptions {
  readonly limits?: ArchiveLimits;
  readonly signal?: AbortSignal;
}

const lockBytesMax = 4 * 1024 * 1024;

/** Throws E.PKG.INVALID for whatever is wrong; `details.problems` lists all problems of the manifest and its files. */
export async function readPackageArchive(
  source: ByteSource,
  { limits = archiveLimits, signal }: ReadPackageOptions = {},
): Promise<PackageArchive> {
  const entries = await readZipEntries(source, limits);
  const manifestText = await readSmallEntry(source, entries, manifestFileName, jsonLimits.manifestBytesMax, signal);
  if (manifestText === null) throw fault("E.PKG.INVALID", `the archive has no ${manifestFileName} at its root`);
  const manifestJson = parseManifest(manifestText);
  const lock = await readSmallEntry(source, entries, lockFileName, lockBytesMax, signal);
  const manifest = checkPackage(manifestJson, new Set(entries.map(({ name }) => name)), lock?.toString("utf8") ?? null);
  await checkResources(source, entries, manifest, signal);
  return { entries, manifestJson, manifest };
}

/** Throws E.PKG.INVALID where the manifest states a digest of the content and the content is another. */
export async function checkContentDigest(source: ByteSource, archive: PackageArchive, signal?: AbortSignal): Promise<void> {
  const stated = archive.manifest.signature?.sha256;
  if (stated === undefined) return;
  const files: DigestedFile[] = [];
  for (const entry of archive.entries)
    if (entry.kind === "file" && entry.name !== manifestFileName)
      files.push({ name: entry.name, sha256: await digestEntry(source, entry, signal) });
  if (computeContentDigest(files, archive.manifestJson) !== stated.toLowerCase())
    throw fault(
      "E.PKG.INVALID",
      "manifest.signature.sha256 is not the digest of the files in the archive: they were changed after the package was signed",
    );
}

/** The archive of a package's files; throws E.PKG.INVALID with all problems. */
export function buildPackageArchive(files: readonly ArchiveFile[]): { readonly archive: Buffer; readonly manifest: Manifest } {
  const manifestFile = files.find(({ name }) => name === manifestFileName);
  if (manifestFile === undefined) throw fault("E.PKG.INVALID", `the package has no ${manifestFileName}`);
  const lock = files.find(({ name }) => name === lockFileName)?.content;
  const names = new Set(files.map(({ name }) => name));
  const manifest = checkPackage(
    parseManifest(manifestFile.content),
    names,
    lock === undefined ? null : Buffer.from(lock).toString("utf8"),
  );
  return { archive: writeZip(files), manifest };
}

export interface SignedPackage {
  readonly archive: Buffer;
  readonly signature: PackageSignature;
}

/** Writes who signed what and when into the manifest, packs the files anew and signs the result. */
export function signPackage(
  files: readonly ArchiveFile[],
  claims: Omit<SignatureClaims, "name" | "version">,
  key: PrivateKey,
): SignedPackage {
  const others = files.filter(({ name }) => name !== manifestFileName);
  const manifestFile = files.find(({ name }) => name === manifestFileName);
  if (manifestFile === undefined) throw fault("E.PKG.INVALID", `the package has no ${manifestFileName}`);
  const { signature: _, ...manifestJson } = parseManifest(manifestFile.content);
  const digests = others.map(({ name, content }) => ({ name, sha256: sha256Hex(content) }));
  const { signedAt, signedBy } = claims;
  const signature = { sha256: computeContentDigest(digests, manifestJson), signedAt, signedBy };
  const signedManifest = Buffer.from(`${JSON.stringify({ ...manifestJson, signature }, null, 2)}\n`);
  const { archive, manifest } = buildPackageArchive([...others, { name: manifestFileName, content: signedManifest }]);
  const { name, version } = manifest;
  return {
    archive,
    signature: signArchive({ sha256: sha256Hex(archive), bytes: archive.length }, { ...claims, name, version }, key),
  };
}

/** All files of an archive, in memory. */
export async function readArchiveFiles(source: ByteSource, { entries }: Pick<PackageArchive, "entries">): Promise<ArchiveFile[]> {
  const files: ArchiveFile[] = [];
  for (const entry of entries)
    if (entry.kind === "file") files.push({ name: entry.name, content: await readWholeEntry(source, entry) });
  return files;
}

function parseManifest(bytes: Uint8Array): JsonObject {
  const value = readJson(bytes, { ...jsonLimits.json.manifest, subject: "it" });
  if (value instanceof Fault)
    throw fault("E.PKG.INVALID", `${manifestFileName} cannot be read: ${value.message}`, undefined, value);
  if (!isRecord(value)) throw fault("E.PKG.INVALID", `${manifestFileName} must hold an object`);
  return value;
}

function checkPackage(manifestJson: JsonObject, names: ReadonlySet<string>, lock: string | null): Manifest {
  const problems = findPackageProblems({ manifestJson, names, lock });
  const [first] = problems;
  if (first !== undefined) {
    const more = problems.length > 1 ? ` (and ${problems.length - 1} more problems)` : "";
    throw fault("E.PKG.INVALID", `${first.message}${more}`, { problems: problems.map(({ message }) => message) });
  }
  return readManifest(manifestJson) as Manifest;
}

/** Resources may travel in the archive; then their digests must fit. */
async function checkResources(
  source: ByteSource,
  entries: readonly LocatedEntry[],
  manifest: Manifest,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const { path, sha256 } of manifest.resources) {
    const entry = entries.find(({ name, kind }) => name === path && kind === "file");
    if (entry === undefined || sha256 === undefined) continue;
    if ((await digestEntry(source, entry, signal)) !== sha256.toLowerCase())
      throw fault("E.PKG.INVALID", `resource ${path} in the archive does not have the SHA-256 that the manifest states`, {
        entry: path,
      });
  }
}

async function digestEntry(source: ByteSource, entry: LocatedEntry, signal: AbortSignal | undefined): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of readEntryContent(source, entry, signal)) hash.update(chunk);
  return hash.digest("hex");
}

async function readSmallEntry(
  source: ByteSource,
  entries: readonly LocatedEntry[],
  name: string,
  bytesMax: number,
  signal: AbortSignal | undefined,
): Promise<Buffer | null> {
  const entry = entries.find((one) => one.name === name && one.kind === "file");
  if (entry === undefined) return null;
  if (entry.bytes > bytesMax)
    throw fault("E.PKG.INVALID", `entry "${name}" has ${entry.bytes} bytes; ${bytesMax} are allowed`, { entry: name });
  return readWholeEntry(source, entry, signal);
}
