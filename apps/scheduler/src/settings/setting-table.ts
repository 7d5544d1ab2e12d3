// Every setting of the scheduler, one row each: its meaning, its default, how it is read. Flags, variables, keys of the file and
// --help follow from this table. Settings of single tenants are in tenant-settings.ts, checks across settings in config.ts.

import type { SettingTable, SettingValues } from "@astraflow/settings";
import {
  type Address,
  type AdminPasswordSetting,
  dayMs,
  type LogLevel,
  logLevels,
  readAddress,
  readAdminPasswordFile,
  readLevel,
  readName,
  readPercent,
  readScale,
  readSwitch,
  readText,
  readToken,
  readTrustDomain,
  readWhole,
  readWindow,
  type TokenSetting,
} from "./setting-readers.ts";

export const settingTable = {
  listen: {
    valueName: "HOST:PORT",
    help: "where REST and the worker door listen; port 0 picks a free one",
    default: { host: "127.0.0.1", port: 8080 } as Address,
    read: readAddress,
  },
  respListen: {
    valueName: "HOST:PORT",
    help: "where the RESP door will listen; not in this version",
    default: "",
    read: readText,
  },
  dataDir: { valueName: "DIR", help: "the scheduler's own folder", default: "./var/scheduler", read: readText },
  store: {
    valueName: "URL",
    help: "sqlite:FILE, by default in the data folder, or postgres://USER:PASSWORD@HOST:PORT/DATABASE, which several schedulers can share",
    default: "",
    read: readText,
  },
  dev: { valueName: null, help: `accept the token "dev-token"; only on loopback`, default: false, read: readSwitch },
  token: {
    valueName: "NAME=@FILE",
    help: "a token that callers and workers may use, NAME/TENANT=@FILE for another tenant, NAME/TENANT:worker+view+read+edit+operate+admin=@FILE, or roles like workflow.viewer, for some things only (by default all but admin, which /metrics wants); repeatable; FILE holds one secret a line, the newest first",
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
  userToken: {
    valueName: "MS",
    help: "how long a token lives that a user gets for a password",
    default: 12 * 3_600_000,
    read: readWhole({ min: 1_000, max: 365 * dayMs, unit: "milliseconds" }),
  },
  blobDir: {
    valueName: "DIR",
    help: "where the files of resources are kept, by default in the data folder; schedulers that share a store share it too",
    default: "",
    read: readText,
  },
  threads: {
    valueName: "N",
    help: "1: engine and store in a thread of their own; 0: everything in one thread",
    default: 1,
    read: readWhole({ min: 0, max: 64, unit: "threads" }),
  },
  grace: {
    valueName: "MS",
    help: "shutdown timeout after SIGTERM",
    default: 10_000,
    read: readWhole({ min: 0, max: dayMs, unit: "milliseconds" }),
  },
  heartbeat: {
    valueName: "MS",
    help: "how often workers report",
    default: 10_000,
    read: readWhole({ min: 100, max: dayMs, unit: "milliseconds" }),
  },
  lease: {
    valueName: "MS",
    help: "how long a silent worker keeps its work",
    default: 30_000,
    read: readWhole({ min: 200, max: dayMs, unit: "milliseconds" }),
  },
  ackDeadline: {
    valueName: "MS",
    help: "how long a dispatch may stay unacknowledged",
    default: 5_000,
    read: readWhole({ min: 100, max: dayMs, unit: "milliseconds" }),
  },
  logLevel: { valueName: "LEVEL", help: logLevels.join(" | "), choices: logLevels, default: "info" as LogLevel, read: readLevel },
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
  turnsInFlight: {
    valueName: "N",
    help: "on PostgreSQL: turns that may be under way at once",
    default: 3,
    read: readWhole({ min: 1, max: 4, unit: "turns" }),
  },
  tlsCert: {
    valueName: "FILE",
    help: "certificate chain (PEM): https and wss instead of http and ws",
    default: "",
    read: readText,
  },
  tlsKey: { valueName: "FILE", help: "its private key (PEM, without a passphrase)", default: "", read: readText },
  clientCa: {
    valueName: "FILE",
    help: "authorities (PEM) whose certificates workers may show; all these files are read again when they change",
    default: "",
    read: readText,
  },
  trustDomain: {
    valueName: "NAME",
    help: "with --client-ca: workers are spiffe://NAME/tenant/TENANT[/worker/INSTANCE]",
    default: "",
    read: readTrustDomain,
  },
  insecureListen: {
    valueName: null,
    help: "allow an address that other machines reach although nothing is encrypted",
    default: false,
    read: readSwitch,
  },
  sessionToken: {
    valueName: "MS",
    help: "how long a session token lives",
    default: 3_600_000,
    read: readWhole({ min: 1_000, max: dayMs, unit: "milliseconds" }),
  },
  sessionKeyAge: {
    valueName: "MS",
    help: "how long one key signs session tokens before the next does",
    default: dayMs,
    read: readWhole({ min: 1_000, max: 365 * dayMs, unit: "milliseconds" }),
  },
  sendWindow: {
    valueName: "N",
    help: "frames in flight to a worker; by default 64, or 1024 for workers that can",
    default: 0,
    read: readWindow,
  },
  recvWindow: {
    valueName: "N",
    help: "frames in flight from a worker; same default as --send-window",
    default: 0,
    read: readWindow,
  },
  drainMemory: {
    valueName: "PERCENT",
    help: "a worker with this much of its memory in use gets nothing new; 101 is never",
    default: 90,
    read: readPercent,
  },
  drainDisk: {
    valueName: "PERCENT",
    help: "a worker with this much of its disk in use gets nothing new; 101 is never",
    default: 95,
    read: readPercent,
  },
  saturated: {
    valueName: "MS",
    help: "a worker whose slots are all busy for this long counts as saturated",
    default: 60_000,
    read: readWhole({ min: 100, max: dayMs, unit: "milliseconds" }),
  },
  timeScale: {
    valueName: "X",
    help: "for tests, with --dev: the store's clock runs X times faster",
    default: 1,
    read: readScale,
  },
} as const satisfies SettingTable;

export type SchedulerSettings = SettingValues<typeof settingTable>;
export const variablePrefix = "ASTRA_SCHEDULER_";
