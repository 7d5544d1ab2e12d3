// What a server answers, and how it is written in RESP2 and in RESP3.

export type RespVersion = 2 | 3;

export type Reply =
  | { readonly type: "simple"; readonly text: string }
  | { readonly type: "error"; readonly text: string }
  | { readonly type: "integer"; readonly value: number | bigint }
  | { readonly type: "double"; readonly value: number }
  | { readonly type: "boolean"; readonly value: boolean }
  | { readonly type: "bulk"; readonly bytes: Uint8Array }
  | { readonly type: "nil" }
  | { readonly type: "array" | "set"; readonly items: readonly Reply[] }
  | { readonly type: "map"; readonly entries: readonly (readonly [Reply, Reply])[] };

/** Builders, so that a table of commands reads as its replies do. */
export const reply = {
  ok: { type: "simple", text: "OK" },
  nil: { type: "nil" },
  simple: (text: string): Reply => ({ type: "simple", text }),
  /** `text` with its first word, such as `ERR`. */
  error: (text: string): Reply => ({ type: "error", text }),
  integer: (value: number | bigint): Reply => ({ type: "integer", value }),
  double: (value: number): Reply => ({ type: "double", value }),
  bulk: (value: string | Uint8Array): Reply => ({ type: "bulk", bytes: typeof value === "string" ? Buffer.from(value) : value }),
  bulkOrNil: (value: string | Uint8Array | null): Reply => (value === null ? reply.nil : reply.bulk(value)),
  array: (items: readonly Reply[]): Reply => ({ type: "array", items }),
  bulks: (values: readonly (string | Uint8Array)[]): Reply => reply.array(values.map(reply.bulk)),
  set: (values: readonly (string | Uint8Array)[]): Reply => ({ type: "set", items: values.map(reply.bulk) }),
  map: (entries: readonly (readonly [string | Uint8Array, Reply])[]): Reply => ({
    type: "map",
    entries: entries.map(([key, value]) => [reply.bulk(key), value]),
  }),
} as const satisfies Record<string, Reply | ((...args: never[]) => Reply)>;

const crlf = "\r\n";

export function encodeReply(answer: Reply, version: RespVersion): Buffer {
  const pieces: (string | Uint8Array)[] = [];
  writeReply(answer, version, pieces);
  if (pieces.length === 1 && typeof pieces[0] === "string") return Buffer.from(pieces[0]);
  return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));
}

function writeReply(answer: Reply, version: RespVersion, pieces: (string | Uint8Array)[]): void {
  switch (answer.type) {
    case "simple":
      pieces.push(`+${oneLine(answer.text)}${crlf}`);
      return;
    case "error":
      pieces.push(`-${oneLine(answer.text)}${crlf}`);
      return;
    case "integer":
      pieces.push(`:${answer.value}${crlf}`);
      return;
    case "double":
      if (version === 3) pieces.push(`,${formatDouble(answer.value)}${crlf}`);
      else writeBulk(Buffer.from(formatDouble(answer.value)), pieces);
      return;
    case "boolean":
      pieces.push(version === 3 ? `#${answer.value ? "t" : "f"}${crlf}` : `:${answer.value ? 1 : 0}${crlf}`);
      return;
    case "bulk":
      writeBulk(answer.bytes, pieces);
      return;
    case "nil":
      pieces.push(version === 3 ? `_${crlf}` : `$-1${crlf}`);
      return;
    case "array":
    case "set":
      pieces.push(`${answer.type === "set" && version === 3 ? "~" : "*"}${answer.items.length}${crlf}`);
      for (const item of answer.items) writeReply(item, version, pieces);
      return;
    case "map":
      pieces.push(version === 3 ? `%${answer.entries.length}${crlf}` : `*${2 * answer.entries.length}${crlf}`);
      for (const [key, value] of answer.entries) {
        writeReply(key, version, pieces);
        writeReply(value, version, pieces);
      }
  }
}

function writeBulk(bytes: Uint8Array, pieces: (string | Uint8Array)[]): void {
  pieces.push(`$${bytes.length}${crlf}`, bytes, crlf);
}

/** A line ends at the first line break: a value that holds one must not look like another reply. */
const oneLine = (text: string): string => text.replace(/[\r\n]+/g, " ");

/** The shortest decimal without an exponent and without `.0`; infinities as RESP3 names them. */
export function formatDouble(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? "inf" : value < 0 ? "-inf" : "nan";
  const text = String(value);
  const match = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
  if (match === null) return text;
  const [, sign = "", first = "", fraction = "", exponent = "0"] = match;
  const digits = first + fraction;
  const point = 1 + Number(exponent);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  return `${sign}${digits.padEnd(point, "0")}${point < digits.length ? `.${digits.slice(point)}` : ""}`;
}
