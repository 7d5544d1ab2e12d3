// The scheduler's configuration: all settings read and checked together, as one frozen object, or as the list of all problems.
// Nothing is opened or written here. Token files are read through the given reader; TLS files when they are used (tls-credentials.ts).

import { join, resolve } from "node:path";
import { defaultSettings, type TenantSettings } from "@astraflow/engine";
import type { RetentionPolicy } from "@astraflow/services";
import {
  deepFreeze,
  formatSettingsHelp,
  isLoopbackHost,
  readSettings,
  type SettingGrammar,
  SettingProblem,
  type SettingSources,
} from "@astraflow/settings";
import { type Failpoint, parseFailpoints } from "../platform/failpoints.ts";
import { type AccessToken, type AdminPassword, devToken, readAdminPasswords, readTokens } from "./secrets.ts";
import { type GivenSettings, settingTable, variablePrefix } from "./setting-table.ts";
import { parseStoreAddress, type StoreAddress } from "./store-address.ts";
import {
  findLeaseProblems,
  findRetentionProblems,
  flagNames,
  readTenants,
  type TenantConfig,
  tenantKeys,
} from "./tenant-settings.ts";

export interface TlsFilePaths {
  readonly certFile: string;
  readonly keyFile: string;
  readonly clientCaFile: string | null;
}

export type SchedulerConfig = Readonly<ReturnType<typeof buildConfig>>;

export type ConfigResult =
  | { readonly type: "start"; readonly config: SchedulerConfig }
  | { readonly type: "help" | "version" }
  | { readonly type: "refused"; readonly problems: readonly string[] };

/** A sqlite file has one scheduler, so any name will do, and this one is in the files that exist. */
const sqliteReplicaName = "one";

/** Keys that come and go in the life of one session token; the ring holds two more. */
const keysPerTokenMax = 6;

const grammar: SettingGrammar = {
  prefix: variablePrefix,
  configVariable: `${variablePrefix}CONFIG`,
  requests: new Map([
    ["--help", "help"],
    ["-h", "help"],
    ["--version", "version"],
  ]),
  takesNextArgument: (next, isSwitch) => !isSwitch && !next.startsWith("--"),
  isEmptyVariableUnset: true,
  fileKey: (key) => key,
  normalizeKey: (key) => key,
  unreadKeys: ["tenants"],
  fileValues: "text",
  sentences: {
    unknownFlag: (flag, hint) => `There is no flag ${flag}${hint || "."} See astra scheduler --help.`,
    // It may be an address with a password in it.
    unexpectedArgument: (argument, hint) =>
      `"${argument.replace(/:\/\/.*/s, "://…")}" is not expected here; settings are given as flags${hint || "."} See astra scheduler --help.`,
    missingValue: (flag, valueName) => `${flag} needs a value (${flag} ${valueName}).`,
    givenTwice: (flag) => `${flag} is given twice; keep one.`,
    unknownVariable: (name, hint) => `There is no setting ${name}${hint || "; unset it."}`,
    unknownKey: (name, hint) => `There is no setting ${name}${hint || "; remove it."}`,
    unreadableFile: (file, reason) =>
      `The configuration file ${file} cannot be read (${reason}); correct it or leave --config out.`,
    notAnObject: (file) =>
      `The configuration file ${file} must hold one JSON object with settings by name, like {"logLevel": "warn"}.`,
    keyInFile: (key, file) => `"${key}" in ${file}`,
    wrongFileValue: (name, isList) => `${name} must be one text, number or boolean${isList ? ", or a list of them" : ""}.`,
    invalidValue: (name, reason) => `${name} ${reason}.`,
  },
};

export function readConfig(sources: SettingSources): ConfigResult {
  const { request, values: settings, unread, problems: readProblems } = readSettings(settingTable, grammar, sources);
  if (request === "help" || request === "version") return { type: request };
  const thresholds = thresholdsOf(settings);
  const { tokens, problems: tokenProblems } = readTokens(settings.token, { isDev: settings.dev, readFile: sources.readFile });
  const { admins, problems: adminProblems } = readAdminPasswords(settings.adminPasswordFile, sources);
  const retention = retentionOf(settings);
  const { tenants, problems: tenantProblems } = readTenants(unread["tenants"], { thresholds, retention });
  const store = parseStoreAddress(settings.store, settings.dataDir);
  const failpoints = parseFailpoints(sources.env["ASTRA_FAILPOINTS"] ?? "");
  const problems = [
    ...readProblems,
    ...tokenProblems,
    ...adminProblems,
    ...findLeaseProblems(thresholds, flagNames),
    ...findRetentionProblems(retention, "--retain-audit"),
    ...tenantProblems,
    ...findConflicts(settings, tenants),
    ...(store instanceof SettingProblem ? [`--store ${store.reason}.`] : []),
    ...failpoints.problems,
  ];
  if (problems.length > 0 || store instanceof SettingProblem) return { type: "refused", problems };

  const config = buildConfig(settings, { store, thresholds, retention, tokens, admins, tenants, failpoints: failpoints.points });
  return { type: "start", config: deepFreeze(config) };
}

/** What environment and file say, whatever else is missing there; for those who look at a store without a scheduler. */
export const readRetention = (sources: Pick<SettingSources, "env" | "readFile">): RetentionPolicy =>
  retentionOf(readSettings(settingTable, grammar, { ...sources, argv: [] }).values);

interface ReadParts {
  readonly store: StoreAddress;
  readonly thresholds: TenantSettings;
  readonly retention: RetentionPolicy;
  readonly tokens: readonly AccessToken[];
  readonly admins: readonly AdminPassword[];
  readonly tenants: Readonly<Record<string, TenantConfig>>;
  readonly failpoints: readonly Failpoint[];
}

const buildConfig = (settings: GivenSettings, { store, tokens, ...parts }: ReadParts) => ({
  /** Thresholds, what is kept how long, first users by tenant, settings of single tenants, failpoints. */
  ...parts,
  listen: settings.listen,
  /** Null: nothing is encrypted. */
  tls: tlsOf(settings),
  /** Of the certificates that workers may show; null where none are asked for. */
  trustDomain: settings.trustDomain || null,
  dataDir: resolve(settings.dataDir),
  store,
  isDev: settings.dev,
  /** As they are at the start. */
  tokens: settings.dev ? [devToken, ...tokens] : tokens,
  /** Where they come from, to look again. */
  tokenSettings: settings.token,
  userTokenMs: settings.userToken,
  blobDir: resolve(settings.blobDir || join(settings.dataDir, "blobs")),
  /** Origins whose pages may use the API from a browser. */
  corsOrigins: settings.corsOrigin,
  /** Proxies whose X-Forwarded-For counts. */
  trustedProxies: settings.trustedProxy,
  httpConnectionsMax: settings.httpConnections,
  answerTimeoutMs: settings.answerTimeout,
  /** Origins that packages may be installed from although they are not public https addresses. */
  packageOrigins: settings.packageOrigin,
  allowsUnsignedPackages: settings.packageUnsigned,
  /** For tenants without one of their own. */
  packageKeep: settings.packageKeep,
  isPackageOnDemand: settings.packageOnDemand,
  /** Empty: unknown. */
  publicUrl: settings.publicUrl,
  sessionTokenMs: settings.sessionToken,
  sessionKeyAgeMs: settings.sessionKeyAge,
  threads: settings.threads,
  graceMs: settings.grace,
  /** Null: by what the worker can. */
  sendWindow: settings.sendWindow || null,
  recvWindow: settings.recvWindow || null,
  ackDeadlineMs: settings.ackDeadline,
  attemptLimits: {
    attemptTimeoutMs: settings.attemptTimeout || null,
    silentGraceMs: settings.silentGrace,
    unstoppedSlotMs: settings.unstoppedSlot,
  },
  packageDeadlineMs: settings.packageDeadline,
  logLevel: settings.logLevel,
  cluster: settings.cluster,
  /** Null: the one that is kept in the data folder. */
  replica: settings.replica || (store.of === "sqlite" ? sqliteReplicaName : null),
  turnsInFlight: store.of === "sqlite" ? 1 : settings.turnsInFlight,
  /** For tenants without one of their own. */
  schemaMode: settings.schemaMode,
  timeScale: settings.timeScale,
});

function thresholdsOf(settings: GivenSettings): TenantSettings {
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

const retentionOf = (
  settings: Pick<GivenSettings, "retainRuns" | "retainRunsMax" | "retainKeys" | "retainWorkers" | "retainAudit">,
): RetentionPolicy => ({
  runsMs: settings.retainRuns,
  runsMax: settings.retainRunsMax,
  keysMs: settings.retainKeys,
  workersMs: settings.retainWorkers,
  auditMs: settings.retainAudit,
});

function tlsOf({ tlsCert, tlsKey, clientCa }: GivenSettings): TlsFilePaths | null {
  if (tlsCert === "") return null;
  return { certFile: resolve(tlsCert), keyFile: resolve(tlsKey), clientCaFile: clientCa === "" ? null : resolve(clientCa) };
}

/** Settings that cannot be used together, each with a way out. */
function findConflicts(settings: GivenSettings, tenants: Readonly<Record<string, TenantConfig>>): string[] {
  const { listen, dev, token, tlsCert, tlsKey, clientCa, trustDomain, sessionToken, sessionKeyAge } = settings;
  const isReachable = !isLoopbackHost(listen.host);
  const demanding = Object.entries(tenants).find(([, { isCertificateRequired }]) => isCertificateRequired)?.[0];
  const rules: readonly (readonly [isBroken: boolean, problem: string])[] = [
    [
      token.length === 0 && !dev,
      "No token is configured, so nobody could connect. Write a secret into a file and start with --token NAME=@FILE, or try it out on this machine with --dev.",
    ],
    [
      isReachable && dev,
      `--dev accepts a token that everybody knows, so it may only listen on loopback, not on ${listen.host}; use --listen 127.0.0.1:${listen.port}, or drop --dev and give a --token.`,
    ],
    [
      isReachable && !dev && tlsCert === "" && !settings.insecureListen,
      `--listen ${listen.host} can be reached by other machines and nothing is encrypted there; give --tls-cert and --tls-key, put a TLS proxy in front of 127.0.0.1, or add --insecure-listen if the network is trusted.`,
    ],
    [
      (tlsCert === "") !== (tlsKey === ""),
      `${tlsCert === "" ? "--tls-key" : "--tls-cert"} is given alone; a certificate and its key go together.`,
    ],
    [
      clientCa !== "" && tlsCert === "",
      "--client-ca asks workers for certificates, which only TLS can carry; give --tls-cert and --tls-key too.",
    ],
    [trustDomain !== "" && clientCa === "", "--trust-domain needs --client-ca."],
    [clientCa !== "" && trustDomain === "", "--client-ca needs --trust-domain, the SPIFFE trust domain of worker certificates."],
    [
      demanding !== undefined && clientCa === "",
      `"requireCertificate" of tenant "${demanding}" would let none of its workers in, because none are asked for a certificate; give --client-ca.`,
    ],
    [
      sessionToken > sessionKeyAge * keysPerTokenMax,
      `--session-key-age ${sessionKeyAge} is far shorter than --session-token ${sessionToken}, so more keys would be in use at once than are kept; make it at least ${Math.ceil(sessionToken / keysPerTokenMax)}.`,
    ],
    [settings.timeScale !== 1 && !dev, "--time-scale is for tests and needs --dev."],
    [settings.threads > 1, "--threads is above 1, but a scheduler has one engine thread; write 0 or 1."],
    [
      settings.respListen !== "",
      "--resp-listen cannot be used yet: this version has no RESP server; leave it out. Workers and REST callers use --listen.",
    ],
  ];
  return rules.filter(([isBroken]) => isBroken).map(([, problem]) => problem);
}

export function describeSettings(): string {
  return [
    "astra scheduler: takes work, finds the worker that can do it, and loses nothing.",
    "",
    "  astra scheduler --dev",
    "  astra scheduler --listen 127.0.0.1:0 --data-dir /var/lib/astra --token ops=@/etc/astra/ops.token",
    "  astra scheduler --config scheduler.json",
    "  ASTRA_SCHEDULER_STORE=postgres://astra:SECRET@db.internal:5432/astra astra scheduler --token ops=@/etc/astra/ops.token",
    "",
    ...formatSettingsHelp(settingTable, variablePrefix),
    `  --config FILE, ${grammar.configVariable}`,
    "      JSON file with the same settings by name, such as dataDir",
    "  --version",
    "      print the version",
    "",
    "Flags win over the environment, that over the file.",
    "Files of tokens and certificates are read again when they change, and on SIGHUP. In the file of --config, `tenants` holds",
    `settings of single tenants: {"tenants": {"acme": {"lease": 60000, "requireCertificate": true}}}; ${tenantKeys.join(", ")}.`,
  ].join("\n");
}
