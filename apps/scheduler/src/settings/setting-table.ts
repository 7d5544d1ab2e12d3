// Every setting of the scheduler, one row each: its meaning, its default, how it is read. Flags, variables, keys of the file and
// --help follow from this table. Settings of single tenants are in tenant-settings.ts, checks across settings in config.ts.

import { type SchemaMode, schemaModes } from "@astraflow/protocol";
import { defaultKeptVersions, defaultRetention } from "@astraflow/services";
import type { SettingTable, SettingValues } from "@astraflow/settings";
import {
  type Address,
  type AdminPasswordSetting,
  dayMs,
  type LogLevel,
  logLevels,
  readAddress,
  readAdminPasswordFile,
  readAge,
  readKeptCount,
  readLevel,
  readName,
  readOrigin,
  readPackageOrigin,
  readPercent,
  readProxy,
  readPublicUrl,
  readScale,
  readSchemaMode,
  readSwitch,
  readText,
  readToken,
  readTrustDomain,
  readWhole,
  readWindow,
  type TokenSetting,
} from "./setting-readers.ts";

const text = (valueName: string, help: string) => ({ valueName, help, default: "", read: readText });
const toggle = (help: string) => ({ valueName: null, help, default: false, read: readSwitch });
const count = (help: string, usual: number, range: { min: number; max: number; unit: string }) => ({
  valueName: "N",
  help,
  default: usual,
  read: readWhole(range),
});
const milliseconds = (help: string, usual: number, min = 100, max = dayMs) => ({
  ...count(help, usual, { min, max, unit: "milliseconds" }),
  valueName: "MS",
});
const percent = (help: string, usual: number) => ({ valueName: "PERCENT", help, default: usual, read: readPercent });
const age = (help: string, usual: number | null) => ({ valueName: "AGE", help, default: usual, read: readAge });
const frames = (help: string) => ({ valueName: "N", help, default: 0, read: readWindow });

export const settingTable = {
  listen: {
    valueName: "HOST:PORT",
    help: "address for the API, the page and the connections of workers; port 0 picks a free one",
    default: { host: "127.0.0.1", port: 8080 } as Address,
    read: readAddress,
  },
  respListen: text("HOST:PORT", "address for clients that speak RESP; not in this version"),
  dataDir: { ...text("DIR", "folder for the store, keys and files of this scheduler"), default: "./var/scheduler" },
  store: text(
    "URL",
    "sqlite:FILE, by default in the data folder, or postgres://USER:PASSWORD@HOST:PORT/DATABASE, which several schedulers can share",
  ),
  dev: toggle(`for trying things out: accept the token dev-token; only on a loopback address`),
  token: {
    valueName: "NAME=@FILE",
    help: "a token that callers and workers may use, NAME/TENANT=@FILE for another tenant, NAME/TENANT:worker+view+read+edit+operate+admin+metrics=@FILE, or roles like workflow.viewer, for some things only (by default all but admin and metrics, which /metrics wants); repeatable; FILE holds one secret a line, the newest first",
    default: [] as readonly TokenSetting[],
    isList: true,
    read: readToken,
  },
  adminPasswordFile: {
    valueName: "FILE",
    help: "a file with the password of the first user, admin, for a tenant that has no users; TENANT=FILE for another than default; or the variable ASTRA_ADMIN_PASSWORD",
    default: [] as readonly AdminPasswordSetting[],
    isList: true,
    read: readAdminPasswordFile,
  },
  userToken: milliseconds("how long a token lives that a user gets for a password", 12 * 3_600_000, 1_000, 365 * dayMs),
  blobDir: text(
    "DIR",
    "where the files of resources are kept, by default in the data folder; schedulers that share a store share it too",
  ),
  corsOrigin: {
    valueName: "ORIGIN",
    help: "an origin whose pages may use the API from a browser, with credentials, like https://dashboard.example; repeatable; by default none",
    default: [] as readonly string[],
    isList: true,
    read: readOrigin,
  },
  trustedProxy: {
    valueName: "ADDRESS",
    help: "a proxy in front of this scheduler, or a network like 10.0.0.0/8: the client's address is taken from its X-Forwarded-For; repeatable; by default none",
    default: [] as readonly string[],
    isList: true,
    read: readProxy,
  },
  httpConnections: count(
    "connections of callers at once; one address may have half of them, unless it is loopback or a trusted proxy; further ones are closed; sockets of workers do not count",
    10_000,
    { min: 10, max: 1_000_000, unit: "connections" },
  ),
  answerTimeout: milliseconds("how long a caller may take nothing of an answer before its connection is closed", 300_000, 1_000),
  packageOrigin: {
    valueName: "ORIGIN",
    help: "an origin that workers may be told to install packages from although it is no public https address, like http://packages.lan:8000, or file: for files of their machines; repeatable; by default none",
    default: [] as readonly string[],
    isList: true,
    read: readPackageOrigin,
  },
  publicUrl: {
    valueName: "URL",
    help: "where workers of other generations reach this scheduler, like https://astra.example, for installs from its repository of packages; workers of this version need it not",
    default: "",
    read: readPublicUrl,
  },
  packageUnsigned: toggle("packages may be published without a signature, by tenants that trust no key; for trying things out"),
  packageKeep: count(
    "versions of a package before the newest one that stay on the workers after a rollout",
    defaultKeptVersions,
    { min: 0, max: 100, unit: "versions" },
  ),
  packageOnDemand: toggle("packages that tasks wait for are installed from the repository without an order"),
  threads: count("1: engine and store in a thread of their own; 0: everything in one thread", 1, {
    min: 0,
    max: 64,
    unit: "threads",
  }),
  grace: milliseconds("how long requests and commits may take to end after SIGTERM before the process ends anyway", 10_000, 0),
  heartbeat: milliseconds("how often workers report", 10_000),
  lease: milliseconds("how long a silent worker keeps its work", 30_000, 200),
  ackDeadline: milliseconds("how long a dispatch may stay unacknowledged", 5_000),
  attemptTimeout: milliseconds("longest time of an attempt whose node sets no limit; 0: none", dayMs, 0, 365 * dayMs),
  silentGrace: milliseconds(
    "beyond its lease: how long a worker that cannot list what it runs may report nothing about an attempt before it is sent it again",
    60_000,
  ),
  unstoppedSlot: milliseconds(
    "how long an attempt that is over keeps its slot at a worker that cannot stop it, at most",
    3_600_000,
  ),
  packageDeadline: milliseconds(
    "how long a worker may leave the command to install or remove a package without any answer before it has failed",
    30 * 60_000,
  ),
  logLevel: {
    valueName: "LEVEL",
    help: "lowest level to log to stderr",
    choices: logLevels,
    default: "info" as LogLevel,
    read: readLevel,
  },
  cluster: {
    valueName: "NAME",
    help: "name of this installation; a store belongs to one installation, so all its schedulers use the same name",
    default: "default",
    read: readName,
  },
  replica: {
    valueName: "NAME",
    help: "name of this scheduler, one of its own for each in a cluster; by default made once and kept in the data folder",
    default: "",
    read: readName,
  },
  turnsInFlight: count("on PostgreSQL: turns that may be under way at once", 3, { min: 1, max: 4, unit: "turns" }),
  tlsCert: text("FILE", "certificate chain (PEM): https and wss instead of http and ws"),
  tlsKey: text("FILE", "its private key (PEM, without a passphrase)"),
  clientCa: text(
    "FILE",
    "authorities (PEM) whose certificates workers may show; all these files are read again when they change",
  ),
  trustDomain: {
    ...text("NAME", "with --client-ca: workers are spiffe://NAME/tenant/TENANT[/worker/INSTANCE]"),
    read: readTrustDomain,
  },
  insecureListen: toggle("allow an address that other machines reach although nothing is encrypted"),
  sessionToken: milliseconds("how long a session token lives", 3_600_000, 1_000),
  sessionKeyAge: milliseconds("how long one key signs session tokens before the next does", dayMs, 1_000, 365 * dayMs),
  sendWindow: frames("frames in flight to a worker; by default 64, or 1024 for workers that can"),
  recvWindow: frames("frames in flight from a worker; same default as --send-window"),
  drainMemory: percent("a worker with this much of its memory in use gets nothing new; 101 is never", 90),
  drainDisk: percent("a worker with this much of its disk in use gets nothing new; 101 is never", 95),
  saturated: milliseconds("a worker whose slots are all busy for this long counts as saturated", 60_000),
  retainRuns: age(
    "how long a finished run is kept with its tasks, output, dead letters and log entries, like 30d or 12h, and other log entries too; off: for ever",
    defaultRetention.runsMs,
  ),
  retainRunsMax: {
    valueName: "N",
    help: "how many finished runs of a tenant are kept, the newest ones; off: any number",
    default: defaultRetention.runsMax,
    read: readKeptCount,
  },
  retainKeys: age("how long an Idempotency-Key is remembered; off: for ever", defaultRetention.keysMs),
  retainWorkers: age("how long a worker that is lost or has left is listed; off: for ever", defaultRetention.workersMs),
  retainAudit: age(
    "how long audit entries are kept, at least as long as runs; off, the default: for ever",
    defaultRetention.auditMs,
  ),
  schemaMode: {
    valueName: "MODE",
    help: "what becomes of parameters and results that do not match their schema, where neither workflow nor manifest names it: warn, or enforce to fail the task",
    choices: schemaModes,
    default: "warn" as SchemaMode,
    read: readSchemaMode,
  },
  timeScale: {
    valueName: "X",
    help: "for tests, with --dev: the store's clock runs X times faster",
    default: 1,
    read: readScale,
  },
} as const satisfies SettingTable;

export type GivenSettings = SettingValues<typeof settingTable>;
export const variablePrefix = "ASTRA_SCHEDULER_";
