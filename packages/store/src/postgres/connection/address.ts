// Where a database is: what a connection needs to find it, and how it may be named to people. The password is in the former only.

import { fault } from "@astraflow/protocol";
import type { ClientConfig } from "pg";

export interface PostgresAddress {
  readonly config: ClientConfig;
  /** `host:port/database`: safe to say in messages and logs. */
  readonly label: string;
  /** Takes the password out of a text that came from elsewhere. */
  redactPassword(text: string): string;
}

const connectMsMax = 5_000;

export function parsePostgresUrl(url: string): PostgresAddress {
  // The parser's own error repeats the address, and with it the password.
  if (!URL.canParse(url)) throw invalidUrlFault();
  const parsed = new URL(url);
  if (parsed.protocol !== "postgres:" && parsed.protocol !== "postgresql:") throw invalidUrlFault();
  const host = parsed.searchParams.get("host") ?? (parsed.hostname === "" ? "localhost" : parsed.hostname);
  const place = `${host}:${parsed.port === "" ? 5432 : parsed.port}${parsed.pathname}`;
  const secrets = [parsed.password, decodePassword(parsed.password), parsed.searchParams.get("password") ?? ""].filter(
    (one) => one !== "",
  );
  return {
    config: {
      connectionString: url,
      connectionTimeoutMillis: connectMsMax,
      keepAlive: true,
      fallback_application_name: "astraflow",
    },
    label: place,
    redactPassword: (text) => secrets.reduce((clean, secret) => clean.replaceAll(secret, "***"), text),
  };
}

function decodePassword(text: string): string {
  return URL.canParse(`x://x/?${text}`) && /^(?:[^%]|%[0-9a-f]{2})*$/i.test(text) ? decodeURIComponent(text) : text;
}

const invalidUrlFault = () =>
  fault("E.STORE.OPEN", "the store URL must have the form postgres://user:password@host:port/database");
