// Resources as the API shows them, and what of them becomes a header: names, media types, ranges. Pure.

import { fault, type Resource } from "@astraflow/protocol";
import { type BlobRange, isoTime, type ResourceRecord } from "@astraflow/services";

export function presentResource(record: ResourceRecord): Resource {
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
export const sanitizeFilename = (filename: string): string => {
  const clean = [...filename.toWellFormed()].filter((letter) => letter >= " " && letter !== "\u007f").join("");
  return clean.slice(0, 255) || "file";
};

/** A media type that is none is not kept: it would be a header one day. */
export const sanitizeMediaType = (media: string | null): string | null =>
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
