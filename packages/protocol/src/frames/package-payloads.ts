// Payloads of the package frames.

import type { Static } from "typebox";
import { limits } from "../json/limits.ts";
import * as t from "../schema/field-types.ts";

export const PkgInstallFirstGenSchema = t.object({
  name: t.id(),
  version: t.id(),
  url: t.optional(t.string({ format: "uri", maxLength: 4_096 })),
  sha256: t.optional(t.string({ maxLength: 128 })),
});
/** A digest does not prove who made the archive, so ours may have a signature, and the id of the command. */
export const PkgInstallSchema = t.object({
  ...PkgInstallFirstGenSchema.properties,
  signature: t.optionalObject({ key_id: t.id(), ed25519: t.string({ pattern: "^[A-Za-z0-9+/_=-]+$", maxLength: 256 }) }),
  command_id: t.optional(t.id()),
});
export type PkgInstallPayload = Static<typeof PkgInstallSchema>;

export const PkgUninstallFirstGenSchema = t.object({ name: t.id(), version: t.optional(t.id("Absent: every version.")) });
export const PkgUninstallSchema = t.object({ ...PkgUninstallFirstGenSchema.properties, command_id: t.optional(t.id()) });
export type PkgUninstallPayload = Static<typeof PkgUninstallSchema>;

export const PkgEventFirstGenSchema = t.object({
  name: t.id(),
  version: t.id(),
  status: t.oneOf(["installed", "failed"]),
  log_url: t.optional(t.string({ maxLength: 4_096 })),
  details: t.optional(t.openObject()),
});
export const PkgEventSchema = t.object({
  ...PkgEventFirstGenSchema.properties,
  status: t.oneOf(["installed", "failed", "removed"]),
  command_id: t.optional(t.id()),
});
export type PackageEventPayload = Static<typeof PkgEventSchema>;

export const PkgCatalogSchema = t.object({
  packages: t.list(
    t.object({
      name: t.id(),
      version: t.id(),
      status: t.oneOf(["installed", "missing", "failed"]),
      manifest: t.openObject(),
      source: t.optional(t.name()),
      metadata: t.optional(t.openObject()),
    }),
    limits.packagesMax,
  ),
});
export type PkgCatalogPayload = Static<typeof PkgCatalogSchema>;
