// Reloads the TLS files: valid new ones are used for new connections, broken ones are logged and the old ones stay in use.

import type { Log } from "../platform/log.ts";
import { type ServerTlsCredentials, TlsFileError } from "./tls-credentials.ts";

/** A certificate that expires within this time is logged, once. */
const warnBeforeMs = 7 * 86_400_000;

export interface TlsReloaderOptions {
  readonly first: ServerTlsCredentials;
  /** Throws a TlsFileError if the files cannot be used. */
  read(): Promise<ServerTlsCredentials>;
  readonly log: Log;
  readonly now: () => number;
  /** Uses these for new connections. */
  apply(material: ServerTlsCredentials): void;
  /** A CA that was trusted no longer is. */
  onAuthorityRemoved(): void;
}

/** Returns the function that reloads them. */
export function createTlsReloader(options: TlsReloaderOptions): () => Promise<void> {
  const { read, log, now, apply, onAuthorityRemoved } = options;
  let used = options.first;
  let lastProblem = "";
  let lastAge = "";

  /** Logs each certificate once as expiring and once as expired. */
  const warnOfExpiry = (): void => {
    const event = used.expiresAt <= now() ? "tls.expired" : used.expiresAt - now() <= warnBeforeMs ? "tls.expiring" : "";
    const age = `${event} ${used.expiresAt}`;
    if (event !== "" && age !== lastAge)
      log[event === "tls.expired" ? "error" : "warn"]({ until: new Date(used.expiresAt).toISOString() }, event);
    lastAge = age;
  };
  const useFresh = (fresh: ServerTlsCredentials): void => {
    lastProblem = "";
    if (fresh.cert === used.cert && fresh.key === used.key && fresh.ca === used.ca) return;
    const lost = used.authorities.filter((one) => !fresh.authorities.includes(one));
    used = fresh;
    apply(fresh);
    log.info({ until: new Date(fresh.expiresAt).toISOString(), authorities: fresh.authorities.length }, "tls.changed");
    if (lost.length > 0) onAuthorityRemoved();
  };
  const keepUsed = (cause: unknown): void => {
    if (!(cause instanceof TlsFileError)) throw cause;
    if (cause.message !== lastProblem) log.error({ problem: cause.message }, "tls.kept");
    lastProblem = cause.message;
  };
  warnOfExpiry();
  return () => {
    warnOfExpiry();
    return read().then(useFresh, keepUsed);
  };
}
