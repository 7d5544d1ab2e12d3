// Payloads of the package frames.

import Type, { type Static } from "typebox";
import { limits } from "../json/limits.ts";
import { idString, listOf, nameString, oneOf, openObject, optional } from "../schema/field-types.ts";

export const PkgInstallFirstGenSchema = Type.Object({
  name: idString(),
  version: idString(),
  url: optional(Type.String({ format: "uri", maxLength: 4_096 })),
  sha256: optional(Type.String({ maxLength: 128 })),
});
/** A digest does not prove who made the archive, so ours may have a signature, and the id of the command. */
export const PkgInstallSchema = Type.Object({
  ...PkgInstallFirstGenSchema.properties,
  signature: optional(
    Type.Object({ key_id: idString(), ed25519: Type.String({ pattern: "^[A-Za-z0-9+/_=-]+$", maxLength: 256 }) }),
  ),
  command_id: optional(idString()),
});
export type PkgInstallPayload = Static<typeof PkgInstallSchema>;

export const PkgUninstallFirstGenSchema = Type.Object({
  name: idString(),
  version: optional(idString("Absent: every version.")),
});
export const PkgUninstallSchema = Type.Object({ ...PkgUninstallFirstGenSchema.properties, command_id: optional(idString()) });
export type PkgUninstallPayload = Static<typeof PkgUninstallSchema>;

export const PkgEventFirstGenSchema = Type.Object({
  name: idString(),
  version: idString(),
  status: oneOf(["installed", "failed"]),
  log_url: optional(Type.String({ maxLength: 4_096 })),
  details: optional(openObject()),
});
export const PkgEventSchema = Type.Object({
  ...PkgEventFirstGenSchema.properties,
  status: oneOf(["installed", "failed", "removed"]),
  command_id: optional(idString()),
});
export type PackageEventPayload = Static<typeof PkgEventSchema>;

export const PkgCatalogSchema = Type.Object({
  packages: listOf(
    Type.Object({
      name: idString(),
      version: idString(),
      status: oneOf(["installed", "missing", "failed"]),
      manifest: openObject(),
      source: optional(nameString()),
      metadata: optional(openObject()),
    }),
    limits.packagesMax,
  ),
});
export type PkgCatalogPayload = Static<typeof PkgCatalogSchema>;
