// Looks at the files of TLS again: good new ones are taken into use, broken ones are told of and the old ones kept. Live connections
// go on with what they have. How files are judged is in tls-material.ts.

import type { Log } from "./log.ts";
import { type TlsMaterial, TlsProblem } from "./tls-material.ts";

/** A certificate that ends within this is told of, once. */
const warnBeforeMs = 7 * 86_400_000;

export interface TlsWatchOptions {
  readonly first: TlsMaterial;
  /** Throws a TlsProblem where the files cannot be used. */
  read(): Promise<TlsMaterial>;
  readonly log: Log;
  readonly now: () => number;
  /** From now on new connections use these. */
  use(material: TlsMaterial): void;
  /** An authority that was trusted is so no longer. */
  distrust(): void;
}

export interface TlsWatch {
  look(): Promise<void>;
}

export function watchTls({ first, read, log, now, use, distrust }: TlsWatchOptions): TlsWatch {
  let used = first;
  let lastProblem = "";
  let lastAge = "";

  /** Once for each certificate and each word. */
  const warnOfAge = (): void => {
    const event = used.expiresAt <= now() ? "tls.expired" : used.expiresAt - now() <= warnBeforeMs ? "tls.expiring" : "";
    const age = `${event} ${used.expiresAt}`;
    if (event !== "" && age !== lastAge)
      log[event === "tls.expired" ? "error" : "warn"]({ until: new Date(used.expiresAt).toISOString() }, event);
    lastAge = age;
  };
  warnOfAge();

  return {
    async look() {
      warnOfAge();
      let seen: TlsMaterial;
      try {
        seen = await read();
      } catch (cause) {
        if (!(cause instanceof TlsProblem)) throw cause;
        if (cause.message !== lastProblem) log.error({ problem: cause.message }, "tls.kept");
        lastProblem = cause.message;
        return;
      }
      lastProblem = "";
      if (seen.cert === used.cert && seen.key === used.key && seen.ca === used.ca) return;
      const lost = used.authorities.filter((one) => !seen.authorities.includes(one));
      used = seen;
      use(seen);
      log.info({ until: new Date(seen.expiresAt).toISOString(), authorities: seen.authorities.length }, "tls.changed");
      if (lost.length > 0) distrust();
    },
  };
}
