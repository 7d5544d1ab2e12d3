// The routes of uploads in parts.

import { fault, readResourceUploadInit } from "@astraflow/protocol";
import { presentUpload, type ResourceUploads } from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import { type RestCall, type RouteHandler, readIdempotencyKey, readRequest } from "../requests/rest-call.ts";
import { emptyBytes, isMultipart, readMultipartForm, readRawBody } from "./multipart-form.ts";
import { presentResource } from "./resource-response.ts";

export type UploadRoutes = "createUpload" | "getUpload" | "abortUpload" | "putUploadPart" | "completeUpload";

export function uploadHandlers(uploads: ResourceUploads): Record<UploadRoutes, RouteHandler> {
  return {
    async createUpload(call) {
      const key = readIdempotencyKey(call);
      const { upload, repeated, head } = await uploads.create(call, readRequest(call, readResourceUploadInit), key);
      const headers = { location: `/api/v1/resources/uploads/${upload.id}`, ...replayedHeader(repeated) };
      return { body: { ...presentUpload(upload), asOf: head }, headers };
    },

    async getUpload(call) {
      const { record, head } = await uploads.find(call, uploadIdOf(call));
      return { body: { ...presentUpload(record), asOf: head } };
    },

    async abortUpload(call) {
      await uploads.abort(call, uploadIdOf(call));
      return { body: "", status: 204 };
    },

    async putUploadPart(call) {
      const part = readPartNumber(call.params["partNumber"]);
      const { upload, receivedBytes } = await uploads.putPart(call, uploadIdOf(call), part, (store) => receiveFile(call, store));
      const { uploadedBytes, nextPart, totalParts } = presentUpload(upload);
      const status = nextPart === totalParts ? "completed" : "pending";
      return { body: { uploadId: upload.id, partNumber: part, uploadedBytes, nextPart, status, receivedBytes } };
    },

    async completeUpload(call) {
      readIdempotencyKey(call);
      const { resource, head } = await uploads.complete(call, uploadIdOf(call));
      return { body: { ...presentResource(resource), asOf: head } };
    },
  };
}

const uploadIdOf = ({ params }: RestCall): string => params["uploadId"] ?? "";

/** The bytes of a part: the body itself, or the file of a form. */
async function receiveFile(call: RestCall, store: (bytes: AsyncIterable<Uint8Array>) => Promise<unknown>): Promise<unknown> {
  const body = call.stream ?? emptyBytes();
  const media = call.header("content-type");
  if (media?.split(";")[0]?.trim().toLowerCase() === "application/octet-stream") return store(readRawBody(body));
  if (isMultipart(media)) return readMultipartForm(media, body, { onFile: ({ bytes }) => store(bytes) });
  throw fault("E.REQUEST.MEDIA", "send the part as multipart/form-data, in a part named file, or as application/octet-stream");
}

function readPartNumber(text: string | undefined): number {
  if (text !== undefined && /^\d{1,6}$/.test(text)) return Number(text);
  throw fault("E.REQUEST.INVALID", "the number of a part must be a whole number from 0", { path: "params.partNumber" });
}
