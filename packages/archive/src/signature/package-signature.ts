// Signs archives and checks signatures. What is signed is one text that names the package, its version, the tenant and the SHA-256 of the
// exact bytes of the archive: a signature of another package, version or tenant does not fit, and large archives need not be in memory.

import { sign, verify } from "node:crypto";
import { type Fault, fault, type PackageSignature, packageSignatureFormat } from "@astraflow/protocol";
import type { PrivateKey, PublicKey } from "./ed25519-key.ts";

/** What a signature says beside the signed bytes. */
export interface SignatureClaims {
  readonly name: string;
  readonly version: string;
  /** "*": every tenant that trusts the key. */
  readonly tenant: string;
  readonly signedAt: string;
  readonly signedBy: string;
}

/** The archive, as whoever checks it has measured it. */
export interface ArchiveIdentity {
  readonly name: string;
  readonly version: string;
  readonly tenant: string;
  readonly sha256: string;
  readonly bytes: number;
}

export interface TrustedKey extends PublicKey {
  /** Packages that the key may sign: a name, or a prefix with `*` at its end; absent: all. */
  readonly packages?: readonly string[];
}

export function signArchive(
  archive: { sha256: string; bytes: number },
  claims: SignatureClaims,
  key: PrivateKey,
): PackageSignature {
  const { name, version, tenant, signedAt, signedBy } = claims;
  const { sha256, bytes } = archive;
  const unsigned = {
    format: packageSignatureFormat,
    package: { name, version },
    tenant,
    sha256,
    bytes,
    signedAt,
    signedBy,
    keyId: key.publicKey.id,
  } as const;
  return { ...unsigned, ed25519: sign(null, writeStatement(unsigned), key.key).toString("base64") };
}

/** Null: a trusted key has signed exactly this archive for this package, version and tenant. */
export function findSignatureProblem(
  signature: PackageSignature,
  archive: ArchiveIdentity,
  trustedKeys: readonly TrustedKey[],
): Fault | null {
  const { name, version, tenant, sha256, bytes } = archive;
  const refuse = (message: string) => fault("E.PKG.PERMISSION", message, { package: name, version, keyId: signature.keyId });
  const signed = signature.package;
  if (signed.name !== name || signed.version !== version)
    return refuse(`the signature is for ${signed.name} ${signed.version}, not for ${name} ${version}`);
  if (signature.tenant !== tenant && signature.tenant !== "*")
    return refuse(`the signature of ${name} ${version} is for tenant ${signature.tenant}, not for ${tenant}`);
  if (signature.sha256 !== sha256 || signature.bytes !== bytes)
    return refuse(`the signature of ${name} ${version} is for an archive with other bytes`);
  const key = trustedKeys.find(({ id }) => id === signature.keyId);
  if (key === undefined)
    return refuse(
      `${name} ${version} is signed by key ${signature.keyId}, which is not trusted here; an admin adds it with astra packages keys add, or to the file of --package-keys`,
    );
  if (key.packages !== undefined && !matchesPackage(key.packages, name))
    return refuse(`key ${key.id} is trusted here, but not for ${name}`);
  if (!verify(null, writeStatement(signature), key.key, Buffer.from(signature.ed25519, "base64")))
    return refuse(`the signature of ${name} ${version} is wrong: it was changed, or made by another key than ${key.id}`);
  return null;
}

/** As JSON, so that no value can pretend to be two. */
function writeStatement({ format, package: { name, version }, ...rest }: Omit<PackageSignature, "ed25519">): Buffer {
  const { tenant, sha256, bytes, signedAt, signedBy, keyId } = rest;
  return Buffer.from(JSON.stringify([format, name, version, tenant, sha256, bytes, signedAt, signedBy, keyId]));
}

/** Patterns are names, or prefixes with `*` at their end. */
export function matchesPackage(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => (pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}
