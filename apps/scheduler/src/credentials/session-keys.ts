// The keys that sign session tokens, in a file of the data folder that only this user may read.

import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { KeyRing } from "@astraflow/doors";
import { errorMessage, limits, readJson } from "@astraflow/protocol";
import { rotateKeys, type SigningKey } from "@astraflow/services";
import type { Log } from "../platform/log.ts";
import { StartupError } from "../platform/startup-error.ts";
import { createSyncedFile, syncFolder } from "../platform/synced-file.ts";

export const sessionKeysFile = "session-keys.json";

export interface SessionKeysOptions {
  readonly file: string;
  readonly ageMs: number;
  readonly lifeMs: number;
  /** Wall time without jumps. */
  readonly now: () => number;
  readonly log: Log;
}

export interface SessionKeys extends KeyRing {
  /** Creates a new key if one is due, and drops expired ones. */
  rotate(): void;
}

/** Throws a StartupError if the keys cannot be written. */
export function openSessionKeys({ file, ageMs, lifeMs, now, log }: SessionKeysOptions): SessionKeys {
  const rotated = (keys: readonly SigningKey[]): readonly SigningKey[] =>
    rotateKeys(keys, now(), { ageMs, lifeMs, make: generateKey });
  let keys = rotated(readKeys(file, log));
  try {
    writeKeys(file, keys);
  } catch (cause) {
    throw new StartupError(`${file} cannot be written (${errorMessage(cause)}); choose another folder with --data-dir.`, cause);
  }
  return {
    keys: () => keys,
    rotate() {
      const newKeys = rotated(keys);
      if (newKeys === keys) return;
      try {
        writeKeys(file, newKeys);
      } catch (cause) {
        // A key that is not on disk must not sign anything: the old keys stay in use until a write succeeds.
        log.error({ file, problem: errorMessage(cause) }, "session.keys.unwritten");
        return;
      }
      keys = newKeys;
      log.info({ key: keys.at(-1)?.kid, keys: keys.length }, "session.keys.turned");
    },
  };
}

const generateKey = (): Omit<SigningKey, "madeAt"> => ({
  kid: randomBytes(6).toString("base64url"),
  secret: randomBytes(32),
});

/** Drops keys that others may have read, and a damaged file; then sessions start again and nothing is lost. */
function readKeys(file: string, log: Log): readonly SigningKey[] {
  try {
    if ((statSync(file).mode & 0o077) === 0) return parseKeys(readFileSync(file, "utf8"));
    log.warn({ file }, "session.keys.exposed");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") log.warn({ file, problem: String(cause) }, "session.keys.unread");
  }
  return [];
}

function parseKeys(text: string): readonly SigningKey[] {
  const { keys: list } = readJson(text, limits.json.request) as { keys?: unknown };
  const keys = Array.isArray(list) ? list.map(parseKey) : [null];
  // The sentence quotes nothing of the file: it would end up in the log.
  if (!keys.every((key) => key !== null)) throw new Error("it contains no keys");
  return keys;
}

function parseKey(value: unknown): SigningKey | null {
  if (typeof value !== "object" || value === null) return null;
  const { kid, secret, madeAt } = value as Record<string, unknown>;
  if (typeof kid !== "string" || kid === "" || typeof secret !== "string" || !Number.isFinite(madeAt)) return null;
  const bytes = Buffer.from(secret, "base64url");
  return bytes.length === 32 ? { kid, secret: bytes, madeAt: madeAt as number } : null;
}

/** Writes aside, syncs, then renames: a crash leaves the old file or the new one. */
function writeKeys(file: string, keys: readonly SigningKey[]): void {
  mkdirSync(dirname(file), { recursive: true });
  const list = keys.map(({ kid, secret, madeAt }) => ({ kid, secret: Buffer.from(secret).toString("base64url"), madeAt }));
  // A new file each time: one that a crash has left may have other permissions.
  const temporaryFile = `${file}.new`;
  rmSync(temporaryFile, { force: true });
  createSyncedFile(temporaryFile, `${JSON.stringify({ version: 1, keys: list })}\n`);
  renameSync(temporaryFile, file);
  syncFolder(dirname(file));
}
