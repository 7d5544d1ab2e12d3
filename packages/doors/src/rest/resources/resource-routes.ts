// The routes about resources: list, show, download, delete, and a file that is sent in one piece. Uploads in parts are in upload-routes.ts,
// grants in resource-grant-routes.ts.

import { Fault, readResourceForm } from "@astraflow/protocol";
import { decodeDocumentCursor, encodeCursor, missingBytesFault, type ResourceRecord, type Services } from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import { type RestCall, type RouteHandler, readIdempotencyKey, readPageLimit } from "../requests/rest-call.ts";
import { emptyBytes, type FormFile, readMultipartForm } from "./multipart-form.ts";
import { type ResourceGrantRoutes, resourceGrantHandlers } from "./resource-grant-routes.ts";
import { attachmentHeader, parseRange, presentResource, sanitizeFilename, sanitizeMediaType } from "./resource-response.ts";
import { type UploadRoutes, uploadHandlers } from "./upload-routes.ts";

type ResourceRoutes = "listResources" | "createResource" | "getResource" | "deleteResource" | "downloadResource";

export function resourceHandlers(services: Services): Record<ResourceRoutes | UploadRoutes | ResourceGrantRoutes, RouteHandler> {
  const { resources } = services;
  return {
    ...uploadHandlers(services.resourceUploads),
    ...resourceGrantHandlers(services.resourceGrants),

    async listResources(call) {
      const { search, ownerId, cursor } = call.query;
      const query = { search, ownerId, limit: readPageLimit(call.query), after: decodeDocumentCursor(cursor) };
      const { items, next, head } = await resources.list(call, query);
      return { body: { items: items.map(({ record }) => presentResource(record)), nextCursor: encodeCursor(next), asOf: head } };
    },

    async createResource(call) {
      const creation = await resources.prepareCreation(call, readIdempotencyKey(call));
      const record = await readMultipartForm(call.header("content-type"), call.stream ?? emptyBytes(), {
        onFile(file, fields) {
          // Read again after the bytes: fields may follow the file.
          const readLateFields = () => readResourceFields(file, fields, resources.defaultProvider);
          return creation.create({ ...readLateFields(), metadata: null, readLateFields }, file.bytes);
        },
      });
      const { head } = await resources.records.find(call.identity.tenant, record.id);
      return {
        body: { ...presentResource(record), asOf: head },
        headers: { location: `/api/v1/resources/${record.id}`, ...replayedHeader(creation.repeated) },
      };
    },

    async getResource(call) {
      const { record, head } = await resources.find(call, resourceIdOf(call));
      return { body: { ...presentResource(record), asOf: head } };
    },

    async deleteResource(call) {
      await resources.delete(call, resourceIdOf(call));
      return { body: "", status: 204 };
    },

    async downloadResource(call) {
      const { record } = await resources.find(call, resourceIdOf(call));
      const blobs = resources.blobStoreOf(record.provider);
      const blobKey = { tenant: call.identity.tenant, name: record.id };
      // Check now, while the answer can still be an error: the bytes follow after the head.
      if ((await blobs.stat(blobKey)) === null) throw missingBytesFault();
      const range = parseRange(call.header("range"), record.sizeBytes);
      const { start, end } = range ?? { start: 0, end: record.sizeBytes - 1 };
      return {
        body: "",
        bytes: () => (record.sizeBytes === 0 ? emptyBytes() : blobs.read(blobKey, { start, end })),
        media: record.mimeType ?? "application/octet-stream",
        ...(range !== null && { status: 206 }),
        headers: {
          "content-length": String(end - start + 1),
          "content-disposition": attachmentHeader(record.filename),
          // If a browser shows it after all, nothing in it may run.
          "content-security-policy": "sandbox; default-src 'none'",
          "accept-ranges": "bytes",
          etag: `"${record.sha256}"`,
          ...(range !== null && { "content-range": `bytes ${start}-${end}/${record.sizeBytes}` }),
        },
      };
    },
  };
}

const resourceIdOf = ({ params }: RestCall): string => params["resourceId"] ?? "";

/** The fields of the form, as far as they have been read. */
function readResourceFields(
  file: FormFile,
  fields: Readonly<Record<string, string>>,
  defaultProvider: ResourceRecord["provider"],
) {
  const form = readResourceForm(fields);
  if (form instanceof Fault) throw form;
  const {
    provider = defaultProvider,
    visibility = "private",
    filename = file.filename,
    mimeType = file.mimeType,
    sha256 = null,
  } = form;
  return { provider, visibility, filename: sanitizeFilename(filename), mimeType: sanitizeMediaType(mimeType), sha256 };
}
