// A worker's word about a package as an operation and its outcome: the labels of `pkg_ops_total`.

import type { PkgEventPayload } from "@astraflow/protocol";

export interface PackageOperation {
  readonly op: "install" | "uninstall";
  readonly status: PkgEventPayload["status"];
}

/** The event says what became of a package and not always what was tried; a failure that does not say so was an install. */
export function toPackageOperation({ status, details }: Pick<PkgEventPayload, "status" | "details">): PackageOperation {
  const isRemoval = status === "removed" || (status === "failed" && details?.["op"] === "uninstall");
  return { op: isRemoval ? "uninstall" : "install", status };
}
