// Which scheduler a command talks to, and with which token: from flags, the environment, `astra login`, or the defaults for this machine.

import { readFileSync } from "node:fs";
import { isLoopbackHost, readSecretArgument } from "@astraflow/settings";
import { usageFailure } from "../output/cli-failure.ts";
import { readTextFile } from "./input-file.ts";
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

export interface EndpointFlags {
  readonly url?: string | undefined;
  readonly token?: string | undefined;
  readonly ca?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export function resolveApiEndpoint({ url: urlFlag, token, ca, env }: EndpointFlags): ApiEndpoint {
  const url = (urlFlag ?? env["ASTRA_URL"] ?? defaultUrl).replace(/\/+$/, "");
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    throw usageFailure(`"${url}" is not a valid scheduler URL. Example: ${defaultUrl}.`);
  const file = ca ?? env["ASTRA_CA"];
  const authority = file === undefined || file === "" ? {} : { caCertificate: readCaFile(file) };
  return { url, token: readToken(token, env, parsed), ...authority };
}

function readCaFile(file: string): string {
  const text = readTextFile(file, "The file of --ca");
  if (!text.includes("-----BEGIN CERTIFICATE-----")) throw usageFailure(`${file} contains no PEM certificate; --ca needs one.`);
  return text;
}

function readToken(tokenFlag: string | undefined, env: EndpointFlags["env"], url: URL): string {
  if (tokenFlag === undefined) {
    const token = env["ASTRA_TOKEN"] ?? findSavedToken(url.origin, env) ?? (isLoopbackHost(url.hostname) ? devToken : "");
    return validateToken(token, "ASTRA_TOKEN");
  }
  const readInput = () => readFileSync(0, "utf8");
  const token = readSecretArgument(tokenFlag, { publicToken: devToken, readFile: readTokenFile, readInput });
  if (token === null)
    throw usageFailure(
      "A token on the command line can be read by everyone on this machine; pass --token @FILE, --token - (stdin), or set ASTRA_TOKEN.",
    );
  if (token === "") throw usageFailure("The token file is empty; write the secret into it.");
  return validateToken(token, "The token file");
}

function readTokenFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw usageFailure(`The token file cannot be read (${cause instanceof Error ? cause.message : String(cause)}).`);
  }
}

/** A header carries nothing else, and the error that fetch would throw contains the secret. */
function validateToken(token: string, where: string): string {
  if (/^[\x21-\x7e]*$/.test(token)) return token;
  throw usageFailure(`${where} is not a valid token: tokens are printable ASCII without spaces.`);
}
