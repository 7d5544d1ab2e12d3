// The tokens of `astra login`, one per scheduler, in a file that only its owner can read. Passwords are never saved.

import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

type Env = Readonly<Record<string, string | undefined>>;

interface SavedToken {
  readonly token: string;
  readonly username: string;
  /** Milliseconds since 1970. */
  readonly until: number;
}

/** Null without a home folder. */
export function tokensFilePath(env: Env): string | null {
  const folder = env["XDG_CONFIG_HOME"] || (env["HOME"] ? join(env["HOME"], ".config") : "");
  return folder === "" ? null : join(folder, "astra", "tokens.json");
}

function readTokensFile(env: Env): Record<string, SavedToken> {
  const file = tokensFilePath(env);
  if (file === null) return {};
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Record<string, SavedToken>;
  } catch {
    // No file, or a damaged one: no token is saved.
    return {};
  }
}

/** The token for this scheduler, unless it has expired. */
export function findSavedToken(origin: string, env: Env, now: number = Date.now()): string | undefined {
  const saved = readTokensFile(env)[origin];
  return saved !== undefined && saved.until > now ? saved.token : undefined;
}

/** Saves a token, or with null deletes it. The file is written aside and renamed, so that a reader never sees half of it. */
export function saveToken(origin: string, saved: SavedToken | null, env: Env): string | null {
  const file = tokensFilePath(env);
  if (file === null) return null;
  const { [origin]: _old, ...others } = readTokensFile(env);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const temporaryFile = `${file}.${process.pid}`;
  const tokens = saved === null ? others : { ...others, [origin]: saved };
  writeFileSync(temporaryFile, `${JSON.stringify(tokens, null, 2)}\n`, { mode: 0o600 });
  chmodSync(temporaryFile, 0o600);
  renameSync(temporaryFile, file);
  return file;
}
