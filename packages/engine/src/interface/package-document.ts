// The document of a package's version: its manifest, and those that other workers announced for the same version.

import type { Manifest } from "@astraflow/protocol";

export const packageCollection = "package";

interface StoredManifest {
  readonly manifest: Manifest;
  readonly digest: string;
}

/** The manifest that was announced last, and the others that were announced before; its name is `<name>/<version>`. */
export interface PackageDocument extends StoredManifest {
  readonly others?: readonly StoredManifest[];
}
