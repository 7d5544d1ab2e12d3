// Every setting of the worker, and the help text that lists them. A key is the variable without its prefix and, in kebab-case, the flag; `flag` is a shorter one.

import { outputBytesMaxDefault, resourceDefaults } from "@astraflow/runtime";
import {
  flagsOf,
  formatSettingsHelp,
  type SettingRow,
  type SettingTable,
  type SettingValues,
  variableOf,
} from "@astraflow/settings";
import manifest from "../../package.json" with { type: "json" };
import {
  number,
  oneOf,
  pattern,
  readBoolean,
  readHostPort,
  readKeyFile,
  readLimits,
  readList,
  readOrigins,
  readPackagesDir,
  readTags,
  readText,
  readToken,
  readUrls,
  type WorkerSettingSources,
  wholeNumber,
} from "./setting-readers.ts";

const logLevels = ["trace", "debug", "info", "warn", "warning", "error", "fatal", "critical", "silent"] as const;
const readPrintable = pattern(/^[^\p{Cc}]{1,256}$/u, "1 to 256 printable characters");

/** Workers in the field know the setting, but it has no effect here. */
const ignored = <Read>(read: Read, ignoredBecause: string) => ({ read, ignoredBecause, help: "" });
const noQueue = "this worker takes no more than its slots, so there is no queue to bound";
const fixedRetries = "how often and when unacked frames are sent again is fixed by the session protocol";

export const workerSettings = {
  SCHEDULER_WS_URL: {
    valueName: "URL",
    flag: "url",
    read: readUrls,
    help: "address of the scheduler (ws://, wss://, http:// or https://); several with commas between them if there are replicas",
    default: ["ws://127.0.0.1:8080/ws/worker"],
  },
  TENANT: { valueName: "NAME", read: readPrintable, help: "tenant that the token belongs to", default: "default" },
  WORKER_NAME: {
    valueName: "NAME",
    flag: "name",
    read: readPrintable,
    help: "label for people; need not be unique; by default the name of the machine",
  },
  WORKER_INSTANCE_ID: {
    valueName: "ID",
    flag: "instance-id",
    read: pattern(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/, "1 to 128 letters, digits or . _ : -"),
    help: "identity; by default created once and stored in the data directory",
  },
  AUTH_MODE: {
    read: oneOf("token", "mtls"),
    help: "how to authenticate: token, or mtls with a client certificate",
    choices: ["token", "mtls"],
    default: "token",
  },
  AUTH_TOKEN: {
    valueName: "@FILE",
    flag: "token",
    read: readToken,
    help: "token that the scheduler accepts: on the command line @FILE (its first line, read again at each handshake), - for stdin, or dev-token",
  },
  AUTH_FINGERPRINT: {
    valueName: "TEXT",
    read: readText,
    help: "certificate fingerprint to send in mode mtls; the scheduler checks the certificate itself",
  },
  CA: {
    valueName: "FILE",
    read: readText,
    help: "PEM file with the CA certificates to trust for wss://; by default those of Node",
  },
  TLS_CERT: {
    valueName: "FILE",
    read: readText,
    help: "PEM file with this worker's certificate for wss://, read again at each connection; without a token the mode is mtls",
  },
  TLS_KEY: { valueName: "FILE", read: readText, help: "PEM file with the key of that certificate" },
  INSECURE_CONNECT: {
    valueName: null,
    read: readBoolean,
    help: "send the token unencrypted, over ws:// to another machine; only in a trusted network",
    default: false,
  },
  WORKER_VERSION: { valueName: "VERSION", read: readPrintable, help: "version to announce", default: manifest.version },
  CONCURRENCY_MAX_PARALLEL: {
    valueName: "N",
    flag: "max-parallel",
    read: wholeNumber(1, 2_048),
    help: "tasks that run at once",
    default: 4,
  },
  CONCURRENCY_PER_NODE_LIMITS: { valueName: "JSON", read: readLimits, help: 'limits per node type, as JSON: {"demo.delay": 2}' },
  RUNTIME_NAMES: { valueName: "LIST", read: readList, help: "runtimes to announce", default: ["node"] },
  FEATURE_FLAGS: { valueName: "LIST", read: readList, help: "features to announce beside the worker's own" },
  POOL: { valueName: "NAME", read: readPrintable, help: "pool this worker belongs to" },
  TAGS: { valueName: "JSON", read: readTags, help: 'tags for placement, as JSON: {"gpu": "a100"}' },
  PACKAGES_DIR: {
    read: readPackagesDir,
    help: "directory with <name>/<version>/manifest.json; by default packages in the data directory",
  },
  WATCH_PACKAGES: {
    valueName: null,
    read: readBoolean,
    help: "for authors: load a package again when one of its files changes, and keep the code before while the new one is broken",
    default: false,
  },
  PACKAGE_KEYS: {
    valueName: "FILE",
    read: readKeyFile,
    help: "file with the public keys (PEM, or a JSON list) whose packages this worker installs, or scheduler: the keys that the tenant trusts there; without it none are installed",
  },
  PACKAGE_UNSIGNED: {
    valueName: null,
    read: readBoolean,
    help: "install packages without a signature too; for development only",
    default: false,
  },
  PACKAGE_ORIGINS: {
    valueName: "LIST",
    read: readOrigins,
    help: "origins beside the scheduler's that packages may come from whatever their address is; others must be https and public",
  },
  PACKAGE_HOOKS: {
    valueName: "LIST",
    read: readList,
    help: "packages whose install and uninstall hooks may run: names, or prefixes that end with *; by default none",
  },
  PACKAGE_WHEELS: {
    valueName: "DIR",
    read: readText,
    help: "folder of Python wheels to install dependencies from, instead of an index",
  },
  DATA_DIR: {
    read: readText,
    help: "directory for the identity, for results until they are delivered, and for the tasks' own files",
    default: "./var",
  },
  RESOURCE_MAX_DISK_BYTES: {
    read: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    help: "bytes of files that tasks may keep for later tasks; the file that was idle longest is removed first",
    default: resourceDefaults.diskBytesMax,
  },
  RESOURCE_MAX_MEM_BYTES: {
    read: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    help: "bytes that tasks may keep in memory, as they declare them",
    default: resourceDefaults.memBytesMax,
  },
  RESOURCE_GC_INTERVAL_SECONDS: {
    read: wholeNumber(1, 86_400),
    help: "how often expired resources are removed",
    default: resourceDefaults.gcIntervalMs / 1_000,
  },
  RESOURCE_DEFAULT_TTL_SECONDS: {
    read: wholeNumber(1, 31_536_000),
    help: "how long a kept resource lives when its task sets no expiry",
    default: resourceDefaults.ttlMs / 1_000,
  },
  INLINE_RESULT_LIMIT_BYTES: {
    read: wholeNumber(16 * 1_024, 2 * 1_024 * 1_024),
    help: "large parts of a bigger result stay here as artifacts, and the result refers to them",
    default: resourceDefaults.inlineBytesMax,
  },
  HEARTBEAT_INTERVAL_SECONDS: {
    read: wholeNumber(1, 3_600),
    help: "how often to report to a scheduler that announces no period",
    default: 10,
  },
  SESSION_ACCEPT_TIMEOUT_SECONDS: { read: wholeNumber(1, 3_600), help: "how long the scheduler may take to accept", default: 10 },
  SESSION_WINDOW_SIZE: {
    valueName: "N",
    read: wholeNumber(1, 1_024),
    help: "frames in flight to a scheduler that announces no window",
    default: 64,
  },
  RECONNECT_BASE_DELAY_SECONDS: { read: number(0.1, 3_600), help: "pause before the second attempt to connect", default: 1 },
  RECONNECT_MAX_DELAY_SECONDS: { read: number(0.1, 3_600), help: "longest pause between attempts to connect", default: 30 },
  RECONNECT_JITTER: { valueName: "SHARE", read: number(0, 1), help: "share of the pause that is random", default: 0.2 },
  RECONNECT_ABORT_ON_AUTH_ERROR: {
    valueName: null,
    read: readBoolean,
    help: "exit instead of trying again when the scheduler refuses the token",
    default: false,
  },
  GRACE_MS: {
    flag: "grace",
    read: wholeNumber(0, 86_400_000),
    help: "how long a drain may take after SIGTERM, in milliseconds",
    default: 30_000,
  },
  THREADS: {
    valueName: "N",
    read: wholeNumber(0, 1),
    help: "1: no handler runs in the thread of the connection, so that one that blocks does not look like a dead worker; 0: all handlers for Node in that thread",
    default: 1,
  },
  HEAP_MB: {
    read: wholeNumber(16, 1_048_576),
    help: "heap limit of the handler thread, or of each package process for Node, in MiB (default: Node's own); one that exceeds it is restarted",
  },
  NODE_HOST: {
    read: oneOf("thread", "process"),
    help: "where handlers of packages for Node run: process: each package version in a process of its own, as packages for Python always do; thread: all in one thread of the worker, which takes less memory",
    choices: ["thread", "process"],
    default: "process",
  },
  PYTHON: {
    valueName: "PROGRAM",
    read: readText,
    help: "Python (3.10 or newer) for packages that have no environment of their own in .venv",
    default: "python3",
  },
  EXEC_MODE_DEFAULT: {
    read: oneOf("auto", "inline", "thread"),
    help: "how Python adapters run that do not say it: auto: coroutines on the event loop, others in a thread; inline: all on the event loop; thread: as auto",
    choices: ["auto", "inline", "thread"],
    default: "auto",
  },
  HOST_MEMORY_MB: {
    read: wholeNumber(64, 1_048_576),
    help: "memory of one package process in MiB: address space for Python, heap for Node; by default unlimited",
  },
  HOST_CPU_SECONDS: {
    read: wholeNumber(1, 31_536_000),
    help: "processor time that one package process may use after the start of its latest task before it is ended; by default unlimited",
  },
  OUTPUT_LIMIT_MB: {
    read: wholeNumber(1, 1_048_576),
    help: "output and feedback that one task may write, in MiB, before it is ended with E.RUNNER.OUTPUT",
    default: outputBytesMaxDefault / 1_024 ** 2,
  },
  CANCEL_GRACE_SECONDS: {
    read: number(0, 3_600),
    help: "how long a cancelled task may take to end before its package process is replaced",
    default: 5,
  },
  DRAIN_MEMORY: {
    valueName: "PERCENT",
    read: number(1, 101),
    help: "take no new work from this percentage of memory on (101: never); default: what the scheduler announces, else 90",
  },
  DRAIN_DISK: {
    valueName: "PERCENT",
    read: number(1, 101),
    help: "the same for the disk of the data directory; default: what the scheduler announces, else 95",
  },
  METRICS_LISTEN: {
    valueName: "HOST:PORT",
    read: readHostPort,
    help: "HOST:PORT for /metrics, /healthz and /inventory; port 0 picks a free one; by default none of them is served",
  },
  INSECURE_LISTEN: {
    valueName: null,
    read: readBoolean,
    help: "let other machines reach that address, although it is neither encrypted nor protected by a token",
    default: false,
  },
  LOG_LEVEL: {
    valueName: "LEVEL",
    read: oneOf(...logLevels),
    help: "lowest level to log to stderr",
    choices: logLevels,
    default: "info",
  },
  TRANSPORT: ignored(oneOf("websocket"), "there is no other transport"),
  SCHEDULER_REST_BASE_URL: ignored(readText, "the API is at the address of the session"),
  HANDSHAKE_PROTOCOL_VERSION: ignored(wholeNumber(1, 1_000), "this worker speaks session protocol 2"),
  HEARTBEAT_JITTER_SECONDS: ignored(wholeNumber(0, 3_600), "the scheduler's own period is kept exactly"),
  ACK_RETRY_BASE_MS: ignored(wholeNumber(0, 3_600_000), fixedRetries),
  ACK_RETRY_MAX_MS: ignored(wholeNumber(0, 3_600_000), fixedRetries),
  ACK_RETRY_ATTEMPTS: ignored(wholeNumber(0, 1_000), fixedRetries),
  RECONNECT_ABORT_ON_PROTOCOL_ERROR: { ...ignored(readBoolean, "protocol errors lead to a new session"), valueName: null },
  TRANSPORT_RECV_QUEUE_MAX: ignored(wholeNumber(0, 1e9), noQueue),
  SESSION_APP_QUEUE_MAX: ignored(wholeNumber(0, 1e9), noQueue),
  SESSION_APP_QUEUE_OVERFLOW: ignored(readText, noQueue),
  DISPATCH_QUEUE_MAX: ignored(wholeNumber(0, 1e9), noQueue),
  DISPATCH_QUEUE_OVERFLOW: ignored(readText, noQueue),
  DISPATCH_QUEUE_IDLE_SECONDS: ignored(wholeNumber(0, 1e9), noQueue),
  DISPATCH_MAX_INFLIGHT: ignored(wholeNumber(0, 1e9), "CONCURRENCY_MAX_PARALLEL is the limit"),
  DISPATCH_TIMEOUT_SECONDS: ignored(wholeNumber(0, 1e9), "time limits come with each task"),
  DISPATCH_MAX_FAILURES: ignored(wholeNumber(0, 1e9), "retries are the scheduler's to decide"),
  DISPATCH_FAILURE_COOLDOWN_SECONDS: ignored(wholeNumber(0, 1e9), "retries are the scheduler's to decide"),
  PAYLOAD_TYPES: ignored(readList, "the worker announces exactly what it understands"),
} as const satisfies SettingTable<WorkerSettingSources>;

export type WorkerSettingValues = SettingValues<typeof workerSettings>;
export const variablePrefix = "ASTRA_WORKER_";
export const configVariable = `${variablePrefix}CONFIG_FILE`;

/** The settings that have an effect, as `--help` and the command line's completion show them. */
export const listedSettings = Object.entries<SettingRow<never>>(workerSettings)
  .filter(([, row]) => row.ignoredBecause === undefined)
  .map(([key, row]) => ({ ...row, key, flag: flagsOf(key, row)[0] ?? "", variable: variableOf(variablePrefix, key) }));

/** The text of `astra worker --help`. */
export function renderHelp(): string {
  return [
    "astra worker: takes tasks from a scheduler and runs them",
    "",
    "  astra worker --token dev-token --packages-dir examples/packages",
    "  astra worker --url wss://scheduler.example/ws/worker --token @worker.token",
    "  astra worker --url wss://scheduler.example/ws/worker --token @worker.token --check",
    "",
    ...formatSettingsHelp(workerSettings, variablePrefix),
    `  --config FILE, ${configVariable}`,
    "      JSON file with the same settings",
    "  --check",
    "      look at everything that the worker would need with these settings, change nothing, and end:",
    "      one line each, ok or problem with the way out; exit code 1 if there is a problem",
    "",
    "Flags win over the environment, that over the file.",
    "",
  ].join("\n");
}
