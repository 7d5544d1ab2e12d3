// Reads requests from a stranger's bytes, however they are cut. Nothing is read twice, nothing is held beyond the limits, and the first
// malformed byte ends it: what follows could be read as another command.

import { ByteQueue } from "./byte-queue.ts";
import { splitInlineCommand } from "./inline-command.ts";

export interface RequestParserLimits {
  /** Of one argument. */
  readonly bulkBytesMax: number;
  /** Of one request, its name counted. */
  readonly argumentsMax: number;
  /** Of all arguments of one request. */
  readonly requestBytesMax: number;
  /** Of a line: a length, or a request that is typed as one. */
  readonly lineBytesMax: number;
}

/** What a client gets before the connection is closed; worded as Redis does where Redis has words. */
export class RespProtocolError extends Error {
  constructor(reason: string) {
    super(`Protocol error: ${reason}`);
    this.name = "RespProtocolError";
  }
}

const asterisk = 0x2a;
const dollar = 0x24;
const carriageReturn = 0x0d;
const lineFeed = 0x0a;
/** The first bytes of replies, which are no requests. */
const replyMarks: ReadonlySet<number> = new Set([..."+-:$"].map((mark) => mark.charCodeAt(0)));
/** Digits of a length: Redis takes 20, and no limit here has more than ten. */
const lengthCharsMax = 20;

export class RequestParser {
  readonly #bytes = new ByteQueue();
  #limits: RequestParserLimits;
  #error: RespProtocolError | null = null;
  /** The arguments of the request that is being read; null between requests. */
  #words: Buffer[] | null = null;
  #wordsMissing = 0;
  #wordBytes = 0;
  /** Length of the argument whose bytes come next; null where its length comes next. */
  #bulkLength: number | null = null;

  constructor(limits: RequestParserLimits) {
    this.#limits = limits;
  }

  /** Counts from the next length on: a client that has shown who it is may send more. */
  setLimits(limits: RequestParserLimits): void {
    this.#limits = limits;
  }

  /** Bytes that are held and not handed out yet. */
  get heldBytes(): number {
    return this.#bytes.length + this.#wordBytes;
  }

  add(bytes: Uint8Array): void {
    if (this.#error === null) this.#bytes.add(bytes);
  }

  /**
   * The next whole request; null where more bytes are needed. An empty list is an array without elements. After an error every call
   * throws it again.
   */
  next(): readonly Buffer[] | null {
    if (this.#error !== null) throw this.#error;
    try {
      return this.#words === null ? this.#begin() : this.#readWords(this.#words);
    } catch (problem) {
      if (problem instanceof RespProtocolError) this.#fail(problem);
      throw problem;
    }
  }

  #fail(problem: RespProtocolError): void {
    this.#error = problem;
    this.#words = null;
    this.#wordBytes = 0;
    this.#bytes.skip(this.#bytes.length);
  }

  #begin(): readonly Buffer[] | null {
    const first = this.#bytes.peek();
    if (first === undefined) return null;
    if (first !== asterisk) return replyMarks.has(first) ? refuseReply() : this.#readInline();
    const count = this.#readLength("invalid multibulk length", "too big mbulk count string");
    if (count === null) return null;
    if (count > this.#limits.argumentsMax || count < -1) throw new RespProtocolError("invalid multibulk length");
    if (count <= 0) return [];
    this.#words = [];
    this.#wordsMissing = count;
    return this.#readWords(this.#words);
  }

  #readWords(words: Buffer[]): readonly Buffer[] | null {
    while (this.#wordsMissing > 0) {
      const length = this.#bulkLength ?? this.#readBulkLength();
      if (length === null) return null;
      this.#bulkLength = length;
      if (this.#bytes.length < length + 2) return null;
      words.push(this.#bytes.take(length));
      this.#readLineEnd();
      this.#wordBytes += length;
      this.#bulkLength = null;
      this.#wordsMissing--;
    }
    this.#words = null;
    this.#wordBytes = 0;
    return words;
  }

  #readBulkLength(): number | null {
    const first = this.#bytes.peek();
    if (first === undefined) return null;
    if (first !== dollar) throw new RespProtocolError(`expected '$', got '${printable(first)}'`);
    const length = this.#readLength("invalid bulk length", "too big bulk count string");
    if (length === null) return null;
    if (length === -1) throw new RespProtocolError("Expected bulk string");
    const { bulkBytesMax, requestBytesMax } = this.#limits;
    if (length < 0 || length > bulkBytesMax || this.#wordBytes + length > requestBytesMax)
      throw new RespProtocolError("invalid bulk length");
    return length;
  }

  #readLineEnd(): void {
    const [first, second] = this.#bytes.take(2);
    if (first !== carriageReturn || second !== lineFeed) throw new RespProtocolError("expected CRLF after a bulk string");
  }

  /** Of a line such as `*3` or `$12`, the number; null where the line is not whole yet. */
  #readLength(invalid: string, tooLong: string): number | null {
    const line = this.#bytes.takeLine();
    if (line === null) {
      if (this.#bytes.length > Math.min(lengthCharsMax, this.#limits.lineBytesMax)) throw new RespProtocolError(tooLong);
      return null;
    }
    if (line.length > lengthCharsMax + 2) throw new RespProtocolError(tooLong);
    const digits = /^.(-?\d{1,15})\r$/.exec(line.toString("latin1"))?.[1];
    if (digits === undefined) throw new RespProtocolError(invalid);
    return Number(digits);
  }

  #readInline(): readonly Buffer[] | null {
    for (;;) {
      const line = this.#bytes.takeLine();
      if ((line?.length ?? this.#bytes.length) > this.#limits.lineBytesMax) throw new RespProtocolError("too big inline request");
      if (line === null) return null;
      const words = splitInlineCommand(line.toString("latin1"));
      if (words === null) throw new RespProtocolError("unbalanced quotes in request");
      if (words.length > this.#limits.argumentsMax) throw new RespProtocolError("invalid multibulk length");
      if (words.length > 0) return words.map((word) => Buffer.from(word, "latin1"));
      // An empty line is no request; the next bytes may be anything.
      const first = this.#bytes.peek();
      if (first === undefined) return null;
      if (first === asterisk || replyMarks.has(first)) return this.#begin();
    }
  }
}

function refuseReply(): never {
  throw new RespProtocolError("Expected array with at least one element");
}

const printable = (byte: number): string => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16)}`);
