// Every setting of the scheduler, one row each: its flag, its meaning, how its words are read. Flags, environment, file and
// --help are all made from this table; settings of single tenants are in tenant-settings.ts. Where the words come from is in
// setting-sources.ts; what they must be together in config.ts.

import {
  type Address,
  type AdminPasswordSetting,
  dayMs,
  type LogLevel,
  logLevels,
  type Origin,
  type Refusal,
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

export interface SettingRow<T> {
  /** The word after the flag in --help; null for a switch. */
  readonly word: string | null;
  readonly help: string;
  readonly fallback: T;
  /** May be given several times; the values are collected. */
  readonly isMany?: boolean;
  read(text: string, origin: Origin): T | Refusal;
}

const none: readonly TokenSetting[] = [];
const noPasswords: readonly AdminPasswordSetting[] = [];

export const settingTable = {
  listen: {
    word: "HOST:PORT",
    help: "where REST and the worker door listen; port 0 picks a free one",
    fallback: { host: "127.0.0.1", port: 8080 } as Address,
    read: readAddress,
  },
  respListen: { word: "HOST:PORT", help: "where the RESP door will listen; not in this version", fallback: "", read: readText },
  dataDir: { word: "DIR", help: "the scheduler's own folder", fallback: "./var/scheduler", read: readText },
  store: {
    word: "URL",
    help: "sqlite:FILE, by default in the data folder, or postgres://USER:PASSWORD@HOST:PORT/DATABASE, which several schedulers can share",
    fallback: "",
    read: readText,
  },
  dev: { word: null, help: `accept the token "dev-token"; only on loopback`, fallback: false, read: readSwitch },
  token: {
    word: "NAME=@FILE",
    help: "a token that callers and workers may use, NAME/TENANT=@FILE for another tenant, NAME/TENANT:worker+view+read+edit+operate+admin=@FILE, or roles like workflow.viewer, for some things only (by default all but admin, which /metrics wants); repeatable; FILE holds one secret a line, the newest first",
    fallback: none,
    isMany: true,
    read: readToken,
  },
  adminPasswordFile: {
    word: "FILE",
    help: "a file with the password of the first user, admin, for a tenant that has no users; TENANT=FILE for another than default; or the variable ASTRA_ADMIN_PASSWORD",
    fallback: noPasswords,
    isMany: true,
    read: readAdminPasswordFile,
  },
  userToken: {
    word: "MS",
    help: "how long a token lives that a user gets for a password",
    fallback: 12 * 3_600_000,
    read: readWhole({ min: 1_000, max: 365 * dayMs, unit: "milliseconds" }),
  },
  blobDir: {
    word: "DIR",
    help: "where the files of resources are kept, by default in the data folder; schedulers that share a store share it too",
    fallback: "",
    read: readText,
  },
  threads: {
    word: "N",
    help: "1: engine and store in a thread of their own; 0: everything in one thread",
    fallback: 1,
    read: readWhole({ min: 0, max: 64, unit: "threads" }),
  },
  grace: {
    word: "MS",
    help: "how long the end may take after SIGTERM",
    fallback: 10_000,
    read: readWhole({ min: 0, max: dayMs, unit: "milliseconds" }),
  },
  heartbeat: {
    word: "MS",
    help: "how often workers report",
    fallback: 10_000,
    read: readWhole({ min: 100, max: dayMs, unit: "milliseconds" }),
  },
  lease: {
    word: "MS",
    help: "how long a silent worker keeps its work",
    fallback: 30_000,
    read: readWhole({ min: 200, max: dayMs, unit: "milliseconds" }),
  },
  ackDeadline: {
    word: "MS",
    help: "how long a dispatch may stay unacknowledged",
    fallback: 5_000,
    read: readWhole({ min: 100, max: dayMs, unit: "milliseconds" }),
  },
  logLevel: { word: "LEVEL", help: logLevels.join(" | "), fallback: "info" as LogLevel, read: readLevel },
  cluster: {
    word: "NAME",
    help: "name of this installation; a store belongs to one, and its schedulers all say the same",
    fallback: "default",
    read: readName,
  },
  replica: {
    word: "NAME",
    help: "name of this scheduler, one of its own for each in a cluster; by default made once and kept in the data folder",
    fallback: "",
    read: readName,
  },
  turnsInFlight: {
    word: "N",
    help: "on PostgreSQL: turns that may be under way at once",
    fallback: 3,
    read: readWhole({ min: 1, max: 4, unit: "turns" }),
  },
  tlsCert: { word: "FILE", help: "certificate chain (PEM): https and wss instead of http and ws", fallback: "", read: readText },
  tlsKey: { word: "FILE", help: "its private key (PEM, without a passphrase)", fallback: "", read: readText },
  clientCa: {
    word: "FILE",
    help: "authorities (PEM) whose certificates workers may show; all these files are read again when they change",
    fallback: "",
    read: readText,
  },
  trustDomain: {
    word: "NAME",
    help: "with --client-ca: workers are spiffe://NAME/tenant/TENANT[/worker/INSTANCE]",
    fallback: "",
    read: readTrustDomain,
  },
  insecureListen: {
    word: null,
    help: "allow an address that other machines reach although nothing is encrypted",
    fallback: false,
    read: readSwitch,
  },
  sessionToken: {
    word: "MS",
    help: "how long a session token lives",
    fallback: 3_600_000,
    read: readWhole({ min: 1_000, max: dayMs, unit: "milliseconds" }),
  },
  sessionKeyAge: {
    word: "MS",
    help: "how long one key signs session tokens before the next does",
    fallback: dayMs,
    read: readWhole({ min: 1_000, max: 365 * dayMs, unit: "milliseconds" }),
  },
  sendWindow: {
    word: "N",
    help: "frames in flight to a worker; by default 64, or 1024 for workers that can",
    fallback: 0,
    read: readWindow,
  },
  recvWindow: { word: "N", help: "frames in flight from a worker; by default likewise", fallback: 0, read: readWindow },
  drainMemory: {
    word: "PERCENT",
    help: "a worker with this much of its memory in use gets nothing new; 101 is never",
    fallback: 90,
    read: readPercent,
  },
  drainDisk: {
    word: "PERCENT",
    help: "a worker with this much of its disk in use gets nothing new; 101 is never",
    fallback: 95,
    read: readPercent,
  },
  saturated: {
    word: "MS",
    help: "a worker that has been full for this long is called saturated",
    fallback: 60_000,
    read: readWhole({ min: 100, max: dayMs, unit: "milliseconds" }),
  },
  timeScale: { word: "X", help: "for tests, with --dev: the store's clock runs X times faster", fallback: 1, read: readScale },
} as const satisfies Record<string, SettingRow<unknown>>;

export type SettingKey = keyof typeof settingTable;
/** Rows are read as one type with a literal fallback; this is the type they hold. */
type Widen<T> = T extends number ? number : T extends boolean ? boolean : T;
type TextKey =
  | "respListen"
  | "dataDir"
  | "blobDir"
  | "store"
  | "cluster"
  | "replica"
  | "tlsCert"
  | "tlsKey"
  | "clientCa"
  | "trustDomain";
export type SchedulerSettings = {
  readonly [K in SettingKey]: K extends TextKey ? string : Widen<(typeof settingTable)[K]["fallback"]>;
};

export const settingKeys = Object.keys(settingTable) as SettingKey[];
export const environmentPrefix = "ASTRA_SCHEDULER_";
export const flagOf = (key: string): string => `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
export const variableOf = (key: string): string =>
  environmentPrefix + key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
