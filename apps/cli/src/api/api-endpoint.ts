// Which scheduler a command talks to, and with which token: from flags, the environment, `astra login`, or the defaults for this machine.
// The tokens of `astra login` are saved, one per scheduler, in a file that only its owner can read; passwords never are.

import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  isLoopbackHost,
  readFlagsAndVariables,
  readSecretArgument,
  type SettingOrigin,
  SettingProblem,
} from "@astraflow/settings";
import { errorMessage, usageFailure } from "../output/cli-failure.ts";
import type { TextInput } from "./command-context.ts";

export type Env = Readonly<Record<string, string | undefined>>;

const defaultUrl = "http://127.0.0.1:8080";
/** Public, not a secret: only a scheduler that was started with --dev accepts it. */
const devToken = "dev-token";

export interface ApiEndpoint {
  readonly url: string;
  readonly token: string;
  /** The only CA (PEM) accepted for the scheduler's certificate; absent: the CAs that this machine trusts. */
  readonly caCertificate?: string;
}

/** The settings of every command that talks to a scheduler. */
export const endpointSettings = {
  url: { valueName: "url", help: `the scheduler (ASTRA_URL; default ${defaultUrl})`, default: defaultUrl, read: readUrl },
  token: {
    valueName: "@file",
    help: "file with the token, - for stdin (ASTRA_TOKEN; default on loopback: dev-token)",
    read: readToken,
  },
  ca: {
    valueName: "file",
    help: "CA certificate (PEM) of the scheduler, if the system does not trust it (ASTRA_CA)",
    read: readCaFile,
  },
} as const;

const grammar = {
  prefix: "ASTRA_",
  isEmptyVariableUnset: false,
  sentences: {
    // The scheduler, the worker and others have variables with this prefix too.
    unknownVariable: (name: string, hint: string) => (hint === "" ? null : `${name} is not a setting of this command${hint}`),
    invalidValue: (name: string, reason: string) => `${name} ${reason}`,
  },
};

export function resolveApiEndpoint(
  flags: TextInput<never, "url" | "token" | "ca">,
  env: Env,
  warn: (line: string) => void = () => undefined,
): ApiEndpoint {
  const { values, problems, warnings } = readFlagsAndVariables(endpointSettings, grammar, flags, { env });
  if (problems.length > 0) throw usageFailure(problems.join(" "));
  for (const warning of warnings) warn(warning);
  const { url, ca } = values;
  const { origin, hostname } = new URL(url);
  const token = values.token ?? findSavedToken(origin, env) ?? (isLoopbackHost(hostname) ? devToken : "");
  return { url, token, ...(ca !== undefined && { caCertificate: ca }) };
}

function readUrl(value: unknown): string | SettingProblem {
  const url = String(value).replace(/\/+$/, "");
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return url;
  return new SettingProblem(`is not a valid scheduler URL ("${url}"). Example: ${defaultUrl}.`);
}

function readCaFile(value: unknown): string | undefined | SettingProblem {
  if (value === "") return undefined;
  return tryReading(() => {
    const text = readFileSync(String(value), "utf8");
    if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
    return new SettingProblem(`needs a certificate; ${String(value)} contains no PEM certificate.`);
  });
}

/** The environment holds the secret itself, a flag says where it is. */
function readToken(value: unknown, from: SettingOrigin): string | SettingProblem {
  const text = String(value);
  return tryReading(() => {
    const readFile = (file: string | 0) => readFileSync(file, "utf8");
    const sources = { publicToken: devToken, readFile, readInput: () => readFile(0) };
    const token = from === "flag" ? readSecretArgument(text, sources) : text;
    if (token === null)
      return new SettingProblem(
        "must not hold the token itself, which can be read by everyone on this machine; pass --token @FILE, --token - (stdin), or set ASTRA_TOKEN.",
      );
    if (token === "" && from === "flag") return new SettingProblem("names a token file that is empty; write the secret into it.");
    // A header carries nothing else, and the error that fetch would throw contains the secret.
    if (/^[\x21-\x7e]*$/.test(token)) return token;
    return new SettingProblem("is not a valid token: tokens are printable ASCII without spaces.");
  });
}

function tryReading<T>(read: () => T): T | SettingProblem {
  try {
    return read();
  } catch (cause) {
    return new SettingProblem(`cannot be read (${errorMessage(cause)}).`);
  }
}

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
