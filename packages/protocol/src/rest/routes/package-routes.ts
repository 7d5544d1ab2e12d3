// The routes about the repository of node packages: published versions, their archives, and trusted keys. The catalogue, which knows what
// workers announced too, is with the workflows.

import * as t from "../../schema/field-types.ts";
import * as bodies from "../bodies/package-bodies.ts";
import { resourceLimits } from "../bodies/resource-bodies.ts";
import { changeFaults, fullPageQuery, type Route, readFaults, route } from "./route.ts";

const removeFaults = [...readFaults, "E.NOT_FOUND", "E.CONFLICT", "E.STORE.BUSY", "E.SHUTTING_DOWN"] as const;
const packageFaults = ["E.PKG.INVALID", "E.PKG.PERMISSION"] as const;
const rangeHeader = {
  Range: t.optional(t.string({ description: "bytes=FROM-TO, bytes=FROM- or bytes=-LAST; anything else is ignored." })),
};

export const packageRoutes = {
  publishPackage: route("POST", "/api/v1/packages", "edit", {
    summary:
      "Publish a version of a package: a form with the field signature and the archive (.cwx) as the part file. The same archive again changes nothing (200); other bytes for a published version are refused.",
    takes: "multipart/form-data",
    form: bodies.PackagePublishFormSchema,
    bodyBytesMax: bodies.packageLimits.archiveBytesMax + resourceLimits.multipartExtraBytesMax,
    response: bodies.PackageVersionDetailSchema,
    status: 201,
    also: { 200: bodies.PackageVersionDetailSchema },
    faults: [...changeFaults, ...packageFaults, "E.VERSION.EXISTS", "E.LIMIT.REACHED", "E.REQUEST.TOO_COSTLY"],
  }),
  listPackageVersions: route("GET", "/api/v1/packages/{packageName}/versions", "read", {
    summary: "The published versions of a package, newest first, with the workers that hold them.",
    query: fullPageQuery,
    response: bodies.PackageVersionListSchema,
  }),
  getPackageVersion: route("GET", "/api/v1/packages/{packageName}/versions/{packageVersion}", "read", {
    summary: "One published version of a package, with the workers that hold it.",
    response: bodies.PackageVersionDetailSchema,
  }),
  deletePackageVersion: route("DELETE", "/api/v1/packages/{packageName}/versions/{packageVersion}", "admin", {
    summary:
      "Delete a published version and its bytes; refused while workers hold it. The catalogue keeps its manifest, and the version may be published again.",
    status: 204,
    faults: removeFaults,
  }),
  downloadPackage: route("GET", "/api/v1/packages/{packageName}/{packageVersion}/archive", "read", {
    summary: "The archive of a version, or with Range one stretch of it (206); for workers too. Its ETag is its SHA-256.",
    orGrant: "worker",
    headers: rangeHeader,
    media: "application/zip",
    also: { 206: null },
    faults: [...readFaults, "E.NOT_FOUND", "E.RESOURCE.RANGE"],
  }),
  downloadPackageResource: route("GET", "/api/v1/packages/{packageName}/{packageVersion}/resources/{resourcePath}", "read", {
    summary:
      "A file of the version: of its folder resources, or one that its manifest names, with slashes in its path; for workers too.",
    orGrant: "worker",
    media: "application/octet-stream",
    faults: [...readFaults, "E.NOT_FOUND"],
  }),
  putPackageResource: route("PUT", "/api/v1/packages/{packageName}/{packageVersion}/resources/{resourcePath}", "edit", {
    summary:
      "A file that the manifest names by its SHA-256 and that is neither in the archive nor at an address of its own: as a form with the part file, or bare as application/octet-stream. One that is there already stays as it is.",
    takes: "multipart/form-data",
    form: bodies.PackageResourceFormSchema,
    bodyBytesMax: bodies.packageLimits.archiveBytesMax + resourceLimits.multipartExtraBytesMax,
    response: bodies.PackageVersionDetailSchema,
    faults: [...changeFaults, "E.RESOURCE.DIGEST"],
  }),
  listPackageKeys: route("GET", "/api/v1/package-keys", "read", {
    summary: "The public keys whose signatures of packages the tenant trusts; for workers too.",
    orGrant: "worker",
    response: bodies.PackageKeyListSchema,
  }),
  addPackageKey: route("POST", "/api/v1/package-keys", "admin", {
    summary: "Trust a key for signatures of packages, of all or of some.",
    request: bodies.PackageKeyRequestSchema,
    response: bodies.PackageKeyDetailSchema,
    status: 201,
    faults: [...changeFaults, "E.LIMIT.REACHED"],
  }),
  getPackageKey: route("GET", "/api/v1/package-keys/{keyId}", "read", {
    summary: "One key that the tenant trusts; for workers too.",
    orGrant: "worker",
    response: bodies.PackageKeyDetailSchema,
  }),
  deletePackageKey: route("DELETE", "/api/v1/package-keys/{keyId}", "admin", {
    summary:
      "Trust a key no longer: nothing that it signed is published or installed by command any more. What is installed stays.",
    status: 204,
    faults: removeFaults,
  }),
} as const satisfies Record<string, Route>;
