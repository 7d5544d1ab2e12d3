// The routes about resources: list, show, download, delete, a file that is sent in one piece or in parts, and grants; and what of a resource
// becomes a header: names, media types, ranges.

import { bodyReaderOf, fault, type Resource, type ResourceGrant, readResourceForm } from "@astraflow/protocol";
import {
  type BlobRange,
  decodeDocumentCursor,
  isoTime,
  missingBytesFault,
  presentUpload,
  type ResourceGrantRecord,
  type ResourceGrants,
  type ResourceRecord,
  type ResourceUploads,
  type Services,
} from "@astraflow/services";
import {
  emptyBytes,
  invalidRequest,
  noContent,
  pageReply,
  type RestCall,
  type RestReply,
  type RouteHandlers,
  replayedHeader,
  throwIfFault,
} from "../requests/rest-call.ts";
import { type FormFile, readMultipartForm, readRawBody } from "./multipart-form.ts";

/** Something new, under its own address. */
const createdReply = (body: object, location: string, isRepeated: boolean): RestReply => ({
  body,
  headers: { location: `/api/v1/${location}`, ...replayedHeader(isRepeated) },
});

export function resourceHandlers({ resources, resourceUploads, resourceGrants }: Services) {
  return {
    ...uploadHandlers(resourceUploads),
    ...grantHandlers(resourceGrants),

    async listResources(call) {
      const { search, ownerId, cursor } = call.query;
      const query = { search, ownerId, limit: call.readPageLimit(), after: decodeDocumentCursor(cursor) };
      return pageReply(await resources.list(call, query), ({ record }) => presentResource(record));
    },

    async createResource(call) {
      const creation = await resources.prepareCreation(call, call.readIdempotencyKey());
      const record = await readMultipartForm(call.header("content-type"), call.stream, (file, fields) => {
        // Read again after the bytes: fields may follow the file.
        const readLateFields = () => readResourceFields(file, fields, resources.defaultProvider);
        return creation.create({ ...readLateFields(), metadata: null, readLateFields }, file.bytes);
      });
      const { head } = await resources.records.find(call.tenant, record.id);
      return createdReply({ ...presentResource(record), asOf: head }, `resources/${record.id}`, creation.repeated);
    },

    async getResource(call) {
      const { record, head } = await resources.find(call, call.param("resourceId"));
      return { body: { ...presentResource(record), asOf: head } };
    },

    async deleteResource(call) {
      await resources.delete(call, call.param("resourceId"));
      return noContent;
    },

    async downloadResource(call) {
      const { record } = await resources.find(call, call.param("resourceId"));
      const blobs = resources.blobStoreOf(record.provider);
      const blobKey = { tenant: call.tenant, name: record.id };
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
  } satisfies RouteHandlers;
}

/** The fields of the form, as far as they have been read. */
function readResourceFields(
  file: FormFile,
  fields: Readonly<Record<string, string>>,
  defaultProvider: ResourceRecord["provider"],
) {
  const { filename, mimeType, ...form } = throwIfFault(readResourceForm(fields));
  return {
    provider: form.provider ?? defaultProvider,
    visibility: form.visibility ?? "private",
    filename: sanitizeFilename(filename ?? file.filename),
    mimeType: sanitizeMediaType(mimeType ?? file.mimeType),
    sha256: form.sha256 ?? null,
  };
}

const uploadHandlers = (uploads: ResourceUploads) =>
  ({
    async createUpload(call) {
      const key = call.readIdempotencyKey();
      const { upload, repeated, head } = await uploads.create(call, call.readBody(bodyReaderOf("createUpload")), key);
      return createdReply({ ...presentUpload(upload), asOf: head }, `resources/uploads/${upload.id}`, repeated);
    },

    async getUpload(call) {
      const { record, head } = await uploads.find(call, call.param("uploadId"));
      return { body: { ...presentUpload(record), asOf: head } };
    },

    async abortUpload(call) {
      await uploads.abort(call, call.param("uploadId"));
      return noContent;
    },

    async putUploadPart(call) {
      const part = readPartNumber(call.param("partNumber"));
      const { upload, receivedBytes } = await uploads.putPart(call, call.param("uploadId"), part, (store) =>
        receiveFile(call, store),
      );
      const { uploadedBytes, nextPart, totalParts } = presentUpload(upload);
      const status = nextPart === totalParts ? "completed" : "pending";
      return { body: { uploadId: upload.id, partNumber: part, uploadedBytes, nextPart, status, receivedBytes } };
    },

    async completeUpload(call) {
      call.readIdempotencyKey();
      const { resource, head } = await uploads.complete(call, call.param("uploadId"));
      return { body: { ...presentResource(resource), asOf: head } };
    },
  }) satisfies RouteHandlers;

/** The bytes of a part: the body itself, or the file of a form. */
export async function receiveFile(
  call: RestCall,
  store: (bytes: AsyncIterable<Uint8Array>) => Promise<unknown>,
): Promise<unknown> {
  if (call.media === "application/octet-stream") return store(readRawBody(call.stream));
  if (call.media === "multipart/form-data")
    return readMultipartForm(call.header("content-type"), call.stream, ({ bytes }) => store(bytes));
  throw fault("E.REQUEST.MEDIA", "send the part as multipart/form-data, in a part named file, or as application/octet-stream");
}

function readPartNumber(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw invalidRequest("params.partNumber", "the number of a part must be a whole number from 0");
}

const grantHandlers = (grants: ResourceGrants) =>
  ({
    async listResourceGrants(call) {
      const page = { limit: call.readPageLimit(), after: decodeDocumentCursor(call.query["cursor"]) };
      return pageReply(await grants.list(call, call.query, page), ({ record }) => presentGrant(record));
    },

    async createResourceGrant(call) {
      const key = call.readIdempotencyKey();
      const { grant, repeated, head } = await grants.create(call, call.readBody(bodyReaderOf("createResourceGrant")), key);
      return createdReply({ ...presentGrant(grant), asOf: head }, `resource-grants/${grant.id}`, repeated);
    },

    async getResourceGrant(call) {
      const { record, head } = await grants.find(call, call.param("grantId"));
      return { body: { ...presentGrant(record), asOf: head } };
    },

    async deleteResourceGrant(call) {
      await grants.delete(call, call.param("grantId"));
      return noContent;
    },
  }) satisfies RouteHandlers;

function presentGrant(record: ResourceGrantRecord): ResourceGrant {
  const { id, packageVersion, workflowId, metadata, actions, createdAt, ...rest } = record;
  return {
    grantId: id,
    ...rest,
    actions: [...actions],
    createdAt: isoTime(createdAt),
    ...(packageVersion !== null && { packageVersion }),
    ...(workflowId !== null && { workflowId }),
    ...(metadata !== null && { metadata }),
  };
}

function presentResource(record: ResourceRecord): Resource {
  const { id, owner, createdAt, mimeType, metadata, ...rest } = record;
  return {
    resourceId: id,
    type: "file",
    ...rest,
    ownerId: owner,
    createdAt: isoTime(createdAt),
    ...(mimeType !== null && { mimeType }),
    ...(metadata !== null && { metadata }),
    downloadUrl: `/api/v1/resources/${id}/download`,
  };
}

/** As a name that can be shown and sent; a form may hold anything. */
const sanitizeFilename = (filename: string): string => {
  const clean = [...filename.toWellFormed()].filter((character) => character >= " " && character !== "\u007f").join("");
  return clean.slice(0, 255) || "file";
};

/** A media type that is none is not kept: it would be a header one day. */
const sanitizeMediaType = (media: string | null): string | null =>
  media !== null && /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+( *;[ -~]*)?$/.test(media) && media.length <= 255 ? media : null;

/** In the form every browser understands, and for those that understand more with all its letters. */
export function attachmentHeader(filename: string): string {
  const plain = filename.replaceAll(/[^ !#-$&-[\]-~]/g, "_");
  const whole = encodeURIComponent(filename).replaceAll(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
  return `attachment; filename="${plain}"; filename*=UTF-8''${whole}`;
}

/** One stretch. Null: none was asked for, or in a way that means nothing here, and then everything is the answer. */
export function parseRange(header: string | undefined, sizeBytes: number): BlobRange | null {
  const [, from = "", to = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? "") ?? [];
  if (from === "" && to === "") return null;
  const start = from === "" ? Math.max(0, sizeBytes - Number(to)) : Number(from);
  const end = from === "" || to === "" ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1);
  if (from !== "" && to !== "" && Number(to) < Number(from)) return null;
  if (start <= end) return { start, end };
  throw fault("E.RESOURCE.RANGE", `the resource has ${sizeBytes} bytes and none in that range`, { sizeBytes });
}
