// The scheduler's configuration: the words of setting-sources.ts judged together and made into one frozen object, or all that is
// wrong with them at once. Nothing is opened or written here; token files are read through the given reader,
// those of TLS when they are used (tls-credentials.ts).

import { join, resolve } from "node:path";
import { defaultSettings, type TenantSettings } from "@astraflow/engine";
import { type Failpoint, parseFailpoints } from "../platform/failpoints.ts";
import { type AdminPassword, readAdminPasswords } from "./admin-passwords.ts";
import { type Address, type LogLevel, Refusal, type TokenSetting } from "./setting-readers.ts";
import { gatherSettings, type Sources } from "./setting-sources.ts";
import { flagOf, type SchedulerSettings, settingKeys, settingTable, variableOf } from "./setting-table.ts";
import { parseStoreAddress, type StoreAddress } from "./store-address.ts";
import { findLeaseProblems, flagNames, readTenants, type TenantConfig, tenantKeys } from "./tenant-settings.ts";
import { type AccessToken, devToken, readTokens } from "./token-files.ts";

export interface TlsFilePaths {
  readonly certFile: string;
  readonly keyFile: string;
  readonly clientCaFile: string | null;
}

export interface SchedulerConfig {
  readonly listen: Address;
  /** Null: nothing is encrypted. */
  readonly tls: TlsFilePaths | null;
  /** Of the certificates that workers may show; null where none are asked for. */
  readonly trustDomain: string | null;
  readonly dataDir: string;
  readonly store: StoreAddress;
  readonly isDev: boolean;
  /** As they are at the start. */
  readonly tokens: readonly AccessToken[];
  /** Where they come from, to look again. */
  readonly tokenSettings: readonly TokenSetting[];
  /** First users, by tenant. */
  readonly admins: readonly AdminPassword[];
  readonly userTokenMs: number;
  readonly blobDir: string;
  readonly sessionTokenMs: number;
  readonly sessionKeyAgeMs: number;
  readonly threads: number;
  readonly graceMs: number;
  readonly thresholds: TenantSettings;
  /** Null: by what the worker can. */
  readonly sendWindow: number | null;
  readonly recvWindow: number | null;
  readonly tenants: Readonly<Record<string, TenantConfig>>;
  readonly ackDeadlineMs: number;
  readonly logLevel: LogLevel;
  readonly cluster: string;
  /** Null: the one that is kept in the data folder. */
  readonly replica: string | null;
  readonly turnsInFlight: number;
  readonly timeScale: number;
  readonly failpoints: readonly Failpoint[];
}

export type ConfigResult =
  | { readonly type: "start"; readonly config: SchedulerConfig }
  | { readonly type: "help" | "version" }
  | { readonly type: "refused"; readonly problems: readonly string[] };

/** A sqlite file has one scheduler, so any name will do, and this one is in the files that exist. */
const sqliteReplicaName = "one";

/** Keys that come and go in the life of one session token; the ring holds two more. */
const keysPerTokenMax = 6;

export function readConfig(sources: Sources): ConfigResult {
  const gathered = gatherSettings(sources);
  if (gathered.wants !== "start") return { type: gathered.wants };
  const problems = [...gathered.problems];
  const settings = Object.fromEntries(
    settingKeys.map((key) => [key, gathered.values.get(key) ?? settingTable[key].fallback]),
  ) as SchedulerSettings;

  const { tokens, problems: tokenProblems } = readTokens(settings.token, { isDev: settings.dev, readFile: sources.readFile });
  problems.push(...tokenProblems);
  if (settings.token.length === 0 && !settings.dev) {
    problems.push(
      "No caller could get in: there is no token. Write a secret into a file and start with --token NAME=@FILE, or try it out on this machine with --dev.",
    );
  }
  const { admins, problems: adminProblems } = readAdminPasswords(settings.adminPasswordFile, sources);
  problems.push(...adminProblems);
  const thresholds = thresholdsOf(settings);
  problems.push(...findLeaseProblems(thresholds, flagNames));
  const tenants = gathered.tenants === undefined ? {} : readTenants(gathered.tenants, thresholds, problems);
  checkListenAddress(settings, problems);
  checkTls(settings, tenants, problems);
  if (settings.sessionToken > settings.sessionKeyAge * keysPerTokenMax) {
    problems.push(
      `--session-key-age ${settings.sessionKeyAge} is far shorter than --session-token ${settings.sessionToken}, so more keys would be in use at once than are kept; make it at least ${Math.ceil(settings.sessionToken / keysPerTokenMax)}.`,
    );
  }
  if (settings.timeScale !== 1 && !settings.dev)
    problems.push("--time-scale bends time for tests and needs --dev; leave it out.");
  if (settings.threads > 1) problems.push("--threads is above 1, but a scheduler has one engine thread; write 0 or 1.");
  if (settings.respListen !== "") {
    problems.push(
      "--resp-listen cannot be used yet: this version has no RESP door; leave it out. Workers and REST callers use --listen.",
    );
  }
  const store = parseStoreSetting(settings, problems);
  const failpoints = parseFailpoints(sources.env["ASTRA_FAILPOINTS"] ?? "");
  problems.push(...failpoints.problems);
  if (problems.length > 0 || store === null) return { type: "refused", problems };

  const config: SchedulerConfig = {
    listen: settings.listen,
    tls: tlsOf(settings),
    trustDomain: settings.trustDomain || null,
    dataDir: resolve(settings.dataDir),
    store,
    isDev: settings.dev,
    tokens: settings.dev ? [devToken, ...tokens] : tokens,
    tokenSettings: settings.token,
    admins,
    userTokenMs: settings.userToken,
    blobDir: resolve(settings.blobDir || join(settings.dataDir, "blobs")),
    sessionTokenMs: settings.sessionToken,
    sessionKeyAgeMs: settings.sessionKeyAge,
    threads: settings.threads,
    graceMs: settings.grace,
    thresholds,
    sendWindow: settings.sendWindow || null,
    recvWindow: settings.recvWindow || null,
    tenants,
    ackDeadlineMs: settings.ackDeadline,
    logLevel: settings.logLevel,
    cluster: settings.cluster,
    replica: settings.replica || (store.of === "sqlite" ? sqliteReplicaName : null),
    turnsInFlight: store.of === "sqlite" ? 1 : settings.turnsInFlight,
    timeScale: settings.timeScale,
    failpoints: failpoints.points,
  };
  return { type: "start", config: freezeDeep(config) };
}

function thresholdsOf(settings: SchedulerSettings): TenantSettings {
  return {
    quietHeartbeatMs: defaultSettings.quietHeartbeatMs,
    quietLeaseMs: defaultSettings.quietLeaseMs,
    heartbeatMs: settings.heartbeat,
    leaseMs: settings.lease,
    drainMemPct: settings.drainMemory,
    drainDiskPct: settings.drainDisk,
    saturatedMs: settings.saturated,
  };
}

function tlsOf({ tlsCert, tlsKey, clientCa }: SchedulerSettings): TlsFilePaths | null {
  if (tlsCert === "") return null;
  return { certFile: resolve(tlsCert), keyFile: resolve(tlsKey), clientCaFile: clientCa === "" ? null : resolve(clientCa) };
}

function checkListenAddress(settings: SchedulerSettings, problems: string[]): void {
  if (isLoopback(settings.listen.host)) return;
  if (settings.dev) {
    problems.push(
      `--dev accepts a token that everybody knows, so it may only listen on loopback, not on ${settings.listen.host}; use --listen 127.0.0.1:${settings.listen.port}, or drop --dev and give a --token.`,
    );
  } else if (settings.tlsCert === "" && !settings.insecureListen) {
    problems.push(
      `--listen ${settings.listen.host} can be reached by other machines and nothing is encrypted there; give --tls-cert and --tls-key, put a TLS proxy in front of 127.0.0.1, or add --insecure-listen if the network is trusted.`,
    );
  }
}

function checkTls(settings: SchedulerSettings, tenants: Readonly<Record<string, TenantConfig>>, problems: string[]): void {
  const { tlsCert, tlsKey, clientCa, trustDomain } = settings;
  if ((tlsCert === "") !== (tlsKey === ""))
    problems.push(`${tlsCert === "" ? "--tls-key" : "--tls-cert"} is given alone; a certificate and its key go together.`);
  if (clientCa !== "" && tlsCert === "")
    problems.push("--client-ca asks workers for certificates, which only TLS can carry; give --tls-cert and --tls-key too.");
  if ((clientCa === "") !== (trustDomain === ""))
    problems.push(
      clientCa === ""
        ? "--trust-domain says which certificates of workers are ours, but none are asked for; give --client-ca too."
        : "--client-ca needs --trust-domain: it says whose names in the certificates are ours.",
    );
  const demanding = Object.entries(tenants).find(([, { isCertificateRequired }]) => isCertificateRequired)?.[0];
  if (demanding !== undefined && clientCa === "")
    problems.push(
      `"requireCertificate" of tenant "${demanding}" would let none of its workers in, because none are asked for a certificate; give --client-ca.`,
    );
}

/** Loopback by its spelling alone: a name that has to be resolved may be anything tomorrow. */
function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

function parseStoreSetting(settings: SchedulerSettings, problems: string[]): StoreAddress | null {
  const address = parseStoreAddress(settings.store, settings.dataDir);
  if (!(address instanceof Refusal)) return address;
  problems.push(`--store ${address.reason}.`);
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
    "Files of tokens and certificates are read again when they change, and on SIGHUP. In the file of --config, `tenants` holds",
    `settings of single tenants: {"tenants": {"acme": {"lease": 60000, "requireCertificate": true}}}; ${tenantKeys.join(", ")}.`,
  ].join("\n");
}

function freezeDeep<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) freezeDeep(inner);
    Object.freeze(value);
  }
  return value;
}
