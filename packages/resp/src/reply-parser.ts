// Reads replies as a client gets them, in RESP2 and RESP3, however they are cut.

import { ByteQueue } from "./byte-queue.ts";
import type { Reply } from "./reply.ts";
import { RespProtocolError } from "./request-parser.ts";

export interface ReplyParserLimits {
  readonly bulkBytesMax: number;
  readonly itemsMax: number;
  readonly depthMax: number;
}

const defaultLimits: ReplyParserLimits = { bulkBytesMax: 64 * 1024 * 1024, itemsMax: 1_048_576, depthMax: 32 };
const lineBytesMax = 64 * 1024;

/** A list that is being read: what it will be, and what it still needs. */
interface OpenList {
  readonly type: "array" | "set" | "map";
  readonly items: Reply[];
  missing: number;
}

export class ReplyParser {
  readonly #bytes = new ByteQueue();
  readonly #limits: ReplyParserLimits;
  readonly #open: OpenList[] = [];
  #bulkLength: number | null = null;

  constructor(limits: Partial<ReplyParserLimits> = {}) {
    this.#limits = { ...defaultLimits, ...limits };
  }

  add(bytes: Uint8Array): void {
    this.#bytes.add(bytes);
  }

  /** The next whole reply; null where more bytes are needed. Throws a RespProtocolError where it is none. */
  next(): Reply | null {
    for (;;) {
      const value = this.#readOne();
      if (value === null) return null;
      if (value === "opened") continue;
      const whole = this.#close(value);
      if (whole !== null) return whole;
    }
  }

  /** Puts a value into the list that it belongs to, and gives what is whole by that; null where a list still needs more. */
  #close(value: Reply): Reply | null {
    let whole = value;
    for (;;) {
      const list = this.#open.at(-1);
      if (list === undefined) return whole;
      list.items.push(whole);
      if (--list.missing > 0) return null;
      this.#open.pop();
      whole = closeList(list);
    }
  }

  #readOne(): Reply | "opened" | null {
    if (this.#bulkLength !== null) return this.#readBulk(this.#bulkLength);
    const line = this.#bytes.takeLine();
    if (line === null) {
      if (this.#bytes.length > lineBytesMax) throw new RespProtocolError("too long a line");
      return null;
    }
    const text = line.toString("utf8").replace(/\r$/, "");
    return this.#readLine(text[0] ?? "", text.slice(1));
  }

  #readLine(mark: string, rest: string): Reply | "opened" | null {
    switch (mark) {
      case "+":
        return { type: "simple", text: rest };
      case "-":
        return { type: "error", text: rest };
      case ":":
      case "(":
        return { type: "integer", value: readInteger(rest) };
      case ",":
        return { type: "double", value: readDouble(rest) };
      case "#":
        return { type: "boolean", value: rest === "t" };
      case "_":
        return { type: "nil" };
      case "$":
      case "=":
        return this.#beginBulk(readCount(rest, this.#limits.bulkBytesMax));
      case "*":
      case ">":
        return this.#beginList("array", readCount(rest, this.#limits.itemsMax));
      case "~":
        return this.#beginList("set", readCount(rest, this.#limits.itemsMax));
      case "%":
        return this.#beginList("map", 2 * readCount(rest, this.#limits.itemsMax));
      default:
        throw new RespProtocolError(`no reply begins with '${mark}'`);
    }
  }

  #beginBulk(length: number): Reply | null {
    if (length < 0) return { type: "nil" };
    this.#bulkLength = length;
    return this.#readBulk(length);
  }

  #readBulk(length: number): Reply | null {
    if (this.#bytes.length < length + 2) return null;
    const bytes = this.#bytes.take(length);
    if (this.#bytes.take(2).toString("latin1") !== "\r\n") throw new RespProtocolError("expected CRLF after a bulk string");
    this.#bulkLength = null;
    return { type: "bulk", bytes };
  }

  #beginList(type: OpenList["type"], count: number): Reply | "opened" {
    if (count < 0) return { type: "nil" };
    if (count === 0) return closeList({ type, items: [], missing: 0 });
    if (this.#open.length >= this.#limits.depthMax) throw new RespProtocolError("lists are nested too deeply");
    this.#open.push({ type, items: [], missing: count });
    return "opened";
  }
}

function closeList({ type, items }: OpenList): Reply {
  if (type !== "map") return { type, items };
  const entries: (readonly [Reply, Reply])[] = [];
  for (let at = 0; at < items.length; at += 2) entries.push([items[at] as Reply, items[at + 1] as Reply]);
  return { type, entries };
}

function readCount(text: string, max: number): number {
  const count = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (!(count >= -1 && count <= max)) throw new RespProtocolError(`a length of ${text.slice(0, 20)}`);
  return count;
}

function readInteger(text: string): number | bigint {
  if (!/^[+-]?\d{1,40}$/.test(text)) throw new RespProtocolError(`no integer: ${text.slice(0, 40)}`);
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

function readDouble(text: string): number {
  if (text === "inf") return Number.POSITIVE_INFINITY;
  if (text === "-inf") return Number.NEGATIVE_INFINITY;
  if (text === "nan") return Number.NaN;
  const value = Number(text);
  if (text === "" || Number.isNaN(value)) throw new RespProtocolError(`no number: ${text.slice(0, 40)}`);
  return value;
}
