// What a task with secrets keeps for later: its texts, notes and text files are stored without them.

import { closeSync, openSync, readSync, writeSync } from "node:fs";
import path from "node:path";
import type { HandlerResources } from "./handler.ts";
import type { SecretMask } from "./secret-mask.ts";

const readBytes = 64 * 1024;
/** A file with a NUL among its first bytes is not text. */
const textProbeBytes = 8 * 1024;

/** `workDir`: the attempt's own directory, made where a file has to be written anew. */
export function createMaskedResources(resources: HandlerResources, mask: SecretMask, workDir: () => string): HandlerResources {
  const withoutSecrets = <T extends { readonly metadata?: object } | undefined>(details: T): T =>
    details?.metadata === undefined ? details : { ...details, metadata: mask.maskJson(details.metadata) };
  return {
    register: (draft) => resources.register(withoutSecrets(draft)),
    registerFile: (id, file, more) => resources.registerFile(id, maskTextFile(mask, file, workDir), withoutSecrets(more)),
    registerJson: (id, text, more) => resources.registerJson(id, maskJsonText(mask, text), withoutSecrets(more)),
    upload: (id, options) => resources.upload(id, mask.maskJson(options)),
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
  let given = 0;
  let clean = 0;
  let isText = true;
  const isRead = maskPieces(mask, file, (piece, bytes) => {
    if (given === 0) isText = !bytes.subarray(0, textProbeBytes).includes(0);
    given += bytes.length;
    clean += piece.length;
    return isText;
  });
  // The placeholder is shorter than any secret.
  if (!isRead || clean === given) return file;
  const copy = path.join(workDir(), `.without-secrets-${process.hrtime.bigint()}`);
  const target = openSync(copy, "wx", 0o600);
  try {
    maskPieces(mask, file, (piece) => writeSync(target, piece, null, "latin1") >= 0);
  } finally {
    closeSync(target);
  }
  return copy;
}

/** Calls `take` with each piece without secrets and the bytes it came from, for as long as that gives true. False: it was stopped. */
function maskPieces(mask: SecretMask, file: string, take: (piece: string, bytes: Uint8Array) => boolean): boolean {
  const stream = mask.createByteStream();
  const buffer = Buffer.alloc(readBytes);
  const source = openSync(file, "r");
  try {
    for (let length = readSync(source, buffer); length > 0; length = readSync(source, buffer)) {
      const bytes = buffer.subarray(0, length);
      if (!take(stream.next(bytes.toString("latin1")), bytes)) return false;
    }
    return take(stream.end(), new Uint8Array(0));
  } finally {
    closeSync(source);
  }
}
