import { createSeededRandom } from "@astraflow/protocol/testing";
import { expect, it } from "vitest";
import { encodeRequest } from "./request.ts";
import { RequestParser, RespProtocolError } from "./request-parser.ts";

const limits = { bulkBytesMax: 4_096, argumentsMax: 64, requestBytesMax: 8_192, lineBytesMax: 256 };
const streams = Number(process.env["ASTRA_FUZZ_STREAMS"] || 100_000);

const pieces = [
  "*",
  "$",
  "\r\n",
  "\n",
  "\r",
  "-1",
  "0",
  "3",
  "99999999999",
  "PING",
  '"',
  "'",
  "\\x",
  " ",
  "\0",
  ":",
  "+",
  "*1\r\n$4\r\nPING\r\n",
];

/** What a parser reads of a stream that is cut at these places, as one text. */
function readCut(bytes: Buffer, cuts: readonly number[]): string {
  const parser = new RequestParser(limits);
  const found: string[] = [];
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    parser.add(bytes.subarray(from, to));
    from = to;
    try {
      for (let words = parser.next(); words !== null; words = parser.next()) found.push(JSON.stringify(words.map(String)));
    } catch (problem) {
      if (!(problem instanceof RespProtocolError)) throw problem;
      return [...found, problem.message].join("\n");
    }
    expect(parser.heldBytes).toBeLessThanOrEqual(limits.requestBytesMax + bytes.length);
  }
  return found.join("\n");
}

it(`[Q9] ${streams} random byte streams are read without a crash, and the same wherever they are cut`, () => {
  const random = createSeededRandom(7);
  const differing: string[] = [];
  for (let stream = 0; stream < streams; stream++) {
    const valid = Array.from({ length: random(3) }, () => encodeRequest(["SET", `k${random(9)}`, "v".repeat(random(40))]));
    const noise = Array.from({ length: random(6) }, () => Buffer.from(pieces[random(pieces.length)] ?? "", "latin1"));
    const bytes = Buffer.concat(random(2) === 0 ? [...valid, ...noise] : [...noise, ...valid]);
    if (bytes.length > 0 && random(3) === 0) bytes[random(bytes.length)] = random(256);
    const cuts = Array.from({ length: random(4) }, () => random(bytes.length + 1)).sort((a, b) => a - b);

    const whole = readCut(bytes, []);
    if (readCut(bytes, cuts) !== whole) differing.push(`${JSON.stringify(bytes.toString("latin1"))} cut at ${cuts.join(", ")}`);
  }

  expect(differing).toEqual([]);
});
