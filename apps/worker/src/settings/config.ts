// From flags, environment and file to one frozen config, or to all problems at once: also settings that are valid one by one but not together,
// and those that would send secrets over a network unencrypted.

import type { WorkerIdentity } from "@astraflow/runtime";
import { deepFreeze, isLoopbackHost, readSettings, type SettingGrammar } from "@astraflow/settings";
import { publicDevToken, type WorkerSettingSources } from "./setting-readers.ts";
import { configVariable, variablePrefix, type WorkerSettingValues, workerSettings } from "./setting-table.ts";

type AuthMode = WorkerSettingValues["AUTH_MODE"];
export type WorkerConfig = ReturnType<typeof buildConfig>;

export type WorkerConfigResult =
  /** `warnings`: settings that were given and have no effect here. */
  | { readonly config: WorkerConfig; readonly warnings: readonly string[]; readonly wantsCheck: boolean }
  | { readonly problems: readonly string[]; readonly wantsCheck: boolean }
  | { readonly wantsHelp: true };

const grammar: SettingGrammar = {
  prefix: variablePrefix,
  configVariable,
  requests: new Map([
    ["--help", "help"],
    ["-h", "help"],
    ["--check", "check"],
  ]),
  takesNextArgument: (next, isSwitch) => !isSwitch || next === "true" || next === "false",
  isEmptyVariableUnset: false,
  fileKey: (key) => key.toLowerCase(),
  /** scheduler_ws_url, schedulerWsUrl and SCHEDULER_WS_URL are one key. */
  normalizeKey: (key) => key.toLowerCase().replace(/[-_]/g, ""),
  unreadKeys: [],
  fileValues: "json",
  sentences: {
    unknownFlag: (flag, hint) => `${flag} is not a flag of this command${hint}`,
    unexpectedArgument: (argument) => `${argument} is not expected here`,
    missingValue: (flag) => `${flag} needs a value`,
    givenTwice: null,
    unknownVariable: (name, hint) => `${name} is not a setting of the worker${hint}`,
    unknownKey: (name, hint) => `${name} is not a setting of the worker${hint}`,
    unreadableFile: (file, reason) => `the config file ${file} cannot be read: ${reason}`,
    notAnObject: (file) => `the config file ${file} must hold a JSON object`,
    keyInFile: (key, file) => `${key} in ${file}`,
    wrongFileValue: (name) => `${name} cannot be used`,
    invalidValue: (name, reason) => `${name} ${reason}`,
  },
};

export function readWorkerConfig(sources: WorkerSettingSources): WorkerConfigResult {
  const { request, values, origins, problems, warnings } = readSettings(workerSettings, grammar, sources);
  if (request === "help") return { wantsHelp: true };
  const wantsCheck = request === "check";
  if (problems.length > 0) return { problems, wantsCheck };
  const mode = resolveAuthMode(values, origins.has("AUTH_MODE"));
  const conflicts = findSettingConflicts(values, mode);
  if (conflicts.length > 0) return { problems: conflicts, wantsCheck };
  const token = origins.get("AUTH_TOKEN");
  const isTokenFile = token?.origin === "flag" && String(token.value).startsWith("@");
  const tokenFile = isTokenFile ? String(token.value).slice(1) : undefined;
  return { config: buildConfig(values, { hostname: sources.hostname, mode, tokenFile }), warnings, wantsCheck };
}

function findSettingConflicts(values: WorkerSettingValues, mode: AuthMode): string[] {
  const { AUTH_TOKEN, TLS_CERT, TLS_KEY, RECONNECT_BASE_DELAY_SECONDS: base, RECONNECT_MAX_DELAY_SECONDS: max } = values;
  const problems: string[] = [];
  if (mode === "token" && !AUTH_TOKEN) {
    problems.push(
      `no token is set: give --token @FILE or ${variablePrefix}AUTH_TOKEN (a scheduler started with --dev takes --token ${publicDevToken})`,
    );
  }
  if (mode === "mtls" && TLS_CERT === undefined) problems.push("mode mtls needs a certificate: give --tls-cert and --tls-key");
  if ((TLS_CERT === undefined) !== (TLS_KEY === undefined))
    problems.push("--tls-cert and --tls-key belong together; one is missing");
  problems.push(...findPlaintextUrls(values, mode), ...findExposedListener(values));
  if (values.WATCH_PACKAGES && (values.NODE_HOST !== "process" || values.THREADS !== 1))
    problems.push("--watch-packages needs --node-host process: code is imported again only by a new process");
  if (base > max) problems.push(`--reconnect-base-delay-seconds (${base}) is larger than --reconnect-max-delay-seconds (${max})`);
  return problems;
}

/** A worker with a certificate and no token authenticates with the certificate, unless the mode is given. */
function resolveAuthMode({ AUTH_MODE, TLS_CERT, AUTH_TOKEN }: WorkerSettingValues, isGiven: boolean): AuthMode {
  return !isGiven && TLS_CERT !== undefined && !AUTH_TOKEN ? "mtls" : AUTH_MODE;
}

/** Everybody on the way can read a token that is not encrypted. */
function findPlaintextUrls({ SCHEDULER_WS_URL, INSECURE_CONNECT }: WorkerSettingValues, mode: AuthMode): string[] {
  const plain = SCHEDULER_WS_URL.map((text) => new URL(text)).filter(({ protocol }) => protocol === "ws:");
  if (mode === "mtls") return plain.map(({ host }) => `ws://${host} cannot show a certificate; mode mtls needs wss://`);
  if (INSECURE_CONNECT) return [];
  return plain
    .filter(({ hostname }) => !isLoopbackHost(hostname))
    .map(
      ({ host }) =>
        `ws://${host} would carry the token over the network in the clear; use wss://, or add --insecure-connect if the network is trusted`,
    );
}

function findExposedListener({ METRICS_LISTEN: listen, INSECURE_LISTEN }: WorkerSettingValues): string[] {
  if (listen === undefined || isLoopbackHost(listen.host) || INSECURE_LISTEN) return [];
  return [
    `--metrics-listen ${listen.host} can be reached by other machines, unencrypted and without a token; use 127.0.0.1, or add --insecure-listen if the network is trusted`,
  ];
}

function buildConfig(
  values: WorkerSettingValues,
  { hostname, mode, tokenFile }: { hostname: string; mode: AuthMode; tokenFile: string | undefined },
) {
  const { AUTH_FINGERPRINT: fingerprint, CA: ca, TLS_CERT: cert, TLS_KEY: key } = values;
  const secret = mode === "token" ? { token: values.AUTH_TOKEN ?? "" } : { ...(fingerprint !== undefined && { fingerprint }) };
  const nodeHeapMbMax = values.HOST_MEMORY_MB ?? values.HEAP_MB;
  return deepFreeze({
    /** Replicas of one scheduler; each connection is to the next. */
    urls: values.SCHEDULER_WS_URL,
    tenant: values.TENANT,
    name: values.WORKER_NAME ?? hostname,
    /** Undefined: the one stored in the data directory. */
    instanceId: values.WORKER_INSTANCE_ID,
    auth: { mode, ...secret } as WorkerIdentity["auth"],
    /** The file that the token is read from at each handshake; undefined where it did not come from a file. */
    tokenFile,
    version: values.WORKER_VERSION,
    maxParallel: values.CONCURRENCY_MAX_PARALLEL,
    perNodeLimits: values.CONCURRENCY_PER_NODE_LIMITS,
    runtimes: values.RUNTIME_NAMES,
    features: values.FEATURE_FLAGS ?? [],
    pool: values.POOL,
    tags: values.TAGS,
    packagesDir: values.PACKAGES_DIR ?? `${values.DATA_DIR}/packages`,
    dataDir: values.DATA_DIR,
    packageInstalls: {
      trustedKeys: values.PACKAGE_KEYS === "scheduler" ? [] : (values.PACKAGE_KEYS ?? []),
      trustsRepository: values.PACKAGE_KEYS === "scheduler",
      allowsUnsigned: values.PACKAGE_UNSIGNED,
      origins: values.PACKAGE_ORIGINS ?? [],
      hookPackages: values.PACKAGE_HOOKS ?? [],
      wheelsDir: values.PACKAGE_WHEELS,
    },
    resources: {
      diskBytesMax: values.RESOURCE_MAX_DISK_BYTES,
      memBytesMax: values.RESOURCE_MAX_MEM_BYTES,
      gcIntervalMs: values.RESOURCE_GC_INTERVAL_SECONDS * 1_000,
      ttlMs: values.RESOURCE_DEFAULT_TTL_SECONDS * 1_000,
      inlineBytesMax: values.INLINE_RESULT_LIMIT_BYTES,
    },
    heartbeatMs: values.HEARTBEAT_INTERVAL_SECONDS * 1_000,
    acceptWaitMs: values.SESSION_ACCEPT_TIMEOUT_SECONDS * 1_000,
    window: values.SESSION_WINDOW_SIZE,
    backoff: {
      baseMs: values.RECONNECT_BASE_DELAY_SECONDS * 1_000,
      maxMs: values.RECONNECT_MAX_DELAY_SECONDS * 1_000,
      jitter: values.RECONNECT_JITTER,
    },
    endOnAuthError: values.RECONNECT_ABORT_ON_AUTH_ERROR,
    graceMs: values.GRACE_MS,
    tls: { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) },
    hasThread: values.THREADS === 1,
    heapMbMax: values.HEAP_MB,
    outputBytesMax: values.OUTPUT_LIMIT_MB * 1_024 ** 2,
    watchesPackages: values.WATCH_PACKAGES,
    hosts: {
      noticesEveryFile: values.WATCH_PACKAGES,
      hostsNode: values.NODE_HOST === "process" && values.THREADS === 1,
      python: values.PYTHON,
      execMode: values.EXEC_MODE_DEFAULT,
      parallelMax: values.CONCURRENCY_MAX_PARALLEL,
      cancelGraceMs: values.CANCEL_GRACE_SECONDS * 1_000,
      ...(values.HOST_MEMORY_MB !== undefined && { memoryMbMax: values.HOST_MEMORY_MB }),
      ...(nodeHeapMbMax !== undefined && { nodeHeapMbMax }),
      ...(values.HOST_CPU_SECONDS !== undefined && { cpuSecondsMax: values.HOST_CPU_SECONDS }),
    },
    drainMemoryPct: values.DRAIN_MEMORY ?? null,
    drainDiskPct: values.DRAIN_DISK ?? null,
    metricsListen: values.METRICS_LISTEN,
    logLevel: values.LOG_LEVEL,
  });
}
