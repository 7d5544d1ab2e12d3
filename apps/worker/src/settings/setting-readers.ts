// How single settings are read. Their values are not repeated in a problem: one of them is a secret.

import { errorMessage, Fault, isRecord } from "@astraflow/protocol";
import { type InstallSettings, readTrustedKeys } from "@astraflow/runtime";
import { readSecretArgument, type SettingOrigin, SettingProblem, type SettingSources } from "@astraflow/settings";

export interface WorkerSettingSources extends SettingSources {
  readonly hostname: string;
  /** All of stdin; throws where it cannot be read. */
  readInput(): string;
  isDirectory(dir: string): boolean;
}

/** A published token, not a secret: it opens only a scheduler that was started with --dev. */
export const publicDevToken = "dev-token";

export function readText(given: unknown): string | SettingProblem {
  return typeof given === "string" && given !== "" ? given : new SettingProblem("must be a text that is not empty");
}

export function pattern(expression: RegExp, expected: string): (given: unknown) => string | SettingProblem {
  return (given) => {
    const text = readText(given);
    return typeof text === "string" && !expression.test(text) ? new SettingProblem(`must be ${expected}`) : text;
  };
}

export function number(min: number, max: number, isWhole = false): (given: unknown) => number | SettingProblem {
  return (given) => {
    const value = typeof given === "string" && given.trim() !== "" ? Number(given) : given;
    const isValid = typeof value === "number" && value >= min && value <= max && (!isWhole || Number.isInteger(value));
    return isValid ? value : new SettingProblem(`must be ${isWhole ? "a whole number" : "a number"} from ${min} to ${max}`);
  };
}

export const wholeNumber = (min: number, max: number) => number(min, max, true);

export function oneOf<T extends string>(...choices: readonly T[]): (given: unknown) => T | SettingProblem {
  return (given) => {
    const text = typeof given === "string" ? given.toLowerCase() : "";
    return choices.find((choice) => choice === text) ?? new SettingProblem(`must be one of ${choices.join(", ")}`);
  };
}

export function readBoolean(given: unknown): boolean | SettingProblem {
  const value = typeof given === "string" ? given.toLowerCase() : given;
  if (value === true || value === "true" || value === "1" || value === "yes") return true;
  if (value === false || value === "false" || value === "0" || value === "no") return false;
  return new SettingProblem("must be true or false");
}

export function readUrls(given: unknown): readonly string[] | SettingProblem {
  const texts: unknown = typeof given === "string" ? given.split(",").map((text) => text.trim()) : given;
  if (!Array.isArray(texts) || texts.length === 0) return new SettingProblem(urlProblem);
  const urls: unknown[] = texts.map(toSessionUrl);
  const problem = urls.map(findUrlProblem).find((one) => one !== null);
  return problem === undefined ? (urls as string[]) : new SettingProblem(problem);
}

const urlProblem = "must be an address that begins with ws://, wss://, http:// or https://";

/** The address that a scheduler prints when it is ready is one for browsers; its sessions are at a path of their own. */
function toSessionUrl(text: unknown): unknown {
  const url = typeof text === "string" ? URL.parse(text) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) return text;
  url.protocol = url.protocol === "http:" ? "ws:" : "wss:";
  if (url.pathname === "/") url.pathname = "/ws/worker";
  return url.href;
}

function findUrlProblem(text: unknown): string | null {
  const url = typeof text === "string" ? URL.parse(text) : null;
  if (url === null || (url.protocol !== "ws:" && url.protocol !== "wss:")) return urlProblem;
  if (url.hash !== "") return "must not have a fragment (#...)";
  if (url.username !== "" || url.password !== "") return "must not carry a user or password; the token has its own setting";
  return null;
}

export function readHostPort(given: unknown): { readonly host: string; readonly port: number } | SettingProblem {
  const [, host = "", port = ""] = typeof given === "string" ? (/^(.+):(\d{1,5})$/.exec(given.trim()) ?? []) : [];
  if (host === "" || Number(port) > 65_535) return new SettingProblem("must be HOST:PORT, such as 127.0.0.1:9464 or [::1]:0");
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(port) };
}

export function readList(given: unknown): readonly string[] | SettingProblem {
  const isJson = typeof given === "string" && given.trim().startsWith("[");
  const list: unknown = isJson ? parseJson(given) : typeof given === "string" ? given.split(",").map((one) => one.trim()) : given;
  const isValid = Array.isArray(list) && list.every((one) => typeof one === "string" && one !== "" && one.length <= 256);
  return isValid ? list : new SettingProblem('must be a list of words: ["a","b"] or a,b');
}

export const readLimits = jsonMap<number>((value) => Number.isInteger(value) && (value as number) > 0, "whole numbers above 0");
export const readTags = jsonMap<string>((value) => typeof value === "string", "texts");

function jsonMap<T>(isValid: (value: unknown) => boolean, expected: string) {
  return (given: unknown): Readonly<Record<string, T>> | SettingProblem => {
    const map: unknown = typeof given === "string" ? parseJson(given) : given;
    const isMap = isRecord(map) && Object.values(map).every(isValid);
    return isMap ? (map as Record<string, T>) : new SettingProblem(`must be a JSON object whose values are ${expected}`);
  };
}

/** On the command line only the place of the token may stand. */
export function readToken(given: unknown, origin: SettingOrigin, sources: WorkerSettingSources): string | SettingProblem {
  if (origin !== "flag" || typeof given !== "string") return readText(given);
  try {
    const token = readSecretArgument(given, { ...sources, publicToken: publicDevToken });
    if (token !== null) return readText(token);
  } catch (cause) {
    return new SettingProblem(`cannot be read: ${errorMessage(cause)}`);
  }
  return new SettingProblem(
    "shows the secret to everyone who can list processes; pass @FILE, - for stdin, or set ASTRA_WORKER_AUTH_TOKEN",
  );
}

/** `scheduler`, or a file, which is read once: a key that was added or taken away there counts from the next start. */
export function readKeyFile(
  given: unknown,
  _: SettingOrigin,
  sources: WorkerSettingSources,
): TrustedKeys | "scheduler" | SettingProblem {
  const file = readText(given);
  if (typeof file !== "string") return file;
  if (file === "scheduler") return file;
  try {
    const keys = readTrustedKeys(sources.readFile(file));
    return keys instanceof Fault ? new SettingProblem(`names ${file}, which ${keys.message}`) : keys;
  } catch (cause) {
    return new SettingProblem(`names ${file}, which cannot be read: ${errorMessage(cause)}`);
  }
}
type TrustedKeys = InstallSettings["trustedKeys"];

export function readOrigins(given: unknown): readonly string[] | SettingProblem {
  const list = readList(given);
  if (list instanceof SettingProblem) return list;
  const isOrigin = (text: string) => /^https?:/.test(text) && URL.parse(text)?.origin === text.replace(/\/$/, "");
  const wrong = list.find((text) => !isOrigin(text));
  return wrong === undefined
    ? list.map((text) => text.replace(/\/$/, ""))
    : new SettingProblem("must be a list of origins, such as https://packages.example.com");
}

/** Left to its default the folder may be missing: a worker without packages can still join. */
export function readPackagesDir(given: unknown, _: SettingOrigin, sources: WorkerSettingSources): string | SettingProblem {
  const dir = readText(given);
  return typeof dir !== "string" || sources.isDirectory(dir)
    ? dir
    : new SettingProblem(`names ${dir}, which is no folder; make it, or correct the path`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON is not a list and not a map: the caller reports what it must be.
    return undefined;
  }
}
