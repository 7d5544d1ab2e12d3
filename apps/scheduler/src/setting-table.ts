// Every setting of the scheduler, one row each: its flag, its meaning, how its words are read. Flags, environment, file and
// --help are all made from this table. Where the words come from is in setting-sources.ts; what they must be together in config.ts.

/** Why a value cannot be used, as the end of a sentence that begins with the setting's name. */
export class Refusal {
  readonly reason: string;
  constructor(reason: string) {
    this.reason = reason;
  }
}

export type Origin = "flag" | "environment" | "file";

export interface SettingRow<T> {
  /** The word after the flag in --help; null for a switch. */
  readonly word: string | null;
  readonly help: string;
  readonly fallback: T;
  /** May be given several times; the values are collected. */
  readonly isMany?: boolean;
  read(text: string, origin: Origin): T | Refusal;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** A token as it was given: the secret itself, or the file that holds it. */
export interface TokenSetting {
  readonly name: string;
  readonly tenant: string;
  readonly secret: string | null;
  readonly file: string | null;
}

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

/** Names of clusters, schedulers and tokens. */
export const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const dayMs = 86_400_000;

function readText(text: string): string | Refusal {
  return text.trim() === "" ? new Refusal("is empty; leave it out to get its default") : text;
}

function readAddress(text: string): Address | Refusal {
  const cut = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text.trim());
  const port = Number(cut?.[3]);
  if (!cut || port > 65_535)
    return new Refusal(`is "${text}", which is no HOST:PORT; write it like 127.0.0.1:8080, port 0 picks a free one`);
  return { host: cut[1] ?? cut[2] ?? "", port };
}

function readName(text: string): string | Refusal {
  return namePattern.test(text)
    ? text
    : new Refusal(`is "${text}"; use up to 63 letters, digits, dots, dashes or underscores, a letter or digit first`);
}

function readSwitch(text: string): boolean | Refusal {
  if (["", "1", "true", "yes", "on"].includes(text.toLowerCase())) return true;
  if (["0", "false", "no", "off"].includes(text.toLowerCase())) return false;
  return new Refusal(`is "${text}"; it is a switch, write true or false`);
}

function readWhole(range: { min: number; max: number; unit: string }): (text: string) => number | Refusal {
  return (text) => {
    const value = /^\d{1,15}$/.test(text.trim()) ? Number(text) : Number.NaN;
    if (value >= range.min && value <= range.max) return value;
    return new Refusal(`is "${text}"; it must be a whole number of ${range.unit} from ${range.min} to ${range.max}`);
  };
}

function readScale(text: string): number | Refusal {
  const value = /^\d{1,4}(\.\d{1,3})?$/.test(text.trim()) ? Number(text) : Number.NaN;
  return value >= 1 && value <= 1_000 ? value : new Refusal(`is "${text}"; it must be a number from 1 to 1000`);
}

function readLevel(text: string): LogLevel | Refusal {
  const level = logLevels.find((one) => one === text.toLowerCase());
  return level ?? new Refusal(`is "${text}"; it must be one of ${logLevels.join(", ")}`);
}

/** `NAME[/TENANT]=SECRET` or `NAME[/TENANT]=@FILE`. A command line is readable by every user of the machine, so there only the second. */
function readToken(text: string, origin: Origin): readonly TokenSetting[] | Refusal {
  const cut = /^([^=/]+)(?:\/([^=/]+))?=(.+)$/s.exec(text);
  // The value may be a secret: it is never repeated in the message.
  if (!cut) return new Refusal("has a value that is not NAME=@FILE or NAME/TENANT=@FILE");
  const [, name = "", tenant = "default", value = ""] = cut;
  if (!namePattern.test(name) || !namePattern.test(tenant)) {
    return new Refusal("names a token or tenant with other characters than letters, digits, dots, dashes and underscores");
  }
  if (value.startsWith("@")) return [{ name, tenant, secret: null, file: value.slice(1) }];
  if (origin === "flag") {
    return new Refusal(
      `shows the secret of "${name}" to everyone who can list processes; put it into a file and pass --token ${name}=@FILE, or set ASTRA_SCHEDULER_TOKEN`,
    );
  }
  return [{ name, tenant, secret: value, file: null }];
}

const none: readonly TokenSetting[] = [];

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
    help: "a token callers may use, NAME/TENANT=@FILE for another tenant; repeatable",
    fallback: none,
    isMany: true,
    read: readToken,
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
  unsafePlaintext: {
    word: null,
    help: "allow an address that other machines reach although nothing is encrypted",
    fallback: false,
    read: readSwitch,
  },
  timeScale: { word: "X", help: "for tests, with --dev: the store's clock runs X times faster", fallback: 1, read: readScale },
} as const satisfies Record<string, SettingRow<unknown>>;

export type SettingKey = keyof typeof settingTable;
/** Rows are read as one type with a literal fallback; this is the type they hold. */
type Widen<T> = T extends number ? number : T extends boolean ? boolean : T;
export type Settings = {
  readonly [K in SettingKey]: K extends "respListen" | "dataDir" | "store" | "cluster" | "replica"
    ? string
    : Widen<(typeof settingTable)[K]["fallback"]>;
};

export const settingKeys = Object.keys(settingTable) as SettingKey[];
export const environmentPrefix = "ASTRA_SCHEDULER_";
export const flagOf = (key: string): string => `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
export const variableOf = (key: string): string =>
  environmentPrefix + key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
