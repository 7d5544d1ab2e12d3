// The routes about the repository of node packages: publish, list, download, and the keys that a tenant trusts.

import { bodyReaderOf, readPackageForm } from "@astraflow/protocol";
import {
  missingBytesFault,
  type PackageKeys,
  type PackageRepository,
  type PackageResources,
  presentPackageKey,
  type Services,
} from "@astraflow/services";
import { emptyBytes, noContent, type RouteHandlers, replayedHeader, throwIfFault } from "../requests/rest-call.ts";
import { readMultipartForm } from "../resources/multipart-form.ts";
import { attachmentHeader, parseRange, receiveFile } from "../resources/resource-routes.ts";

export function packageHandlers({ packages, packageKeys, packageResources }: Services) {
  return {
    ...keyHandlers(packageKeys),
    ...versionHandlers(packages),
    ...resourceFileHandlers(packages, packageResources),
  } satisfies RouteHandlers;
}

const versionHandlers = (packages: PackageRepository) =>
  ({
    async publishPackage(call) {
      const key = call.readIdempotencyKey();
      const { record, wasThere, repeated } = await readMultipartForm(call.header("content-type"), call.stream, (file, fields) =>
        // The fields may follow the file.
        packages.publish(call, {
          bytes: file.bytes,
          readSignature: () => throwIfFault(readPackageForm(fields)).signature,
          key,
        }),
      );
      const { name, version } = record;
      const { head } = await packages.find(call.tenant, name, version);
      return {
        status: wasThere && !repeated ? 200 : 201,
        body: { ...(await packages.show(call.tenant, record)), asOf: head },
        headers: {
          location: `/api/v1/packages/${encodeURIComponent(name)}/versions/${encodeURIComponent(version)}`,
          ...replayedHeader(repeated),
        },
      };
    },

    async listPackageVersions(call) {
      const page = { cursor: call.query["cursor"], limit: call.readPageLimit() };
      return { body: await packages.listShown(call.tenant, call.param("packageName"), page) };
    },

    async getPackageVersion(call) {
      const { record, head } = await packages.find(call.tenant, call.param("packageName"), call.param("packageVersion"));
      return { body: { ...(await packages.show(call.tenant, record)), asOf: head } };
    },

    async deletePackageVersion(call) {
      await packages.delete(call, call.param("packageName"), call.param("packageVersion"));
      return noContent;
    },

    async downloadPackage(call) {
      const { record } = await packages.find(call.tenant, call.param("packageName"), call.param("packageVersion"));
      const { name, version, sha256, sizeBytes } = record;
      const blobs = packages.blobStoreOf(record);
      const blobKey = { tenant: call.tenant, name: record.blob };
      // Check now, while the answer can still be an error: the bytes follow after the head.
      if ((await blobs.stat(blobKey)) === null) throw missingBytesFault();
      const range = parseRange(call.header("range"), sizeBytes);
      const { start, end } = range ?? { start: 0, end: sizeBytes - 1 };
      return {
        body: "",
        bytes: () => blobs.read(blobKey, { start, end }),
        media: "application/zip",
        ...(range !== null && { status: 206 }),
        headers: {
          "content-length": String(end - start + 1),
          "content-disposition": attachmentHeader(`${name}-${version}.cwx`),
          "accept-ranges": "bytes",
          etag: `"${sha256}"`,
          ...(range !== null && { "content-range": `bytes ${start}-${end}/${sizeBytes}` }),
        },
      };
    },
  }) satisfies RouteHandlers;

const resourceFileHandlers = (packages: PackageRepository, resources: PackageResources) =>
  ({
    async downloadPackageResource(call) {
      const [name, version] = [call.param("packageName"), call.param("packageVersion")];
      const { path, sizeBytes, sha256, read } = await resources.open(call.tenant, name, version, call.param("resourcePath"));
      return {
        body: "",
        bytes: () => (sizeBytes === 0 ? emptyBytes() : read()),
        media: "application/octet-stream",
        headers: {
          "content-length": String(sizeBytes),
          "content-disposition": attachmentHeader(path.split("/").at(-1) ?? path),
          ...(sha256 !== null && { etag: `"${sha256}"` }),
        },
      };
    },

    async putPackageResource(call) {
      const [name, version, path] = [call.param("packageName"), call.param("packageVersion"), call.param("resourcePath")];
      const record = await resources.put(call, { name, version, path }, (store) => receiveFile(call, store));
      const { head } = await packages.find(call.tenant, name, version);
      return { body: { ...(await packages.show(call.tenant, record)), asOf: head } };
    },
  }) satisfies RouteHandlers;

const keyHandlers = (keys: PackageKeys) =>
  ({
    async listPackageKeys(call) {
      const { items, head } = await keys.list(call.tenant);
      return { body: { items: items.map(presentPackageKey), nextCursor: null, asOf: head } };
    },

    async getPackageKey(call) {
      const { record, head } = await keys.find(call.tenant, call.param("keyId"));
      return { body: { ...presentPackageKey(record), asOf: head } };
    },

    async addPackageKey(call) {
      const wanted = call.readBody(bodyReaderOf("addPackageKey"));
      const { record, head, repeated } = await keys.add(call, wanted, call.readIdempotencyKey());
      return { body: { ...presentPackageKey(record), asOf: head }, headers: replayedHeader(repeated) };
    },

    async deletePackageKey(call) {
      await keys.delete(call, call.param("keyId"));
      return noContent;
    },
  }) satisfies RouteHandlers;
