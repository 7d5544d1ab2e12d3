// The digest that the manifest of a signed package states about its own archive. It cannot cover the archive that holds it, so it covers
// what the archive holds: one line for each file, sorted by name, with the digest of its content. The line of manifest.json has the digest
// of the manifest without its `signature`, as JSON without spaces and with sorted keys.

import { createHash } from "node:crypto";
import { isRecord, type JsonObject } from "@astraflow/protocol";

export const manifestFileName = "manifest.json";

export interface DigestedFile {
  readonly name: string;
  /** In hex. */
  readonly sha256: string;
}

export const sha256Hex = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");

/** `files`: all but the manifest. */
export function computeContentDigest(files: readonly DigestedFile[], manifest: JsonObject): string {
  const { signature: _, ...unsigned } = manifest;
  const lines = [...files, { name: manifestFileName, sha256: sha256Hex(writeSortedJson(unsigned)) }]
    .toSorted((left, right) => Buffer.compare(Buffer.from(left.name), Buffer.from(right.name)))
    .map(({ name, sha256 }) => `${sha256}  ${name}\n`);
  return sha256Hex(lines.join(""));
}

function writeSortedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(writeSortedJson).join(",")}]`;
  if (!isRecord(value)) return JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${writeSortedJson(value[key])}`);
  return `{${members.join(",")}}`;
}
