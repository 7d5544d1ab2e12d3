// All credentials of a running scheduler: tokens, session keys and the authenticators made of them, and reloading the token files.

import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createWorkerAuthenticator, TokenRegistry } from "@astraflow/doors";
import { errorMessage, limits, readJson } from "@astraflow/protocol";
import { rotateKeys, type ServiceEnvironment, type SigningKey } from "@astraflow/services";
import type { Log } from "../platform/log.ts";
import { StartupError } from "../platform/startup-error.ts";
import { createSyncedFile, syncFolder } from "../platform/synced-file.ts";
import type { SchedulerConfig } from "../settings/config.ts";
import { type AccessToken, compareTokens, devToken, readTokens } from "../settings/secrets.ts";

export type Credentials = ReturnType<typeof openCredentials>;

export interface CredentialsOptions {
  readonly config: SchedulerConfig;
  readonly replica: string;
  readonly environment: ServiceEnvironment;
  readonly log: Log;
}

/** Throws a StartupError if the session keys cannot be written. */
export function openCredentials({ config, replica, environment, log }: CredentialsOptions) {
  const tokenRegistry = new TokenRegistry(toTokenEntries(config.tokens));
  const zero = environment.clock.now() - environment.clock.monotonic();
  const keys = openSessionKeys({
    file: join(config.dataDir, "session-keys.json"),
    ageMs: config.sessionKeyAgeMs,
    lifeMs: config.sessionTokenMs,
    now: () => zero + environment.clock.monotonic(),
    log,
  });
  const workerAuthenticator = createWorkerAuthenticator({
    tokens: tokenRegistry,
    keys,
    audience: `${config.cluster}/${replica}`,
    sessionTokenMs: config.sessionTokenMs,
    environment,
    trustDomain: config.trustDomain,
    isCertificateRequired: (tenant) => config.tenants[tenant]?.isCertificateRequired ?? false,
  });
  const files = [...new Set(config.tokenSettings.flatMap(({ file }) => file ?? []))];
  const reader = createTokenFileReader(files, log);
  let used = config.tokens;
  let missing: readonly AccessToken[] = [];
  let lastProblems = "";

  return {
    /** For REST. */
    authenticate: tokenRegistry.authenticate,
    /** For workers. */
    workerAuthenticator,
    /** Rotates the session keys if it is time. */
    rotateKeys: keys.rotate,
    /** Reads the token files again. If the user asked for it explicitly, missing tokens are revoked at once. */
    async reloadTokens(isExplicit: boolean): Promise<void> {
      if (!(await reader.readAll())) return;
      const { tokens, problems } = readTokens(config.tokenSettings, { isDev: config.isDev, readFile: reader.text });
      const problemText = problems.join("\n");
      if (problemText !== lastProblems) for (const problem of problems) log.error({ problem }, "token.refused");
      lastProblems = problemText;
      const change = compareTokens(used, config.isDev ? [devToken, ...tokens] : tokens, { missing, isSure: isExplicit });
      missing = change.missing;
      if (change.added.length === 0 && change.removed.length === 0) return;
      used = change.tokens;
      tokenRegistry.replace(toTokenEntries(used));
      for (const { name, tenant } of change.added) log.warn({ audit: true, name, tenant }, "token.added");
      for (const { name, tenant } of change.removed) log.warn({ audit: true, name, tenant }, "token.revoked");
      workerAuthenticator.notifyTokensChanged();
    },
  };
}

const toTokenEntries = (tokens: readonly AccessToken[]) =>
  tokens.map(({ secret, name, tenant, grants }) => ({ token: secret, user: name, tenant, grants }));

/** The last texts of the token files. A deleted file is empty; one that cannot be read keeps its last text. */
function createTokenFileReader(files: readonly string[], log: Log) {
  const texts = new Map<string, string>();
  const failing = new Set<string>();
  const read = async (path: string): Promise<void> => {
    try {
      texts.set(path, await readFile(path, "utf8"));
      failing.delete(path);
    } catch (cause) {
      const code = (cause as NodeJS.ErrnoException).code;
      if (code === "ENOENT") return void texts.set(path, "");
      if (!failing.has(path)) log.error({ file: path, problem: String(cause) }, "token.unread");
      failing.add(path);
    }
  };
  return {
    /** False while one of them has never been read: then its tokens are unknown. */
    async readAll(): Promise<boolean> {
      await Promise.all(files.map(read));
      return files.every((path) => texts.has(path));
    },
    text: (path: string): string => texts.get(path) ?? "",
  };
}

interface SessionKeysOptions {
  readonly file: string;
  readonly ageMs: number;
  readonly lifeMs: number;
  /** Wall time without jumps. */
  readonly now: () => number;
  readonly log: Log;
}

/** The keys that sign session tokens, in a file that only this user may read. Throws a StartupError if they cannot be written. */
export function openSessionKeys({ file, ageMs, lifeMs, now, log }: SessionKeysOptions) {
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
    /** Creates a new key if one is due, and drops expired ones. */
    rotate(): void {
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
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const list = keys.map(({ kid, secret, madeAt }) => ({ kid, secret: Buffer.from(secret).toString("base64url"), madeAt }));
  // A new file each time: one that a crash has left may have other permissions.
  const temporaryFile = `${file}.new`;
  rmSync(temporaryFile, { force: true });
  createSyncedFile(temporaryFile, `${JSON.stringify({ version: 1, keys: list })}\n`);
  renameSync(temporaryFile, file);
  syncFolder(dirname(file));
}
