// What came back: judged by its status, read up to a limit, or written to a file.

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { failure } from "./failure.ts";
import { explainBreak, type ReceivedResponse, showUrl } from "./request.ts";

/** `expected` is a list of statuses: 200, 2xx. */
export function isExpectedStatus(statusCode: number, expected: readonly string[]): boolean {
  return expected.some((one) => one === String(statusCode) || one === `${Math.floor(statusCode / 100)}xx`);
}

/** Other statuses that may be better next time; the rest would be the same again. */
const temporaryStatuses = new Set([408, 425, 429]);

/** Throws for a status that is not expected: E.RUNNER.FAILURE, which the node's retry policy decides about, or E.RUNNER.REFUSED. */
export async function checkStatus(method: string, response: ReceivedResponse, expected: readonly string[]): Promise<void> {
  const { statusCode, headers, url } = response;
  if (isExpectedStatus(statusCode, expected)) return;
  const isTemporary = statusCode >= 500 || temporaryStatuses.has(statusCode);
  const later = headers["retry-after"] === undefined ? "" : `; it asks to wait (Retry-After: ${headers["retry-after"]})`;
  const excerpt = await readExcerpt(response);
  throw failure(
    isTemporary ? "E.RUNNER.FAILURE" : "E.RUNNER.REFUSED",
    `${method} ${showUrl(url)} answered ${statusCode}, expected ${expected.join(", ")}${later}${excerpt === "" ? "" : `: ${excerpt}`}`,
  );
}

const excerptChars = 300;

/** The beginning of an error page, for the message; nothing where it cannot be read. */
async function readExcerpt({ stream }: ReceivedResponse): Promise<string> {
  let text = "";
  try {
    for await (const chunk of stream) {
      text += String(chunk);
      if (text.length >= excerptChars) break;
    }
  } catch (problem) {
    return `its body broke off: ${problem instanceof Error ? problem.message : String(problem)}`;
  }
  return text.slice(0, excerptChars).replace(/\s+/g, " ").trim();
}

export interface ReadingLimits {
  readonly bytesMax: number;
  readonly signal: AbortSignal;
  /** Bytes so far, and of how many where the server says so. */
  progress?(bytes: number, total: number | undefined): void;
}

export async function readBytes(method: string, response: ReceivedResponse, limits: ReadingLimits): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of readLimited(method, response, limits)) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Writes the body to a file that must not exist. */
export async function saveBytes(
  method: string,
  response: ReceivedResponse,
  file: string,
  limits: ReadingLimits,
): Promise<{ readonly sha256: string; readonly sizeBytes: number }> {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  const handle = await open(file, "wx", 0o600);
  try {
    for await (const piece of readLimited(method, response, limits)) {
      hash.update(piece);
      sizeBytes += piece.length;
      await handle.writeFile(piece);
    }
  } finally {
    await handle.close();
  }
  return { sha256: hash.digest("hex"), sizeBytes };
}

/** The pieces of the body; a body above the limit is refused as soon as that is known. */
async function* readLimited(method: string, response: ReceivedResponse, limits: ReadingLimits): AsyncGenerator<Buffer> {
  const { stream, headers, url } = response;
  const { bytesMax, signal, progress } = limits;
  const tooLarge = () =>
    failure("E.RUNNER.REFUSED", `the answer of ${showUrl(url)} has more than ${bytesMax} bytes; raise maxBytes or download it`);
  // Of a compressed body the length before it is unpacked is announced, of a HEAD that of a body which does not come.
  const isLengthOfBody = headers["content-encoding"] === undefined && method !== "HEAD";
  const announced = isLengthOfBody ? headers["content-length"] : undefined;
  const total = announced === undefined ? undefined : Number(announced);
  let bytes = 0;
  // A server that sends nothing more must not outlive the time limit.
  const stop = () => stream.destroy(signal.reason as Error);
  signal.addEventListener("abort", stop, { once: true });
  try {
    signal.throwIfAborted();
    if (total !== undefined && total > bytesMax) throw tooLarge();
    for await (const chunk of stream) {
      const piece = chunk as Buffer;
      bytes += piece.length;
      if (bytes > bytesMax) throw tooLarge();
      progress?.(bytes, total);
      yield piece;
    }
  } catch (cause) {
    throw signal.aborted ? signal.reason : explainBreak(method, url, cause);
  } finally {
    signal.removeEventListener("abort", stop);
    stream.destroy();
  }
}
