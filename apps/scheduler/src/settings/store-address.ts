// The address of the store: a file, or a PostgreSQL server with a password in its URL. Reads --store, describes the address without its
// password, and masks the password in everything that is printed. Opening the store is engine-start.ts.

import { resolve } from "node:path";
import { SettingProblem } from "@astraflow/settings";

export type StoreAddress =
  | { readonly of: "sqlite"; readonly file: string }
  /** `url` holds the password: it goes to the store and nowhere else. */
  | { readonly of: "postgres"; readonly url: string };

export const passwordEscapeHint = "in a password write % as %25, / as %2F, # as %23, ? as %3F and @ as %40";

/** Shorter passwords occur inside other words; masking them would only garble the log. */
const secretCharsMin = 4;

/** The driver takes `require` and `verify-ca` for `verify-full`, with a page of warning; `prefer` would promise less than it does. */
const sslModes: Readonly<Record<string, string>> = {
  disable: "disable",
  require: "verify-full",
  "verify-ca": "verify-full",
  "verify-full": "verify-full",
  "no-verify": "no-verify",
};

export function parseStoreAddress(text: string, dataDir: string): StoreAddress | SettingProblem {
  if (text === "") return { of: "sqlite", file: resolve(dataDir, "astra.db") };
  if (/^postgres(ql)?:/i.test(text)) return parsePostgresAddress(text);
  const file = text.replace(/^sqlite:(\/\/)?/, "");
  if (text.startsWith("sqlite:") && file !== "") return { of: "sqlite", file: resolve(file) };
  // Only the part that cannot be a secret is repeated: it may be a misspelled address with a password in it.
  const scheme = /^[a-z][a-z0-9+.-]{0,20}:/i.exec(text)?.[0] ?? "something else";
  return new SettingProblem(`begins with ${scheme}; it must be sqlite:FILE or postgres://USER:PASSWORD@HOST:PORT/DATABASE`);
}

function parsePostgresAddress(text: string): StoreAddress | SettingProblem {
  const url = URL.parse(text);
  // A / or # in a password ends the part of the address that could hold one; nothing of such a text is repeated.
  const isCutShort = url === null ? text.includes("@") : url.username + url.password === "" && /^[^?]*@/.test(text);
  if (isCutShort)
    return new SettingProblem(`is not an address; write postgres://USER:PASSWORD@HOST:PORT/DATABASE, and ${passwordEscapeHint}`);
  if (url === null || (url.hostname === "" && !url.searchParams.has("host")))
    return new SettingProblem("is not the address of a PostgreSQL server; write postgres://USER:PASSWORD@HOST:PORT/DATABASE");
  if (!/^\/[^/]+$/.test(url.pathname))
    return new SettingProblem(`has no database name; write postgres://USER:PASSWORD@HOST:PORT/DATABASE`);
  if (decodePassword(url) === null)
    return new SettingProblem("has a password that is not written as addresses are; replace each % in it by %25");
  const given = url.searchParams.get("sslmode");
  // Who asks for the meanings of libpq gets them from the driver.
  if (given === null || url.searchParams.has("uselibpqcompat")) return { of: "postgres", url: text };
  const mode = Object.hasOwn(sslModes, given) ? sslModes[given] : undefined;
  if (mode === undefined)
    return new SettingProblem(
      "has an sslmode that is not known here; write sslmode=verify-full (with sslrootcert=FILE for an authority of your own), no-verify or disable",
    );
  return { of: "postgres", url: text.replace(`sslmode=${given}`, `sslmode=${mode}`) };
}

/** The place as people may see it. */
export function describeStoreAddress(address: StoreAddress): string {
  if (address.of === "sqlite") return address.file;
  const { username, host, pathname } = new URL(address.url);
  return `postgres://${username === "" ? "" : `${username}@`}${host}${pathname}`;
}

/** Takes the secret out of a text, in each form it may have there: as it is, as addresses write it, as JSON writes it. */
export function createPasswordMask(address: StoreAddress): (text: string) => string {
  if (address.of === "sqlite") return (text) => text;
  const url = new URL(address.url);
  const plain = decodePassword(url) ?? "";
  const known = [url.username, url.hostname, url.pathname.slice(1)];
  // What is written beside it in plain sight is no secret.
  if (plain.length < secretCharsMin || known.includes(plain)) return (text) => text;
  const forms = [...new Set([plain, url.password, encodeURIComponent(plain), JSON.stringify(plain).slice(1, -1)])];
  return (text) => forms.reduce((masked, form) => masked.replaceAll(form, "***"), text);
}

function decodePassword(url: URL): string | null {
  try {
    return decodeURIComponent(url.password);
  } catch (cause) {
    if (cause instanceof URIError) return null;
    throw cause;
  }
}
