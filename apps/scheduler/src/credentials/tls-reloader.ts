// Looks at the files of TLS again: good new ones are taken into use, broken ones are told of and the old ones kept. Live connections
// go on with what they have. How files are judged is in tls-credentials.ts.

import type { Log } from "../platform/log.ts";
import { type ServerTlsCredentials, TlsFileError } from "./tls-credentials.ts";

/** A certificate that ends within this is told of, once. */
const warnBeforeMs = 7 * 86_400_000;

export interface TlsReloaderOptions {
  readonly first: ServerTlsCredentials;
  /** Throws a TlsFileError where the files cannot be used. */
  read(): Promise<ServerTlsCredentials>;
  readonly log: Log;
  readonly now: () => number;
  /** From now on new connections use these. */
  apply(material: ServerTlsCredentials): void;
  /** An authority that was trusted is so no longer. */
  onAuthorityRemoved(): void;
}

export interface TlsReloader {
  reload(): Promise<void>;
}

export function createTlsReloader({ first, read, log, now, apply, onAuthorityRemoved }: TlsReloaderOptions): TlsReloader {
  let used = first;
  let lastProblem = "";
  let lastAge = "";

  /** Once for each certificate and each word. */
  const warnOfExpiry = (): void => {
    const event = used.expiresAt <= now() ? "tls.expired" : used.expiresAt - now() <= warnBeforeMs ? "tls.expiring" : "";
    const age = `${event} ${used.expiresAt}`;
    if (event !== "" && age !== lastAge)
      log[event === "tls.expired" ? "error" : "warn"]({ until: new Date(used.expiresAt).toISOString() }, event);
    lastAge = age;
  };
  warnOfExpiry();

  return {
    async reload() {
      warnOfExpiry();
      let fresh: ServerTlsCredentials;
      try {
        fresh = await read();
      } catch (cause) {
        if (!(cause instanceof TlsFileError)) throw cause;
        if (cause.message !== lastProblem) log.error({ problem: cause.message }, "tls.kept");
        lastProblem = cause.message;
        return;
      }
      lastProblem = "";
      if (fresh.cert === used.cert && fresh.key === used.key && fresh.ca === used.ca) return;
      const lost = used.authorities.filter((one) => !fresh.authorities.includes(one));
      used = fresh;
      apply(fresh);
      log.info({ until: new Date(fresh.expiresAt).toISOString(), authorities: fresh.authorities.length }, "tls.changed");
      if (lost.length > 0) onAuthorityRemoved();
    },
  };
}
