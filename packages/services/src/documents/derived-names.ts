// Names made from texts: ids that a repeat makes again, and words that a search finds exactly.

import { createHash } from "node:crypto";

const sha256Hex = (text: string): string => createHash("sha256").update(text, "utf8").digest("hex");

/** A UUID (version 8) that the same text always gives. */
export function uuidFromText(text: string): string {
  const hex = sha256Hex(text);
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** One word of letters and digits for any text, of one length, so that no such word begins another. */
export const searchTermFor = (kind: string, text: string): string => `x${sha256Hex(`${kind} ${text}`).slice(0, 32)}`;

/** Instants in the order of texts. */
export const sortKeyOf = (at: number): string => String(at).padStart(15, "0");

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export const isUuid = (text: string): boolean => uuidPattern.test(text);
