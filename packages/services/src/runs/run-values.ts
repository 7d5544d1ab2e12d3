// Values of a node by path: whole, or a stretch of their JSON text counted in bytes of UTF-8. Characters are never cut.

import { parseBindingPath, valueAt } from "@astraflow/graph";
import { type ByteRange, fault, type JsonValue } from "@astraflow/protocol";

/** Bytes of one value that an answer shows; a caller who wants more asks for the stretch behind. */
export const valueBytesMax = 1024 * 1024;

/** What there is under a node's two roots. */
type NodeValues = Readonly<Record<"results" | "parameters", unknown>>;

/** The value at a path; the fault to answer where the path is none, or leads nowhere. */
export function readValueAt(values: NodeValues, path: string, node: string): JsonValue {
  const read = parseBindingPath(path);
  if (typeof read === "string") throw fault("E.REQUEST.INVALID", read, { path: "query.path" });
  const value = valueAt(values[read.root], read.steps) as JsonValue | undefined;
  if (value === undefined) throw fault("E.NOT_FOUND", `node ${node} has no value at ${path}`, { path: "query.path" });
  return value;
}

/** A value as it is shown: whole where nothing else was asked and it is not too large, else a stretch of its text. */
export type WholeOrPartialValue = { readonly value: JsonValue } | { readonly text: string; readonly range: ByteRange };

export function presentValue(value: JsonValue, asked: { offset?: number; length?: number }): WholeOrPartialValue {
  const bytes = Buffer.from(JSON.stringify(value));
  const isWhole = asked.offset === undefined && asked.length === undefined;
  if (isWhole && bytes.length <= valueBytesMax) return { value };
  const { offset = 0, length = valueBytesMax } = asked;
  const from = nextCharacterStart(bytes, Math.min(offset, bytes.length));
  const to = nextCharacterStart(bytes, Math.min(offset + length, bytes.length));
  return { text: bytes.toString("utf8", from, to), range: { from, to, total: bytes.length } };
}

/** The first byte from here on that begins a character: stretches that follow each other have every character once. */
function nextCharacterStart(bytes: Buffer, at: number): number {
  let place = at;
  while (place < bytes.length && ((bytes[place] ?? 0) & 0xc0) === 0x80) place++;
  return place;
}
