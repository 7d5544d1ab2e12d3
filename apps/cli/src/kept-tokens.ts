// Tokens that `astra login` was given, one a scheduler, in a file that only its owner reads. Passwords are never kept.

import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

type Env = Readonly<Record<string, string | undefined>>;

interface Kept {
  readonly token: string;
  readonly username: string;
  /** Milliseconds since 1970. */
  readonly until: number;
}

/** Null where there is no home to keep anything in. */
export function tokensFile(env: Env): string | null {
  const folder = env["XDG_CONFIG_HOME"] || (env["HOME"] ? join(env["HOME"], ".config") : "");
  return folder === "" ? null : join(folder, "astra", "tokens.json");
}

function readTokens(env: Env): Record<string, Kept> {
  const file = tokensFile(env);
  if (file === null) return {};
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Record<string, Kept>;
  } catch {
    // Nothing was kept, or it cannot be read any more: then nobody is signed in.
    return {};
  }
}

/** The token for this scheduler, unless its time is over. */
export function keptToken(origin: string, env: Env, now: number = Date.now()): string | undefined {
  const kept = readTokens(env)[origin];
  return kept !== undefined && kept.until > now ? kept.token : undefined;
}

/** Keeps or, with null, forgets it. Written beside and renamed, so that a reader never sees half a file. */
export function keepToken(origin: string, kept: Kept | null, env: Env): string | null {
  const file = tokensFile(env);
  if (file === null) return null;
  const { [origin]: _old, ...others } = readTokens(env);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const fresh = `${file}.${process.pid}`;
  writeFileSync(fresh, `${JSON.stringify(kept === null ? others : { ...others, [origin]: kept }, null, 2)}\n`, { mode: 0o600 });
  chmodSync(fresh, 0o600);
  renameSync(fresh, file);
  return file;
}
