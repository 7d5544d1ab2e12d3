// Where a database is: what a connection needs to find it, and how it may be named to people. The password is in the former only.

import { fault } from "@astraflow/protocol";
import type { ClientConfig } from "pg";

export interface Address {
  readonly config: ClientConfig;
  /** `host:port/database`: safe to say in messages and logs. */
  readonly place: string;
  /** Takes the password out of a text that came from elsewhere. */
  scrub(text: string): string;
}

const connectMsMax = 5_000;

export function readAddress(url: string): Address {
  // The parser's own error repeats the address, and with it the password.
  if (!URL.canParse(url)) throw notAnAddress();
  const parsed = new URL(url);
  if (parsed.protocol !== "postgres:" && parsed.protocol !== "postgresql:") throw notAnAddress();
  const host = parsed.searchParams.get("host") ?? (parsed.hostname === "" ? "localhost" : parsed.hostname);
  const place = `${host}:${parsed.port === "" ? 5432 : parsed.port}${parsed.pathname}`;
  const secrets = [parsed.password, decode(parsed.password), parsed.searchParams.get("password") ?? ""].filter(
    (one) => one !== "",
  );
  return {
    config: {
      connectionString: url,
      connectionTimeoutMillis: connectMsMax,
      keepAlive: true,
      fallback_application_name: "astraflow",
    },
    place,
    scrub: (text) => secrets.reduce((clean, secret) => clean.replaceAll(secret, "***"), text),
  };
}

function decode(text: string): string {
  return URL.canParse(`x://x/?${text}`) && /^(?:[^%]|%[0-9a-f]{2})*$/i.test(text) ? decodeURIComponent(text) : text;
}

const notAnAddress = () =>
  fault("E.STORE.OPEN", "the store's address is not of the form postgres://user:password@host:port/database");
