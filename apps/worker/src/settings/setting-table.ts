// Every setting of the worker in one table: its name in the environment and on the command line, what it may be, what it is by default.
// Names and meanings are those that workers in the field already use; reading them is config.ts.

export type SettingType =
  | { readonly as: "text"; readonly pattern?: RegExp; readonly expected?: string }
  /** Addresses with commas between them. */
  | { readonly as: "urls" }
  /** HOST:PORT, of this machine. */
  | { readonly as: "listen" }
  | { readonly as: "whole"; readonly min: number; readonly max: number }
  | { readonly as: "number"; readonly min: number; readonly max: number }
  | { readonly as: "yes-no" }
  | { readonly as: "one-of"; readonly words: readonly string[] }
  /** A JSON list, or words with commas between them. */
  | { readonly as: "words" }
  /** A JSON object whose values are whole numbers above 0. */
  | { readonly as: "limits" }
  /** A JSON object whose values are texts. */
  | { readonly as: "tags" };

export interface WorkerSetting {
  /** Behind ASTRA_WORKER_ in the environment; its flag is the same in kebab-case unless `flag` says otherwise. */
  readonly name: string;
  readonly flag?: string;
  readonly reading: SettingType;
  readonly help: string;
  /** What holds when it is not given, as one would write it; absent where there is nothing, or `help` says where it comes from. */
  readonly otherwise?: string;
  /** Understood, because workers in the field know it, but without effect here; the text says why. */
  readonly without?: string;
}

const printable = { as: "text", pattern: /^[^\p{Cc}]{1,256}$/u, expected: "1 to 256 printable characters" } as const;
const wholeNumber = (min: number, max: number) => ({ as: "whole", min, max }) as const;
const text = { as: "text" } as const;
const queueNote = "this worker takes no more than its slots, so there is no queue to bound";
const retryNote = "how often and when unacked frames are sent again is fixed by the session protocol";

const logLevels = ["trace", "debug", "info", "warn", "warning", "error", "fatal", "critical", "silent"] as const;

export const workerSettings = [
  {
    name: "SCHEDULER_WS_URL",
    flag: "url",
    reading: { as: "urls" },
    help: "where the scheduler's session door is (ws:// or wss://), or those of its replicas, with commas between them",
    otherwise: "ws://127.0.0.1:8080/ws/worker",
  },
  { name: "TENANT", reading: printable, help: "tenant that the token belongs to", otherwise: "default" },
  {
    name: "WORKER_NAME",
    flag: "name",
    reading: printable,
    help: "label for people; may repeat; by default the name of the machine",
  },
  {
    name: "WORKER_INSTANCE_ID",
    flag: "instance-id",
    reading: { as: "text", pattern: /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/, expected: "1 to 128 letters, digits or . _ : -" },
    help: "identity; normally made once and kept in the data directory",
  },
  { name: "AUTH_MODE", reading: { as: "one-of", words: ["token", "mtls"] }, help: "how to authenticate", otherwise: "token" },
  {
    name: "AUTH_TOKEN",
    flag: "token",
    reading: text,
    help: "token for the session door: on the command line @FILE (its first line, read again at each handshake), - for stdin, or dev-token",
  },
  {
    name: "AUTH_FINGERPRINT",
    reading: text,
    help: "certificate fingerprint to name in mode mtls; what counts is the certificate itself",
  },
  {
    name: "CA",
    reading: text,
    help: "PEM file with the authorities to trust for wss://; by default those of Node",
  },
  {
    name: "TLS_CERT",
    reading: text,
    help: "PEM file with this worker's own certificate for wss://, read anew at each connection; without a token the mode is mtls",
  },
  { name: "TLS_KEY", reading: text, help: "PEM file with the key of that certificate" },
  {
    name: "INSECURE_CONNECT",
    reading: { as: "yes-no" },
    help: "send the token in the clear, over ws:// to another machine; only where the network itself is trusted",
    otherwise: "false",
  },
  { name: "WORKER_VERSION", reading: printable, help: "version to announce", otherwise: "0.1.0" },
  {
    name: "CONCURRENCY_MAX_PARALLEL",
    flag: "max-parallel",
    reading: wholeNumber(1, 2_048),
    help: "tasks that run at once",
    otherwise: "4",
  },
  { name: "CONCURRENCY_PER_NODE_LIMITS", reading: { as: "limits" }, help: 'limits per node type, as JSON: {"demo.delay": 2}' },
  { name: "RUNTIME_NAMES", reading: { as: "words" }, help: "runtimes to announce", otherwise: "node" },
  { name: "FEATURE_FLAGS", reading: { as: "words" }, help: "features to announce beside the worker's own" },
  { name: "POOL", reading: printable, help: "pool this worker belongs to" },
  { name: "TAGS", reading: { as: "tags" }, help: 'tags to be chosen by, as JSON: {"gpu": "a100"}' },
  {
    name: "PACKAGES_DIR",
    reading: text,
    help: "directory with <name>/<version>/manifest.json; by default packages in the data directory",
  },
  {
    name: "DATA_DIR",
    reading: text,
    help: "directory for the identity, for results until they are delivered, and for the tasks' own files",
    otherwise: "./var",
  },
  {
    name: "RESOURCE_MAX_DISK_BYTES",
    reading: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    help: "bytes of files that tasks may keep here for later ones; what is idle longest gives way",
    otherwise: "10737418240",
  },
  {
    name: "RESOURCE_MAX_MEM_BYTES",
    reading: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    help: "the same for what they keep in memory, by their own word",
    otherwise: "1073741824",
  },
  {
    name: "RESOURCE_GC_INTERVAL_SECONDS",
    reading: wholeNumber(1, 86_400),
    help: "how often what has expired is removed",
    otherwise: "60",
  },
  {
    name: "RESOURCE_DEFAULT_TTL_SECONDS",
    reading: wholeNumber(1, 31_536_000),
    help: "how long something kept lives when its task does not say",
    otherwise: "3600",
  },
  {
    name: "INLINE_RESULT_LIMIT_BYTES",
    reading: wholeNumber(16 * 1_024, 2 * 1_024 * 1_024),
    help: "the large parts of a result above this stay here as artifacts, and the result says where",
    otherwise: "2097152",
  },
  {
    name: "HEARTBEAT_INTERVAL_SECONDS",
    reading: wholeNumber(1, 3_600),
    help: "used when the scheduler announces no period",
    otherwise: "10",
  },
  {
    name: "SESSION_ACCEPT_TIMEOUT_SECONDS",
    reading: wholeNumber(1, 3_600),
    help: "how long the scheduler may take to accept",
    otherwise: "10",
  },
  {
    name: "SESSION_WINDOW_SIZE",
    reading: wholeNumber(1, 1_024),
    help: "frames in flight when the scheduler announces no window",
    otherwise: "64",
  },
  {
    name: "RECONNECT_BASE_DELAY_SECONDS",
    reading: { as: "number", min: 0.1, max: 3_600 },
    help: "pause before the second attempt to connect",
    otherwise: "1",
  },
  {
    name: "RECONNECT_MAX_DELAY_SECONDS",
    reading: { as: "number", min: 0.1, max: 3_600 },
    help: "longest pause between attempts to connect",
    otherwise: "30",
  },
  {
    name: "RECONNECT_JITTER",
    reading: { as: "number", min: 0, max: 1 },
    help: "share of the pause left to chance",
    otherwise: "0.2",
  },
  {
    name: "RECONNECT_ABORT_ON_AUTH_ERROR",
    reading: { as: "yes-no" },
    help: "end instead of trying again when the token is refused",
    otherwise: "false",
  },
  {
    name: "GRACE_MS",
    flag: "grace",
    reading: wholeNumber(0, 86_400_000),
    help: "how long a drain may take after SIGTERM, in milliseconds",
    otherwise: "30000",
  },
  {
    name: "THREADS",
    reading: wholeNumber(0, 1),
    help: "1: handlers run in a thread of their own, so that one that blocks never looks like a dead worker; 0: all in one thread",
    otherwise: "1",
  },
  {
    name: "HEAP_MB",
    reading: wholeNumber(16, 1_048_576),
    help: "what the heap of the handlers' thread may grow to, in MiB; by default as Node decides; outgrown, the thread starts anew",
  },
  {
    name: "DRAIN_MEMORY",
    reading: { as: "number", min: 1, max: 101 },
    help: "percent of its memory from which on the worker says that it is not well and takes no new work; 101 is never; by default what the scheduler announces, else 90",
  },
  {
    name: "DRAIN_DISK",
    reading: { as: "number", min: 1, max: 101 },
    help: "the same for the disk of the data directory; by default what the scheduler announces, else 95",
  },
  {
    name: "METRICS_LISTEN",
    reading: { as: "listen" },
    help: "HOST:PORT for /metrics, /healthz and /inventory; port 0 picks a free one; by default none of them is served",
  },
  {
    name: "INSECURE_LISTEN",
    reading: { as: "yes-no" },
    help: "let other machines reach that address, although nothing is encrypted and nobody is asked for a token",
    otherwise: "false",
  },
  { name: "LOG_LEVEL", reading: { as: "one-of", words: logLevels }, help: "least important lines to log", otherwise: "info" },
  {
    name: "TRANSPORT",
    reading: { as: "one-of", words: ["websocket"] },
    help: "only websocket",
    without: "there is no other transport",
  },
  { name: "SCHEDULER_REST_BASE_URL", reading: text, help: "not needed", without: "this worker speaks over its session only" },
  {
    name: "HANDSHAKE_PROTOCOL_VERSION",
    reading: wholeNumber(1, 1_000),
    help: "always 2",
    without: "this worker speaks session protocol 2",
  },
  {
    name: "HEARTBEAT_JITTER_SECONDS",
    reading: wholeNumber(0, 3_600),
    help: "none",
    without: "the scheduler's own period is kept exactly",
  },
  { name: "ACK_RETRY_BASE_MS", reading: wholeNumber(0, 3_600_000), help: "none", without: retryNote },
  { name: "ACK_RETRY_MAX_MS", reading: wholeNumber(0, 3_600_000), help: "none", without: retryNote },
  { name: "ACK_RETRY_ATTEMPTS", reading: wholeNumber(0, 1_000), help: "none", without: retryNote },
  {
    name: "RECONNECT_ABORT_ON_PROTOCOL_ERROR",
    reading: { as: "yes-no" },
    help: "none",
    without: "protocol errors lead to a new session",
  },
  { name: "TRANSPORT_RECV_QUEUE_MAX", reading: wholeNumber(0, 1e9), help: "none", without: queueNote },
  { name: "SESSION_APP_QUEUE_MAX", reading: wholeNumber(0, 1e9), help: "none", without: queueNote },
  { name: "SESSION_APP_QUEUE_OVERFLOW", reading: text, help: "none", without: queueNote },
  { name: "DISPATCH_QUEUE_MAX", reading: wholeNumber(0, 1e9), help: "none", without: queueNote },
  { name: "DISPATCH_QUEUE_OVERFLOW", reading: text, help: "none", without: queueNote },
  { name: "DISPATCH_QUEUE_IDLE_SECONDS", reading: wholeNumber(0, 1e9), help: "none", without: queueNote },
  { name: "DISPATCH_MAX_INFLIGHT", reading: wholeNumber(0, 1e9), help: "none", without: "CONCURRENCY_MAX_PARALLEL is the limit" },
  { name: "DISPATCH_TIMEOUT_SECONDS", reading: wholeNumber(0, 1e9), help: "none", without: "time limits come with each task" },
  { name: "DISPATCH_MAX_FAILURES", reading: wholeNumber(0, 1e9), help: "none", without: "retries are the scheduler's to decide" },
  {
    name: "DISPATCH_FAILURE_COOLDOWN_SECONDS",
    reading: wholeNumber(0, 1e9),
    help: "none",
    without: "retries are the scheduler's to decide",
  },
  { name: "EXEC_MODE_DEFAULT", reading: text, help: "none", without: "handlers run on the event loop" },
  { name: "PAYLOAD_TYPES", reading: { as: "words" }, help: "none", without: "the worker announces exactly what it understands" },
] as const satisfies readonly WorkerSetting[];

export type WorkerSettingName = (typeof workerSettings)[number]["name"];

export const envPrefix = "ASTRA_WORKER_";
/** Names a JSON file with more settings. */
export const configFileSetting = "CONFIG_FILE";

export function workerFlagOf(setting: WorkerSetting): string {
  return setting.flag ?? setting.name.toLowerCase().replaceAll("_", "-");
}
