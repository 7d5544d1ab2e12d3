// What a task with secrets keeps for later: its texts, notes and text files are stored without them.

import { closeSync, openSync, readSync, writeSync } from "node:fs";
import path from "node:path";
import type { HandlerResources } from "@astraflow/sdk";
import type { SecretMask } from "./secret-mask.ts";

const readBytes = 64 * 1024;
/** Whether a file is text, and in which encoding, is read from its first bytes. */
const textProbeBytes = 8 * 1024;

/** `workDir`: the attempt's own directory, made where a file has to be written anew. */
export function createMaskedResources(resources: HandlerResources, mask: SecretMask, workDir: () => string): HandlerResources {
  const withoutSecrets = <T extends { readonly metadata?: object } | undefined>(details: T): T =>
    details?.metadata === undefined ? details : { ...details, metadata: mask.maskJson(details.metadata) };
  // A file that was registered by its path may have been written since, so it is looked through when it leaves the worker.
  const findCleanContent = (id: string, { filename }: { readonly filename?: string } = {}) => {
    const file = resources.get(id)?.path;
    if (file === undefined) return {};
    const name = { filename: mask.maskText(filename ?? path.basename(file)) };
    const contentFrom = maskTextFile(mask, file, workDir);
    return contentFrom === file ? name : { ...name, contentFrom };
  };
  return {
    register: (draft) => resources.register(withoutSecrets(draft)),
    registerFile: (id, file, more) => resources.registerFile(id, maskTextFile(mask, file, workDir), withoutSecrets(more)),
    registerJson: (id, text, more) => resources.registerJson(id, maskJsonText(mask, text), withoutSecrets(more)),
    upload: (id, options) => resources.upload(id, { ...mask.maskJson(options), ...findCleanContent(id, options) }),
    download: (resourceId, more) => resources.download(resourceId, withoutSecrets(more)),
    get: (id) => resources.get(id),
    readJson: (id) => resources.readJson(id),
    lease: (id) => resources.lease(id),
    release: (id) => resources.release(id),
    touch: (id, expiresAt) => resources.touch(id, expiresAt),
    drop: (id, reason) => resources.drop(id, reason),
    releaseScope: (scope) => resources.releaseScope(scope),
    list: (which) => resources.list(which),
    artifact: (id, options) => resources.artifact(id, options),
  };
}

function maskJsonText(mask: SecretMask, text: string): string {
  const clean = mask.maskText(text);
  if (clean === text) return text;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // It is not JSON, whatever its name says.
    return clean;
  }
  return JSON.stringify(mask.maskJson(value));
}

/** The file to keep: the given one, or a copy without secrets if it is a text that has some. */
function maskTextFile(mask: SecretMask, file: string, workDir: () => string): string {
  const encoding = findTextEncoding(file);
  if (encoding === null) return file;
  let given = 0;
  let clean = 0;
  maskPieces(mask, file, encoding, (piece, text) => {
    given += text.length;
    clean += piece.length;
  });
  // The placeholder is shorter than any secret.
  if (clean === given) return file;
  const copy = path.join(workDir(), `.without-secrets-${process.hrtime.bigint()}`);
  const target = openSync(copy, "wx", 0o600);
  try {
    maskPieces(mask, file, encoding, (piece) => writeSync(target, encodeText(piece, encoding)));
  } finally {
    closeSync(target);
  }
  return copy;
}

/** `latin1`: one character a byte, which suits every encoding that has ASCII in it. */
type TextEncoding = "latin1" | "utf-16le" | "utf-16be";

/** Null for a file that is no text: it has zero bytes, and not just those of ASCII in UTF-16. */
function findTextEncoding(file: string): TextEncoding | null {
  const buffer = Buffer.alloc(textProbeBytes);
  const source = openSync(file, "r");
  try {
    const probe = buffer.subarray(0, readSync(source, buffer));
    if (probe[0] === 0xff && probe[1] === 0xfe) return "utf-16le";
    if (probe[0] === 0xfe && probe[1] === 0xff) return "utf-16be";
    const zeros = [0, 0];
    for (let at = 0; at < probe.length; at++) if (probe[at] === 0) zeros[at % 2] = (zeros[at % 2] ?? 0) + 1;
    const [even = 0, odd = 0] = zeros;
    if (even + odd === 0) return "latin1";
    const isMostlyZero = (count: number): boolean => count > probe.length / 4;
    if (even === 0 && isMostlyZero(odd)) return "utf-16le";
    return odd === 0 && isMostlyZero(even) ? "utf-16be" : null;
  } finally {
    closeSync(source);
  }
}

function encodeText(text: string, encoding: TextEncoding): Buffer {
  if (encoding === "latin1") return Buffer.from(text, "latin1");
  const bytes = Buffer.from(text, "utf16le");
  return encoding === "utf-16be" ? bytes.swap16() : bytes;
}

/** Calls `take` with each piece without secrets and the text it came from. */
function maskPieces(
  mask: SecretMask,
  file: string,
  encoding: TextEncoding,
  take: (piece: string, text: string) => unknown,
): void {
  const stream = encoding === "latin1" ? mask.createByteStream() : mask.createTextStream();
  const decoder = encoding === "latin1" ? null : new TextDecoder(encoding, { ignoreBOM: true });
  const buffer = Buffer.alloc(readBytes);
  const source = openSync(file, "r");
  try {
    for (let length = readSync(source, buffer); length > 0; length = readSync(source, buffer)) {
      const bytes = buffer.subarray(0, length);
      const text = decoder?.decode(bytes, { stream: true }) ?? bytes.toString("latin1");
      take(stream.next(text), text);
    }
    const rest = decoder?.decode() ?? "";
    take(stream.next(rest) + stream.end(), rest);
  } finally {
    closeSync(source);
  }
}
