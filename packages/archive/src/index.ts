// Package archives (.cwx): everything about them that authors, schedulers and workers share. Downloads, folders of installed versions
// and processes belong to the worker's runtime.

export { type PackageFolder, type PackageFolderOptions, readPackageFolder } from "./folder/package-folder.ts";
export { findManifestProblems } from "./manifest/manifest-problems.ts";
export { comparePackageVersions } from "./manifest/package-version.ts";
export { adaptersFolder, findPackageProblems, isNodeAdapter, type PackageFiles } from "./manifest/package-problems.ts";
export {
  buildPackageArchive,
  checkContentDigest,
  type PackageArchive,
  type ReadPackageOptions,
  readArchiveFiles,
  readPackageArchive,
  type SignedPackage,
  signPackage,
} from "./package-archive.ts";
export {
  findDependencyProblem,
  findLockProblems,
  formatRequirementsLock,
  lockFileName,
  normaliseName,
  type PinnedRequirement,
  readRequirementsLock,
} from "./python/requirements-lock.ts";
export {
  comparePythonVersions,
  type PythonVersion,
  readPythonVersion,
  readVersionRange,
  type VersionRange,
} from "./python/version.ts";
export { computeContentDigest, manifestFileName, sha256Hex } from "./signature/content-digest.ts";
export { type PrivateKey, type PublicKey, readPrivateKey, readPublicKey } from "./signature/ed25519-key.ts";
export {
  type ArchiveIdentity,
  findSignatureProblem,
  matchesPackage,
  type SignatureClaims,
  signArchive,
  type TrustedKey,
} from "./signature/package-signature.ts";
export { type ArchiveLimits, archiveLimits } from "./zip/archive-limits.ts";
export { type ByteSource, createMemorySource, withFileSource } from "./zip/byte-source.ts";
export { readEntryContent, readWholeEntry } from "./zip/entry-content.ts";
export { type LocatedEntry, readZipEntries } from "./zip/read-zip.ts";
export { createFolderTarget, type UnpackProgress, type UnpackTarget, unpackArchive } from "./zip/unpack-archive.ts";
export { type ArchiveFile, writeZip } from "./zip/write-zip.ts";
