// The documents of the package repository: a published version under `<name>/<version>`, a trusted key under its id.

import type { LocatedEntry } from "@astraflow/archive";
import type { DocPut } from "@astraflow/engine";
import type { PackageSignature } from "@astraflow/protocol";
import { recordPut } from "../documents/documents.ts";
import type { ResourceRecord } from "../resources/resource-store.ts";

export const packageVersionCollection = "package-version";
export const packageKeyCollection = "package-key";

export interface PackageVersionRecord {
  /** `<name>/<version>` */
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Where the archive is, and under which name. */
  readonly provider: ResourceRecord["provider"];
  readonly blob: string;
  readonly signature: PackageSignature | null;
  readonly resources: readonly PackageResourceRecord[];
  readonly status: "published" | "withdrawn";
  readonly publishedAt: number;
  readonly publishedBy: string;
  /** Digest of the idempotency key that it was published with; null: without one. */
  readonly publishedWith: string | null;
}

/** A file of the version that is served by itself. */
export interface PackageResourceRecord {
  /** Inside the package. */
  readonly path: string;
  /** As the manifest states it, in lowercase; null: it states none. */
  readonly sha256: string | null;
  readonly sizeBytes: number;
  /** Null: the manifest names it, and nobody has sent it yet. */
  readonly place:
    | { readonly of: "archive"; readonly entry: LocatedEntry }
    | { readonly of: "blob"; readonly provider: ResourceRecord["provider"]; readonly blob: string }
    | null;
}

export interface PackageKeyRecord {
  readonly id: string;
  /** In PEM. */
  readonly publicKey: string;
  readonly name: string;
  /** Null: every package. */
  readonly packages: readonly string[] | null;
  readonly createdAt: number;
  readonly createdBy: string;
}

/** The word that withdrawn versions are found by. */
export const withdrawnTerm = "withdrawn";

export const packageVersionId = (name: string, version: string): string => `${name}/${version}`;

export const packageVersionPut = (record: PackageVersionRecord, rev: number): DocPut =>
  recordPut(packageVersionCollection, record, rev, {
    terms: record.status === "withdrawn" ? `${record.sha256} ${withdrawnTerm}` : record.sha256,
  });

export const packageKeyPut = (record: PackageKeyRecord, rev: number): DocPut => recordPut(packageKeyCollection, record, rev, {});
