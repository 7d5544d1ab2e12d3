// The signature of a package archive, as it lies beside the archive in a `.cwx.sig` file. How it is made and checked is in the archive package.

import type { Static } from "typebox";
import * as t from "../schema/field-types.ts";
import { createSchemaReader } from "../schema/schema-reader.ts";

export const packageSignatureFormat = "astraflow-package-signature/1";

export const PackageSignatureSchema = t.object({
  format: t.oneOf([packageSignatureFormat]),
  package: t.object({ name: t.id(), version: t.id() }),
  tenant: t.name("The tenant that the archive is signed for; * is every tenant that trusts the key."),
  sha256: t.string({ pattern: "^[0-9a-f]{64}$", description: "Of the archive." }),
  bytes: t.integer(0),
  signedAt: t.name("An instant, ISO 8601."),
  signedBy: t.name(),
  keyId: t.string({ pattern: "^[0-9a-f]{32}$" }),
  ed25519: t.string({ pattern: "^[A-Za-z0-9+/]{86}==$", description: "The signature, in base64." }),
});
export type PackageSignature = Static<typeof PackageSignatureSchema>;

const reader = createSchemaReader(PackageSignatureSchema, {
  code: "E.PKG.PERMISSION",
  subject: "signature",
  unknownKeys: "drop",
});

export const readPackageSignature = reader.read;
