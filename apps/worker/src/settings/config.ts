// From flags, environment and file to one frozen config, or to all problems at once. Flags win over the environment, that over the file.
// Nothing is written here, and only what the settings name is looked at; the table of settings is settings.ts.

import { didYouMean, Fault, limits, readJson } from "@astraflow/protocol";
import { type ResourceSettings, resourceDefaults } from "@astraflow/runtime";
import { readFirstSecret } from "../identity/token-file.ts";
import {
  defaultUrl,
  findSettingConflicts,
  publicDevToken,
  resolveAuthMode,
  type WorkerSettingValues,
} from "./setting-conflicts.ts";
import { readSetting, type SettingReadResult } from "./setting-reader.ts";
import { configFileSetting, envPrefix, type WorkerSettingName, workerFlagOf, workerSettings } from "./setting-table.ts";

export interface WorkerConfig {
  /** Replicas of one scheduler; each connection is to the next. */
  readonly urls: readonly string[];
  readonly tenant: string;
  readonly name: string;
  /** Undefined: kept in the data directory. */
  readonly instanceId: string | undefined;
  readonly auth: { readonly mode: "token" | "mtls"; readonly token?: string; readonly fingerprint?: string };
  /** Where the token was read from, and is read from again; undefined where it came otherwise. */
  readonly tokenFile: string | undefined;
  readonly version: string;
  readonly maxParallel: number;
  readonly perNodeLimits: Readonly<Record<string, number>> | undefined;
  readonly runtimes: readonly string[];
  readonly features: readonly string[];
  readonly pool: string | undefined;
  readonly tags: Readonly<Record<string, string>> | undefined;
  readonly packagesDir: string;
  readonly dataDir: string;
  /** What tasks may keep for later ones. */
  readonly resources: Omit<ResourceSettings, "workerName">;
  readonly heartbeatMs: number;
  readonly acceptWaitMs: number;
  readonly window: number;
  readonly backoff: { readonly baseMs: number; readonly maxMs: number; readonly jitter: number };
  readonly endOnAuthError: boolean;
  readonly graceMs: number;
  /** PEM files for wss://. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly hasThread: boolean;
  readonly heapMbMax: number | undefined;
  readonly drainMemoryPct: number | null;
  readonly drainDiskPct: number | null;
  readonly metricsListen: { readonly host: string; readonly port: number } | undefined;
  readonly logLevel: string;
}

export interface WorkerSettingSources {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  /** The text of a file, or why it cannot be read. */
  readonly readFile: (file: string) => string | Error;
  /** All of stdin. */
  readonly readInput: () => string | Error;
  readonly isDirectory: (dir: string) => boolean;
}

export type WorkerConfigResult =
  /** `remarks`: settings that were given and have no effect here. */
  | { readonly config: WorkerConfig; readonly warnings: readonly string[]; readonly wantsHelp: boolean }
  | { readonly problems: readonly string[] };

interface GivenSetting {
  readonly value: unknown;
  /** How its giver knows it: `--url`, `ASTRA_WORKER_SCHEDULER_WS_URL`, `scheduler_ws_url in worker.json`. */
  readonly origin: string;
  readonly isFlag?: boolean;
}

export function readWorkerConfig(sources: WorkerSettingSources): WorkerConfigResult {
  const problems: string[] = [];
  const flags = readFlags(sources.argv, problems);
  const env = readEnv(sources.env, problems);
  const file = readFileSettings(flags.file ?? env.file, sources, problems);
  const given = new Map<WorkerSettingName, GivenSetting>([...file, ...env.given, ...flags.given]);

  const values = new Map<WorkerSettingName, unknown>();
  const warnings: string[] = [];
  for (const setting of workerSettings) {
    const one = given.get(setting.name);
    if (one === undefined) continue;
    const read = readGivenSetting(setting, one, sources);
    if ("problem" in read) problems.push(`${one.origin} ${read.problem}`);
    else if ("without" in setting) warnings.push(`${one.origin} has no effect: ${setting.without}`);
    else values.set(setting.name, read.value);
  }
  if (problems.length === 0) problems.push(...findSettingConflicts(values));
  const config = buildConfig(values, { hostname: sources.hostname, tokenFile: findTokenFile(given.get("AUTH_TOKEN")) });
  if (flags.wantsHelp) return { config, warnings, wantsHelp: true };
  return problems.length > 0 ? { problems } : { config, warnings, wantsHelp: false };
}

/** What the table alone cannot say: where a secret may come from, and whether a folder is there. */
function readGivenSetting(
  setting: (typeof workerSettings)[number],
  { value, isFlag }: GivenSetting,
  sources: WorkerSettingSources,
): SettingReadResult {
  const isToken = setting.name === "AUTH_TOKEN" && isFlag === true && typeof value === "string";
  const token = isToken ? readTokenFlag(value, sources) : { value };
  const read = "problem" in token ? token : readSetting(setting, token.value);
  // Left to its default the folder may be missing: a worker without packages can still join.
  if (setting.name === "PACKAGES_DIR" && "value" in read && !sources.isDirectory(String(read.value)))
    return { problem: `names ${String(read.value)}, which is no folder; make it, or correct the path` };
  return read;
}

/** A command line is readable by everyone on the machine, so no secret is taken from it. */
function readTokenFlag(word: string, sources: WorkerSettingSources): SettingReadResult {
  if (word === publicDevToken) return { value: word };
  if (word !== "-" && !word.startsWith("@"))
    return {
      problem: `shows the secret to everyone who can list processes; pass @FILE, - for stdin, or set ${envPrefix}AUTH_TOKEN`,
    };
  const text = word === "-" ? sources.readInput() : sources.readFile(word.slice(1));
  return text instanceof Error ? { problem: `cannot be read: ${text.message}` } : { value: readFirstSecret(text) };
}

const findTokenFile = (given: GivenSetting | undefined): string | undefined =>
  given?.isFlag === true && typeof given.value === "string" && given.value.startsWith("@") ? given.value.slice(1) : undefined;

interface ConfigDefaults {
  readonly hostname: string;
  readonly tokenFile: string | undefined;
}

function buildConfig(values: WorkerSettingValues, { hostname, tokenFile }: ConfigDefaults): WorkerConfig {
  const get = <T>(name: WorkerSettingName, otherwise: T): T => (values.has(name) ? (values.get(name) as T) : otherwise);
  const maybe = <T>(name: WorkerSettingName): T | undefined => values.get(name) as T | undefined;
  const mode = resolveAuthMode(values);
  const fingerprint = maybe<string>("AUTH_FINGERPRINT");
  const secret = mode === "token" ? { token: get("AUTH_TOKEN", "") } : { ...(fingerprint !== undefined && { fingerprint }) };
  const [ca, cert, key] = [maybe<string>("CA"), maybe<string>("TLS_CERT"), maybe<string>("TLS_KEY")];
  const dataDir = get("DATA_DIR", "./var");
  return deepFreeze({
    urls: get("SCHEDULER_WS_URL", [defaultUrl]),
    tenant: get("TENANT", "default"),
    name: get("WORKER_NAME", hostname),
    instanceId: maybe<string>("WORKER_INSTANCE_ID"),
    auth: { mode, ...secret },
    tokenFile,
    version: get("WORKER_VERSION", "0.1.0"),
    maxParallel: get("CONCURRENCY_MAX_PARALLEL", 4),
    perNodeLimits: maybe<Record<string, number>>("CONCURRENCY_PER_NODE_LIMITS"),
    runtimes: get<string[]>("RUNTIME_NAMES", ["node"]),
    features: get<string[]>("FEATURE_FLAGS", []),
    pool: maybe<string>("POOL"),
    tags: maybe<Record<string, string>>("TAGS"),
    packagesDir: get("PACKAGES_DIR", `${dataDir}/packages`),
    dataDir,
    resources: {
      diskBytesMax: get("RESOURCE_MAX_DISK_BYTES", resourceDefaults.diskBytesMax),
      memBytesMax: get("RESOURCE_MAX_MEM_BYTES", resourceDefaults.memBytesMax),
      gcIntervalMs: get("RESOURCE_GC_INTERVAL_SECONDS", resourceDefaults.gcIntervalMs / 1_000) * 1_000,
      ttlMs: get("RESOURCE_DEFAULT_TTL_SECONDS", resourceDefaults.ttlMs / 1_000) * 1_000,
      inlineBytesMax: get("INLINE_RESULT_LIMIT_BYTES", resourceDefaults.inlineBytesMax),
    },
    heartbeatMs: get("HEARTBEAT_INTERVAL_SECONDS", 10) * 1_000,
    acceptWaitMs: get("SESSION_ACCEPT_TIMEOUT_SECONDS", 10) * 1_000,
    window: get("SESSION_WINDOW_SIZE", 64),
    backoff: {
      baseMs: get("RECONNECT_BASE_DELAY_SECONDS", 1) * 1_000,
      maxMs: get("RECONNECT_MAX_DELAY_SECONDS", 30) * 1_000,
      jitter: get("RECONNECT_JITTER", 0.2),
    },
    endOnAuthError: get("RECONNECT_ABORT_ON_AUTH_ERROR", false),
    graceMs: get("GRACE_MS", 30_000),
    tls: { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) },
    hasThread: get("THREADS", 1) === 1,
    heapMbMax: maybe<number>("HEAP_MB"),
    drainMemoryPct: get("DRAIN_MEMORY", null),
    drainDiskPct: get("DRAIN_DISK", null),
    metricsListen: maybe<NonNullable<WorkerConfig["metricsListen"]>>("METRICS_LISTEN"),
    logLevel: get("LOG_LEVEL", "info"),
  });
}

interface ParsedFlags {
  readonly given: [WorkerSettingName, GivenSetting][];
  readonly file: string | undefined;
  readonly wantsHelp: boolean;
}

function readFlags(argv: readonly string[], problems: string[]): ParsedFlags {
  const given: [WorkerSettingName, GivenSetting][] = [];
  let file: string | undefined;
  let wantsHelp = false;
  for (let index = 0; index < argv.length; index++) {
    const word = argv[index] ?? "";
    const [flag, inline] = splitOnce(word, "=");
    if (flag === "--help" || flag === "-h") {
      wantsHelp = true;
      continue;
    }
    const setting = workerSettings.find((one) => flag === `--${workerFlagOf(one)}` || flag === `--${toKebabCase(one.name)}`);
    if (setting === undefined && flag !== "--config") {
      problems.push(
        flag.startsWith("-")
          ? `${flag} is not a flag of this command${didYouMean(flag, knownFlags)}`
          : `${word} is not expected here`,
      );
      // Its value is not a problem of its own.
      if (flag.startsWith("-") && inline === undefined && argv[index + 1]?.startsWith("-") === false) index++;
      continue;
    }
    const isSwitch = setting?.reading.as === "yes-no" && inline === undefined && !isBooleanText(argv[index + 1]);
    const value = inline ?? (isSwitch ? "true" : argv[++index]);
    if (value === undefined) problems.push(`${flag} needs a value`);
    else if (setting === undefined) file = value;
    else given.push([setting.name, { value, origin: flag, isFlag: true }]);
  }
  return { given, file, wantsHelp };
}

function readEnv(
  env: WorkerSettingSources["env"],
  problems: string[],
): { given: [WorkerSettingName, GivenSetting][]; file: string | undefined } {
  const given: [WorkerSettingName, GivenSetting][] = [];
  for (const [key, value] of Object.entries(env)) {
    if (!key.startsWith(envPrefix) || value === undefined || key === `${envPrefix}${configFileSetting}`) continue;
    const setting = workerSettings.find((one) => key === `${envPrefix}${one.name}`);
    if (setting !== undefined) given.push([setting.name, { value, origin: key }]);
    else
      problems.push(
        `${key} is not a setting of the worker${didYouMean(
          variableByFlag.get(key) ?? key,
          workerSettings.map((one) => `${envPrefix}${one.name}`),
        )}`,
      );
  }
  return { given, file: env[`${envPrefix}${configFileSetting}`] };
}

function readFileSettings(
  file: string | undefined,
  sources: WorkerSettingSources,
  problems: string[],
): [WorkerSettingName, GivenSetting][] {
  if (file === undefined) return [];
  const text = sources.readFile(file);
  if (text instanceof Error) {
    problems.push(`the config file ${file} cannot be read: ${text.message}`);
    return [];
  }
  const value = readJson(text, limits.json.manifest);
  if (value instanceof Fault || typeof value !== "object" || value === null || Array.isArray(value)) {
    problems.push(`the config file ${file} must hold a JSON object`);
    return [];
  }
  const given: [WorkerSettingName, GivenSetting][] = [];
  for (const [key, one] of Object.entries(value)) {
    const setting = workerSettings.find((candidate) => normalizeName(candidate.name) === normalizeName(key));
    if (setting !== undefined) given.push([setting.name, { value: one, origin: `${key} in ${file}` }]);
    else
      problems.push(
        `${key} in ${file} is not a setting of the worker${didYouMean(
          key.toLowerCase(),
          workerSettings.map((candidate) => candidate.name.toLowerCase()),
        )}`,
      );
  }
  return given;
}

/** Whoever knows the flag --token looks for ASTRA_WORKER_TOKEN. */
const variableByFlag = new Map(
  workerSettings.map((one) => [`${envPrefix}${workerFlagOf(one).toUpperCase().replaceAll("-", "_")}`, `${envPrefix}${one.name}`]),
);
const knownFlags = [...workerSettings.map((one) => `--${workerFlagOf(one)}`), "--config", "--help"];
const toKebabCase = (name: string) => name.toLowerCase().replaceAll("_", "-");
/** scheduler_ws_url, schedulerWsUrl and SCHEDULER_WS_URL are one name. */
const normalizeName = (name: string) => name.toLowerCase().replace(/[-_]/g, "");
const isBooleanText = (word: string | undefined) => word === "true" || word === "false";

function splitOnce(text: string, mark: string): [string, string | undefined] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) if (typeof inner === "object" && inner !== null) deepFreeze(inner as object);
  return Object.freeze(value);
}
