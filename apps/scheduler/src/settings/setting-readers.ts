// How the texts of the scheduler's settings are read: addresses, names, switches, numbers, tokens.

import { isIP } from "node:net";
import type { Permission, SchemaMode } from "@astraflow/protocol";
import { fileOrigin, limits, schemaModes, userRoles } from "@astraflow/protocol";
import { allGrants, grantsForRoles, tenantGrants } from "@astraflow/services";
import { type SettingOrigin, SettingProblem } from "@astraflow/settings";

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** A token as it was given: the secret itself, or the file that holds it. */
export interface TokenSetting {
  readonly name: string;
  readonly tenant: string;
  readonly grants: readonly Permission[];
  readonly secret: string | null;
  readonly file: string | null;
}

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

/** Names of clusters, schedulers and tokens. */
export const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
export const dayMs = 86_400_000;

export function readText(text: string): string | SettingProblem {
  return text.trim() === "" ? new SettingProblem("is empty; leave it out to get its default") : text;
}

export function readAddress(text: string): Address | SettingProblem {
  const cut = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text.trim());
  const port = Number(cut?.[3]);
  if (!cut || port > 65_535)
    return new SettingProblem(`is "${text}", which is not HOST:PORT; write it like 127.0.0.1:8080, port 0 picks a free one`);
  return { host: cut[1] ?? cut[2] ?? "", port };
}

export function readName(text: string): string | SettingProblem {
  return namePattern.test(text)
    ? text
    : new SettingProblem(`is "${text}"; use up to 63 letters, digits, dots, dashes or underscores, a letter or digit first`);
}

/** An origin as browsers send it: scheme, host and port, nothing else. */
export function readOrigin(text: string): readonly string[] | SettingProblem {
  const origin = URL.canParse(text) ? new URL(text).origin : "null";
  if (origin === text && /^https?:/.test(origin)) return [origin];
  if (text === "*")
    return new SettingProblem(
      "is *, which would let every page on the web use the API; name each origin, like https://dashboard.example",
    );
  const hint = /^https?:/.test(origin)
    ? `; did you mean ${origin}?`
    : ", like https://dashboard.example or http://localhost:5173";
  return new SettingProblem(`is "${text}"; write scheme, host and port as a browser does${hint}`);
}

/** An address that others can put a path behind; without a slash at its end. */
export function readPublicUrl(text: string): string | SettingProblem {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPlain =
    url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.search}${url.hash}` === "";
  return isPlain ? text.replace(/\/+$/, "") : new SettingProblem(`is "${text}"; write it like https://astra.example`);
}

/** Scheme, host and port, or `file:`. */
export function readPackageOrigin(text: string): readonly string[] | SettingProblem {
  const { protocol = "", origin = "" } = URL.canParse(text) ? new URL(text) : {};
  if (text === fileOrigin || (origin === text && /^https?:$/.test(protocol))) return [text];
  return new SettingProblem(`is "${text}"; write scheme, host and port, like http://packages.lan:8000, or file:`);
}

/** An address or a network in CIDR notation. */
export function readProxy(text: string): readonly string[] | SettingProblem {
  const [address = "", bits, ...rest] = text.split("/");
  const bitsMax = isIP(address) === 6 ? 128 : 32;
  const hasBits = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax);
  if (isIP(address) !== 0 && hasBits && rest.length === 0) return [text];
  return new SettingProblem(`is "${text}"; write an address or a network, like 10.0.0.5 or 10.0.0.0/8`);
}

/** Trust domains of certificates, spelled as their names are: lowercase. */
export function readTrustDomain(text: string): string | SettingProblem {
  return /^[a-z0-9][a-z0-9._-]{0,254}$/.test(text)
    ? text
    : new SettingProblem(`is "${text}"; write it like prod.example, in lowercase and without spiffe://`);
}

export function readSwitch(text: string): boolean | SettingProblem {
  if (["", "1", "true", "yes", "on"].includes(text.toLowerCase())) return true;
  if (["0", "false", "no", "off"].includes(text.toLowerCase())) return false;
  return new SettingProblem(`is "${text}"; it is a switch, write true or false`);
}

export function readWhole(range: { min: number; max: number; unit: string }): (text: string) => number | SettingProblem {
  return (text) => {
    const value = /^\d{1,15}$/.test(text.trim()) ? Number(text) : Number.NaN;
    if (value >= range.min && value <= range.max) return value;
    return new SettingProblem(`is "${text}"; it must be a whole number of ${range.unit} from ${range.min} to ${range.max}`);
  };
}

const ageUnitsMs: Readonly<Record<string, number>> = { d: dayMs, h: 3_600_000, m: 60_000, s: 1_000 };
const ageDaysMax = 36_500;

/** How long something is kept: a number and its unit; null: for ever. */
export function readAge(text: string): number | null | SettingProblem {
  const trimmed = text.trim().toLowerCase();
  if (trimmed === "off" || trimmed === "0") return null;
  const [, count = "", unit = ""] = /^(\d{1,9})([dhms])$/.exec(trimmed) ?? [];
  const ms = Number(count) * (ageUnitsMs[unit] ?? Number.NaN);
  if (ms > 0 && ms <= ageDaysMax * dayMs) return ms;
  return new SettingProblem(`is "${text}"; write a time like 30d, 12h, 15m or 90s, or off to keep it for ever`);
}

/** How many of something are kept; null: all. */
export function readKeptCount(text: string): number | null | SettingProblem {
  const trimmed = text.trim().toLowerCase();
  if (trimmed === "off" || trimmed === "0") return null;
  const count = /^\d{1,9}$/.test(trimmed) ? Number(trimmed) : Number.NaN;
  return count > 0 ? count : new SettingProblem(`is "${text}"; write a whole number, or off for any number`);
}

/** Of memory and disk; 101 is never reached. A worker is given work again five points below. */
export const readPercent = readWhole({ min: 6, max: 101, unit: "percent" });
export const readWindow = readWhole({ min: 1, max: limits.windowMax, unit: "frames" });

export function readScale(text: string): number | SettingProblem {
  const value = /^\d{1,4}(\.\d{1,3})?$/.test(text.trim()) ? Number(text) : Number.NaN;
  return value >= 1 && value <= 1_000 ? value : new SettingProblem(`is "${text}"; it must be a number from 1 to 1000`);
}

export function readSchemaMode(text: string): SchemaMode | SettingProblem {
  const mode = schemaModes.find((one) => one === text.toLowerCase());
  return mode ?? new SettingProblem(`is "${text}"; it must be one of ${schemaModes.join(", ")}`);
}

export function readLevel(text: string): LogLevel | SettingProblem {
  const level = logLevels.find((one) => one === text.toLowerCase());
  return level ?? new SettingProblem(`is "${text}"; it must be one of ${logLevels.join(", ")}`);
}

/** `NAME[/TENANT]=SECRET` or `NAME[/TENANT]=@FILE`. A command line is readable by every user of the machine, so there only the second. */
export function readToken(text: string, origin: SettingOrigin): readonly TokenSetting[] | SettingProblem {
  const cut = /^([^=/:]+)(?:\/([^=/:]+))?(?::([^=/:]*))?=(.+)$/s.exec(text);
  // The value may be a secret: it is never repeated in the message.
  if (!cut) return new SettingProblem("has a value that is not NAME=@FILE, NAME/TENANT=@FILE or NAME/TENANT:GRANTS=@FILE");
  const [, name = "", tenant = "default", grantNames, value = ""] = cut;
  if (!namePattern.test(name) || !namePattern.test(tenant)) {
    return new SettingProblem("names a token or tenant with other characters than letters, digits, dots, dashes and underscores");
  }
  const grants = grantNames === undefined ? tenantGrants : readGrants(grantNames);
  if (grants === null) {
    const roles = userRoles.filter((role) => role !== "admin");
    return new SettingProblem(
      `gives "${name}" the grants "${grantNames}"; there are ${allGrants.join(", ")} and the roles ${roles.join(", ")}, joined by +`,
    );
  }
  if (value.startsWith("@")) return [{ name, tenant, grants, secret: null, file: value.slice(1) }];
  if (origin === "flag") {
    return new SettingProblem(
      `shows the secret of "${name}" to everyone who can list processes; put it into a file and pass --token ${name}=@FILE, or set ASTRA_SCHEDULER_TOKEN`,
    );
  }
  return [{ name, tenant, grants, secret: value, file: null }];
}

/** Grants and roles by name; `admin` alone is the grant. Null where a name is neither, or is repeated. */
function readGrants(names: string): readonly Permission[] | null {
  const parts = names.split("+");
  if (new Set(parts).size !== parts.length) return null;
  const given = parts.map((part) => {
    const grant = allGrants.find((one) => one === part);
    const role = userRoles.find((one) => one === part);
    return grant !== undefined ? [grant] : role !== undefined ? grantsForRoles([role]) : null;
  });
  return given.includes(null) ? null : allGrants.filter((grant) => given.some((some) => some?.includes(grant)));
}

/** A file with the password of a tenant's first user. */
export interface AdminPasswordSetting {
  readonly tenant: string;
  readonly file: string;
}

/** `FILE` or `TENANT=FILE`. */
export function readAdminPasswordFile(text: string): readonly AdminPasswordSetting[] | SettingProblem {
  const cut = /^(?:([^=/]*)=)?(.+)$/s.exec(text.trim());
  const [, tenant = "default", file = ""] = cut ?? [];
  if (file === "" || !namePattern.test(tenant)) return new SettingProblem("must be FILE or TENANT=FILE");
  return [{ tenant, file }];
}
