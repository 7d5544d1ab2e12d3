import { describe, expect, it } from "vitest";
import { encodeRequest } from "./request.ts";
import { RequestParser, type RequestParserLimits, RespProtocolError } from "./request-parser.ts";

const limits: RequestParserLimits = { bulkBytesMax: 1_000, argumentsMax: 16, requestBytesMax: 2_000, lineBytesMax: 100 };

const createParser = (more: Partial<RequestParserLimits> = {}) => new RequestParser({ ...limits, ...more });

/** All requests in these bytes, as texts, and the error that ended them. */
function readAll(parser: RequestParser, bytes: Uint8Array | string): (string[] | string)[] {
  parser.add(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  const found: (string[] | string)[] = [];
  for (;;) {
    try {
      const words = parser.next();
      if (words === null) return found;
      found.push(words.map((word) => word.toString("latin1")));
    } catch (problem) {
      if (!(problem instanceof RespProtocolError)) throw problem;
      found.push(problem.message);
      return found;
    }
  }
}

describe("requests", () => {
  it("[Q1] requests are read in their order wherever their bytes are cut, with every byte that a value may have", () => {
    const binary = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
    const requests = [["PING"], ["SET", "k", binary], ["SET", "", "\r\n*1\r\n$4\r\nQUIT\r\n"], ["LPUSH", "q", "x".repeat(900)]];
    const bytes = Buffer.concat([...requests.map(encodeRequest), Buffer.from("  get \t k\n\r\nping\r\n")]);
    const expected = [
      ...requests.map((words) => words.map((word) => (typeof word === "string" ? word : word.toString("latin1")))),
      ["get", "k"],
      ["ping"],
    ];

    for (let cut = 0; cut <= bytes.length; cut++) {
      const parser = createParser();
      expect([...readAll(parser, bytes.subarray(0, cut)), ...readAll(parser, bytes.subarray(cut))]).toEqual(expected);
      expect(parser.heldBytes).toBe(0);
    }
    const parser = createParser();
    expect([...bytes].flatMap((byte) => readAll(parser, Buffer.from([byte])))).toEqual(expected);
  });

  it.each([
    ['set "a b" c\n', ["set", "a b", "c"]],
    [String.raw`set "\x41\n\"\\" 'it\'s' x"y"`, ["set", 'A\n"\\', "it's", "xy"]],
    ["  \t \n", []],
    ["get 'open\n", "Protocol error: unbalanced quotes in request"],
    ['get "a"b\n', "Protocol error: unbalanced quotes in request"],
  ])("[Q2] a request may be typed as a line with quotes: %j", (line, expected) => {
    const read = readAll(createParser(), line.endsWith("\n") ? line : `${line}\n`);

    expect(read).toEqual(expected.length === 0 ? [] : [expected]);
  });

  it("[Q3] an array without elements is an empty request, and the next one is read", () => {
    expect(readAll(createParser(), "*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n")).toEqual([[], [], ["PING"]]);
  });

  it.each([
    ["*x\r\n", "invalid multibulk length"],
    ["*-2\r\n", "invalid multibulk length"],
    ["*2000000000\r\n", "invalid multibulk length"],
    ["*1\n$4\r\nPING\r\n", "invalid multibulk length"],
    [`*${"1".repeat(40)}`, "too big mbulk count string"],
    ["*1\r\n:5\r\n", "expected '$', got ':'"],
    [`*1\r\n${"*1\r\n".repeat(10_000)}`, "expected '$', got '*'"],
    ["*1\r\n\x00", "expected '$', got '\\x0'"],
    ["*1\r\n$-1\r\n", "Expected bulk string"],
    ["*1\r\n$-7\r\n", "invalid bulk length"],
    ["*1\r\n$1001\r\n", "invalid bulk length"],
    ["*1\r\n$ 4\r\nPING\r\n", "invalid bulk length"],
    ["*1\r\n$4\r\nPINGxx*1\r\n$4\r\nQUIT\r\n", "expected CRLF after a bulk string"],
    ["$4\r\nPING\r\n", "Expected array with at least one element"],
    ["+PING\r\n", "Expected array with at least one element"],
    ["\n\n:1\r\n", "Expected array with at least one element"],
    ["x".repeat(200), "too big inline request"],
    [`${"x".repeat(200)}\n`, "too big inline request"],
    [`${"x ".repeat(30)}\n`, "invalid multibulk length"],
    [`*3\r\n${`$900\r\n${"x".repeat(900)}\r\n`.repeat(3)}`, "invalid bulk length"],
  ])(
    "[Q4] malformed bytes end the connection at once with what is wrong, and nothing behind them is read: %j",
    (bytes, reason) => {
      const parser = createParser();

      expect(readAll(parser, bytes)).toEqual([`Protocol error: ${reason}`]);
      expect(readAll(parser, "*1\r\n$4\r\nPING\r\n")).toEqual([`Protocol error: ${reason}`]);
      expect(parser.heldBytes).toBe(0);
    },
  );

  it("[Q5] limits may rise while requests arrive, and hold from the next length on", () => {
    const parser = createParser({ bulkBytesMax: 4, requestBytesMax: 8 });
    const large = encodeRequest(["SET", "kk", "x".repeat(100)]);

    expect(readAll(parser, encodeRequest(["AUTH", "key"]))).toEqual([["AUTH", "key"]]);
    parser.setLimits(limits);
    expect(readAll(parser, large)).toEqual([["SET", "kk", "x".repeat(100)]]);
    expect(readAll(createParser({ bulkBytesMax: 4 }), large)).toEqual(["Protocol error: invalid bulk length"]);
  });

  it("[Q5] what a client sends and does not finish is held once, up to the limit of a request", () => {
    const parser = createParser({ bulkBytesMax: 1_000_000, requestBytesMax: 1_000_000 });
    parser.add(Buffer.from("*2\r\n$3\r\nSET\r\n$900000\r\n"));
    expect(parser.next()).toBeNull();
    for (let at = 0; at < 899; at++) {
      parser.add(Buffer.alloc(1_000));
      expect(parser.next()).toBeNull();
    }

    expect(parser.heldBytes).toBe(899_000 + 3);
  });
});
