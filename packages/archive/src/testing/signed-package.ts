// A small package of Node code, signed, for tests that publish packages.

import { generateKeyPairSync } from "node:crypto";
import { Fault, type PackageSignature } from "@astraflow/protocol";
import { type SignedPackage, signPackage } from "../package-archive.ts";
import { sha256Hex } from "../signature/content-digest.ts";
import { type PrivateKey, readPrivateKey } from "../signature/ed25519-key.ts";
import { signArchive } from "../signature/package-signature.ts";
import type { ArchiveFile } from "../zip/write-zip.ts";

export interface SigningKey {
  /** Both in PEM. */
  readonly privateKey: string;
  readonly publicKey: string;
}

export function createSigningKey(): SigningKey {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return {
    privateKey: privateKey.export({ format: "pem", type: "pkcs8" }) as string,
    publicKey: publicKey.export({ format: "pem", type: "spki" }) as string,
  };
}

/** Node code; `manifest` replaces fields of its manifest. */
export function nodePackageFiles(
  name: string,
  version: string,
  { files = {}, manifest = {} }: { readonly files?: Readonly<Record<string, string>>; readonly manifest?: object } = {},
): ArchiveFile[] {
  const whole = {
    schemaVersion: "1.0.0",
    name,
    version,
    description: "A package of the tests",
    adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: [`${name}.greet`] }],
    node: { requires: ">=22" },
    nodes: [
      {
        type: `${name}.greet`,
        status: "published",
        category: "Text",
        label: "Greet",
        adapter: "main",
        handler: "greet",
        schema: { parameters: { type: "object" }, results: { type: "object" } },
      },
    ],
    ...manifest,
  };
  const all = {
    "manifest.json": JSON.stringify(whole),
    "main.mjs": "export const greet = () => ({ greeting: 'hello' });\n",
    ...files,
  };
  return Object.entries(all).map(([file, content]) => ({ name: file, content: Buffer.from(content) }));
}

/** Signed for every tenant unless one is named. */
export function signFiles(privateKey: string, files: readonly ArchiveFile[], tenant = "*"): SignedPackage {
  return signPackage(files, { tenant, signedAt: "2026-01-31T12:00:00.000Z", signedBy: "Anna" }, readKey(privateKey));
}

function readKey(privateKey: string): PrivateKey {
  const key = readPrivateKey(privateKey);
  if (key instanceof Fault) throw key;
  return key;
}

/** The signature of bytes that need not be an archive. */
export function signBytes(privateKey: string, archive: Buffer, name: string, version: string): PackageSignature {
  const identity = { sha256: sha256Hex(archive), bytes: archive.length };
  const claims = { name, version, tenant: "*", signedAt: "2026-01-31T12:00:00.000Z", signedBy: "Anna" };
  return signArchive(identity, claims, readKey(privateKey));
}
