// Which scheduler a command talks to, and with which token: from flags, the environment, `astra login`, or the defaults for this machine.

import { readFileSync } from "node:fs";
import {
  isLoopbackHost,
  readFlagsAndVariables,
  readSecretArgument,
  type SettingOrigin,
  SettingProblem,
} from "@astraflow/settings";
import { errorMessage, usageFailure } from "../output/cli-failure.ts";
import type { TextInput } from "./command-context.ts";
import { findSavedToken } from "./saved-tokens.ts";

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
  token: { valueName: "@file", help: "file with the token, - for stdin (ASTRA_TOKEN; on loopback dev-token)", read: readToken },
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
  env: Readonly<Record<string, string | undefined>>,
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
