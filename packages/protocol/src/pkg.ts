// Payloads of the package frames. How a package is fetched, checked and unpacked is the worker's business.

import Type, { type Static } from "typebox";
import { limits } from "./limits.ts";
import { bag, id, list, name, oneOf, optional } from "./words.ts";

export const PkgInstallFirstSchema = Type.Object({
  name: id(),
  version: id(),
  url: optional(Type.String({ format: "uri", maxLength: 4_096 })),
  sha256: optional(Type.String({ maxLength: 128 })),
});
/** A digest alone proves nothing about who made the archive, so ours may carry a signature and the command's id. */
export const PkgInstallSchema = Type.Object({
  ...PkgInstallFirstSchema.properties,
  signature: optional(Type.Object({ key_id: id(), ed25519: Type.String({ pattern: "^[A-Za-z0-9+/_=-]+$", maxLength: 256 }) })),
  command_id: optional(id()),
});
export type PkgInstall = Static<typeof PkgInstallSchema>;

export const PkgUninstallFirstSchema = Type.Object({ name: id(), version: optional(id("Absent: every version.")) });
export const PkgUninstallSchema = Type.Object({ ...PkgUninstallFirstSchema.properties, command_id: optional(id()) });
export type PkgUninstall = Static<typeof PkgUninstallSchema>;

export const PkgEventFirstSchema = Type.Object({
  name: id(),
  version: id(),
  status: oneOf(["installed", "failed"]),
  log_url: optional(Type.String({ maxLength: 4_096 })),
  details: optional(bag()),
});
export const PkgEventSchema = Type.Object({
  ...PkgEventFirstSchema.properties,
  status: oneOf(["installed", "failed", "removed"]),
  command_id: optional(id()),
});
export type PkgEvent = Static<typeof PkgEventSchema>;

export const PkgCatalogSchema = Type.Object({
  packages: list(
    Type.Object({
      name: id(),
      version: id(),
      status: oneOf(["installed", "missing", "failed"]),
      manifest: bag(),
      source: optional(name()),
      metadata: optional(bag()),
    }),
    limits.packagesMax,
  ),
});
export type PkgCatalog = Static<typeof PkgCatalogSchema>;
