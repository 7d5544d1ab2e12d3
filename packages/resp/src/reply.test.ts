import { describe, expect, it } from "vitest";
import { encodeReply, formatDouble, type Reply, reply } from "./reply.ts";
import { ReplyParser } from "./reply-parser.ts";

const rich: Reply = reply.array([
  reply.ok,
  reply.error("ERR no such thing"),
  reply.integer(-7),
  reply.bulk("caf\u00e9\r\n"),
  reply.nil,
  reply.set(["a", "b"]),
  reply.map([["field", reply.double(1.5)]]),
  reply.array([]),
]);

describe("replies", () => {
  it("[Q6] every type of reply is written as RESP2 and as RESP3 have it", () => {
    expect(encodeReply(rich, 2).toString()).toBe(
      "*8\r\n+OK\r\n-ERR no such thing\r\n:-7\r\n$7\r\ncaf\u00e9\r\n\r\n$-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$5\r\nfield\r\n$3\r\n1.5\r\n*0\r\n",
    );
    expect(encodeReply(rich, 3).toString()).toBe(
      "*8\r\n+OK\r\n-ERR no such thing\r\n:-7\r\n$7\r\ncaf\u00e9\r\n\r\n_\r\n~2\r\n$1\r\na\r\n$1\r\nb\r\n%1\r\n$5\r\nfield\r\n,1.5\r\n*0\r\n",
    );
    expect(encodeReply({ type: "boolean", value: true }, 2).toString()).toBe(":1\r\n");
    expect(encodeReply({ type: "boolean", value: true }, 3).toString()).toBe("#t\r\n");
  });

  it("[Q6] a line break in a text cannot begin another reply", () => {
    expect(encodeReply(reply.error("ERR bad 'a\r\n+OK'"), 2).toString()).toBe("-ERR bad 'a +OK'\r\n");
  });

  it.each([
    [1_700_000_000, "1700000000"],
    [1.5, "1.5"],
    [1e21, "1000000000000000000000"],
    [-1.25e-7, "-0.000000125"],
    [1.5e22, "15000000000000000000000"],
    [Number.POSITIVE_INFINITY, "inf"],
  ])("[Q7] the score %d is written as %s: the shortest decimal, without exponent and without .0", (value, text) => {
    expect(formatDouble(value)).toBe(text);
  });

  it.each([2, 3] as const)("[Q8] a client reads what a server writes in RESP%d, wherever it is cut", (version) => {
    const bytes = encodeReply(rich, version);

    for (let cut = 0; cut < bytes.length; cut++) {
      const parser = new ReplyParser();
      parser.add(bytes.subarray(0, cut));
      expect(parser.next()).toBeNull();
      parser.add(bytes.subarray(cut));
      const read = parser.next();
      expect(read === null ? null : encodeReply(read, version).toString()).toBe(bytes.toString());
      expect(parser.next()).toBeNull();
    }
  });

  it.each([
    "!5\r\n",
    "*99999999999\r\n",
    "$x\r\n",
    ":1.5\r\n",
    ",one\r\n",
    "$2\r\nabcd",
    "*1\r\n".repeat(40),
    "x".repeat(70_000),
  ])("[Q8] a client refuses what is no reply: %j", (bytes) => {
    const parser = new ReplyParser();
    parser.add(Buffer.from(bytes));

    expect(() => parser.next()).toThrow("Protocol error");
  });
});
