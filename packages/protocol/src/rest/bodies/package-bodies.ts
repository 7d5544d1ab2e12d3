// REST bodies about the repository of node packages: published versions, who holds them, and the keys that a tenant trusts.

import type { Static } from "typebox";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageAsOf } from "./body-parts.ts";

export const packageLimits = {
  /** Of one archive, as it is sent. */
  archiveBytesMax: 512 * 1024 * 1024,
  /** Versions of one package, and trusted keys of a tenant. */
  versionsMax: 1_000,
  keysMax: 100,
  keyPatternsMax: 100,
  /** Workers that are listed with a version; the others are counted. */
  holdersMax: 100,
} as const;

const keyId = (description?: string) => t.string({ pattern: "^[0-9a-f]{32}$", ...(description && { description }) });
const packagePattern = () =>
  t.string({
    pattern: "^([a-z0-9][a-z0-9._-]*)?[*]?$",
    minLength: 1,
    maxLength: 129,
    description: "The name of a package, or the beginning of names with * at its end.",
  });

export const PackageHolderSchema = t.object({
  name: t.name("Name of the worker."),
  workerId: t.id("Instance id of the worker."),
  connected: t.boolean(),
  status: t.name("What the worker says of the version: installed, installing, failed …"),
});
export type PackageHolder = Static<typeof PackageHolderSchema>;

const packageVersionFields = {
  name: t.id(),
  version: t.id(),
  sha256: t.string({ pattern: "^[0-9a-f]{64}$", description: "Of the archive." }),
  sizeBytes: t.integer(0),
  signature: t.nullable(t.object({ keyId: keyId(), signedBy: t.name(), signedAt: t.name() }), "null: it is not signed."),
  publishedAt: t.instant(),
  publishedBy: t.id(),
  status: t.oneOf(["published", "withdrawn"], "withdrawn: only runs that name this version still use it."),
  missingResources: t.optional(
    t.list(t.name("Path of a resource that the manifest names and nobody has sent yet; it is put beside the archive."), 1_000),
  ),
  workerCount: t.integer(0, "Workers that hold the version."),
  workers: t.list(PackageHolderSchema, packageLimits.holdersMax),
};
export const PackageVersionSchema = t.object(packageVersionFields);
export type PackageVersion = Static<typeof PackageVersionSchema>;
export const PackageVersionDetailSchema = t.object({ ...packageVersionFields, asOf: asOfPosition() });
export const PackageVersionListSchema = pageAsOf(PackageVersionSchema);

const packageFormFields = {
  signature: t.optional(
    t.string({ maxLength: 16 * 1024, description: "The JSON document that `astra packages sign` writes beside the archive." }),
  ),
};
const PackageFormSchema = t.object(packageFormFields);
/** A form whose part `file` is the archive, with its signature. */
export const PackagePublishFormSchema = t.object(
  { ...packageFormFields, file: t.unsafe<string>({ type: "string", format: "binary" }) },
  { additionalProperties: false },
);
/** A form with a resource of a version, which may be sent bare too. */
export const PackageResourceFormSchema = t.object(
  { file: t.unsafe<string>({ type: "string", format: "binary" }) },
  { additionalProperties: false },
);
export const readPackageForm = createBodyReader(PackageFormSchema, { subject: "form" });

const packageKeyRequestFields = {
  publicKey: t.string({ minLength: 1, maxLength: 1_024, description: "An ed25519 key in PEM, or its 32 bytes in base64." }),
  name: t.string({ minLength: 1, maxLength: 256, pattern: "^[^\\u0000-\\u001f\\u007f]*$", description: "Whose key it is." }),
  packages: t.optional(
    t.array(packagePattern(), {
      minItems: 1,
      maxItems: packageLimits.keyPatternsMax,
      description: "What the key may sign; absent: every package.",
    }),
  ),
};
export const PackageKeyRequestSchema = t.object(packageKeyRequestFields);
export type PackageKeyRequest = Static<typeof PackageKeyRequestSchema>;
const packageKeyFields = {
  ...packageKeyRequestFields,
  keyId: keyId("The first 32 hex digits of the SHA-256 of the key."),
  publicKey: t.string({ description: "In PEM." }),
  createdAt: t.instant(),
  createdBy: t.id(),
};
export const PackageKeySchema = t.object(packageKeyFields);
export type PackageKey = Static<typeof PackageKeySchema>;
export const PackageKeyDetailSchema = t.object({ ...packageKeyFields, asOf: asOfPosition() });
export const PackageKeyListSchema = pageAsOf(PackageKeySchema);
