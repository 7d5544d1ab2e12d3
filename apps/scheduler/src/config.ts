// The scheduler's configuration: the words of setting-sources.ts judged together and made into one frozen object, or all that is
// wrong with them at once. Nothing is opened or written here; token files are read through the given reader.

import { resolve } from "node:path";
import { type Failpoint, readFailpoints } from "./failpoints.ts";
import { gatherSettings, type Sources } from "./setting-sources.ts";
import {
  type Address,
  flagOf,
  type LogLevel,
  Refusal,
  type Settings,
  settingKeys,
  settingTable,
  type TokenSetting,
  variableOf,
} from "./setting-table.ts";
import { readStorePlace, type StorePlace } from "./store-place.ts";

export interface Token {
  readonly name: string;
  readonly tenant: string;
  readonly secret: string;
}

export interface Config {
  readonly listen: Address;
  readonly dataDir: string;
  readonly store: StorePlace;
  readonly isDev: boolean;
  readonly tokens: readonly Token[];
  readonly threads: number;
  readonly graceMs: number;
  readonly heartbeatMs: number;
  readonly leaseMs: number;
  readonly ackDeadlineMs: number;
  readonly logLevel: LogLevel;
  readonly cluster: string;
  /** Null: the one that is kept in the data folder. */
  readonly replica: string | null;
  readonly turnsInFlight: number;
  readonly timeScale: number;
  readonly failpoints: readonly Failpoint[];
}

export type ConfigAnswer =
  | { readonly type: "start"; readonly config: Config }
  | { readonly type: "help" | "version" }
  | { readonly type: "refused"; readonly problems: readonly string[] };

/** No secret at all: it is printed in the documentation, so it opens nothing outside of --dev. */
export const devToken: Token = { name: "dev", tenant: "default", secret: "dev-token" };

/** A sqlite file has one scheduler, so any name will do, and this one is in the files that exist. */
const replicaAlone = "one";

/** Shorter than this a secret can be guessed over the network in the life of an installation. */
const secretCharsMin = 16;

export function readConfig(sources: Sources): ConfigAnswer {
  const gathered = gatherSettings(sources);
  if (gathered.wants !== "start") return { type: gathered.wants };
  const problems = [...gathered.problems];
  const settings = Object.fromEntries(
    settingKeys.map((key) => [key, gathered.values.get(key) ?? settingTable[key].fallback]),
  ) as Settings;

  const tokens = readTokens(settings, sources, problems);
  checkReach(settings, problems);
  checkTimes(settings, problems);
  if (settings.threads > 1) problems.push("--threads is above 1, but a scheduler has one engine thread; write 0 or 1.");
  if (settings.respListen !== "") {
    problems.push(
      "--resp-listen cannot be used yet: this version has no RESP door; leave it out. Workers and REST callers use --listen.",
    );
  }
  const store = readStore(settings, problems);
  const failpoints = readFailpoints(sources.env["ASTRA_FAILPOINTS"] ?? "");
  problems.push(...failpoints.problems);
  if (problems.length > 0 || store === null) return { type: "refused", problems };

  const config: Config = {
    listen: settings.listen,
    dataDir: resolve(settings.dataDir),
    store,
    isDev: settings.dev,
    tokens: settings.dev ? [devToken, ...tokens] : tokens,
    threads: settings.threads,
    graceMs: settings.grace,
    heartbeatMs: settings.heartbeat,
    leaseMs: settings.lease,
    ackDeadlineMs: settings.ackDeadline,
    logLevel: settings.logLevel,
    cluster: settings.cluster,
    replica: settings.replica || (store.of === "sqlite" ? replicaAlone : null),
    turnsInFlight: store.of === "sqlite" ? 1 : settings.turnsInFlight,
    timeScale: settings.timeScale,
    failpoints: failpoints.points,
  };
  return { type: "start", config: freezeDeep(config) };
}

function checkReach(settings: Settings, problems: string[]): void {
  if (isLoopback(settings.listen.host)) return;
  if (settings.dev) {
    problems.push(
      `--dev accepts a token that everybody knows, so it may only listen on loopback, not on ${settings.listen.host}; use --listen 127.0.0.1:${settings.listen.port}, or drop --dev and give a --token.`,
    );
  } else if (!settings.unsafePlaintext) {
    problems.push(
      `--listen ${settings.listen.host} can be reached by other machines and nothing is encrypted there; put a TLS proxy in front of 127.0.0.1, or add --unsafe-plaintext if the network is trusted.`,
    );
  }
}

/** Loopback by its spelling alone: a name that has to be resolved may be anything tomorrow. */
function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

function checkTimes(settings: Settings, problems: string[]): void {
  if (settings.lease < settings.heartbeat * 2) {
    problems.push(
      `--lease ${settings.lease} is shorter than two heartbeats (${settings.heartbeat} ms each), so one late heartbeat would take a healthy worker's work away; make it at least ${settings.heartbeat * 2}.`,
    );
  }
  if (settings.timeScale !== 1 && !settings.dev)
    problems.push("--time-scale bends time for tests and needs --dev; leave it out.");
}

function readStore(settings: Settings, problems: string[]): StorePlace | null {
  const place = readStorePlace(settings.store, settings.dataDir);
  if (!(place instanceof Refusal)) return place;
  problems.push(`--store ${place.reason}.`);
  return null;
}

function readTokens(settings: Settings, sources: Sources, problems: string[]): readonly Token[] {
  const tokens = settings.token.flatMap((given) => {
    const secret = readSecret(given, sources, problems);
    return secret === null ? [] : [{ name: given.name, tenant: given.tenant, secret }];
  });
  for (const token of tokens) {
    if (token.secret === devToken.secret && !settings.dev) {
      problems.push(
        `The token "${token.name}" is the well-known dev-token, which works only with --dev; make a secret, for example: openssl rand -hex 32.`,
      );
    } else if (token.secret.length < secretCharsMin && !settings.dev) {
      problems.push(
        `The token "${token.name}" has fewer than ${secretCharsMin} characters and could be guessed; make one with: openssl rand -hex 32.`,
      );
    }
  }
  const twice = tokens.find((token, at) => tokens.findIndex((other) => other.secret === token.secret) < at);
  if (twice) problems.push(`The token "${twice.name}" has the same secret as another one; give each its own.`);
  if (settings.token.length === 0 && !settings.dev) {
    problems.push(
      "No caller could get in: there is no token. Write a secret into a file and start with --token NAME=@FILE, or try it out on this machine with --dev.",
    );
  }
  return tokens;
}

function readSecret(given: TokenSetting, sources: Sources, problems: string[]): string | null {
  if (given.file === null) return given.secret;
  try {
    const secret = sources.readFile(given.file).trim();
    if (secret !== "" && !/\s/.test(secret)) return secret;
    problems.push(`The file ${given.file} of token "${given.name}" must hold one secret without spaces and nothing else.`);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    problems.push(`The file of token "${given.name}" cannot be read (${why}); correct the path after --token ${given.name}=@.`);
  }
  return null;
}

export function describeSettings(): string {
  const rows: [string, string][] = settingKeys.map((key) => [
    `${flagOf(key)}${settingTable[key].word ? ` ${settingTable[key].word}` : ""}`,
    settingTable[key].help,
  ]);
  rows.push(["--config FILE", "the same settings as a JSON object, by name; flags and environment win"]);
  const width = Math.max(...rows.map(([flag]) => flag.length));
  return [
    "astra scheduler: takes work, finds the worker that can do it, and loses nothing.",
    "",
    "  astra scheduler --dev",
    "  astra scheduler --listen 127.0.0.1:0 --data-dir /var/lib/astra --token ops=@/etc/astra/ops.token",
    "  astra scheduler --config scheduler.json",
    "  ASTRA_SCHEDULER_STORE=postgres://astra:SECRET@db.internal:5432/astra astra scheduler --token ops=@/etc/astra/ops.token",
    "",
    ...rows.map(([flag, help]) => `  ${flag.padEnd(width)}  ${help}`),
    "",
    `Each setting is also an environment variable, like ${variableOf("dataDir")}.`,
  ].join("\n");
}

function freezeDeep<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) freezeDeep(inner);
    Object.freeze(value);
  }
  return value;
}
