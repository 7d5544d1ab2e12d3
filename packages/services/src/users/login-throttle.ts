// How often a password may be tried: by address and name, and by address. Nothing is counted for a name alone, so nobody can lock a user out
// from elsewhere.

import { LruMap } from "@astraflow/protocol";
import { addressBlockOf } from "../identity/address-block.ts";
import { FailureThrottle } from "../identity/failure-throttle.ts";

export const loginThrottleLimits = {
  /** For one name from one address. */
  name: { freeFailures: 5, delayMsMax: 300_000 },
  /** For all names from one address: people behind one gateway share it. */
  address: { freeFailures: 20, delayMsMax: 60_000 },
  sizes: { entriesMax: 20_000, forgetMs: 3_600_000 },
  /** Addresses from which a user has signed in, and how long that counts. */
  knownMax: 20_000,
  knownMs: 30 * 86_400_000,
} as const;

export interface LoginAttemptOrigin {
  readonly tenant: string;
  readonly username: string;
  readonly address: string;
}

/** An attempt that may be evaluated. It counts as failed until it is reported as right. */
export interface CountedLoginAttempt {
  reportSuccess(): void;
  /** It was not evaluated after all. */
  withdraw(): void;
}

export class LoginThrottle {
  readonly #throttle: FailureThrottle;
  readonly #monotonic: () => number;
  /** By address and name: when the user signed in from there last. Only a success adds one, so guessing drops none. */
  readonly #known = new LruMap<string, number>({ entriesMax: loginThrottleLimits.knownMax, touchOnGet: false });

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
    this.#throttle = new FailureThrottle(monotonic, loginThrottleLimits.sizes);
  }

  /** The milliseconds to wait where the attempt comes too early; such an attempt is neither counted nor evaluated. */
  countAttempt({ tenant, username, address }: LoginAttemptOrigin): CountedLoginAttempt | number {
    const throttle = this.#throttle;
    const block = addressBlockOf(address);
    const byAddress = `address ${block}`;
    const byName = `name ${block} ${tenant}/${username.normalize("NFC").toLowerCase().slice(0, 100)}`;
    // A known device does not wait for the guesses of others who share its address.
    const waitMs = Math.max(throttle.waitMs(byName), this.#isKnown(byName) ? 0 : throttle.waitMs(byAddress));
    if (waitMs > 0) return waitMs;
    const uncountForName = throttle.countFailure(byName, loginThrottleLimits.name);
    const uncountForAddress = throttle.countFailure(byAddress, loginThrottleLimits.address);
    return {
      reportSuccess: () => {
        this.#known.set(byName, this.#monotonic());
        throttle.forget(byName);
        // Not forgotten: an account of one's own must not be a way to guess at those of others for ever.
        uncountForAddress();
      },
      withdraw: () => {
        uncountForName();
        uncountForAddress();
      },
    };
  }

  #isKnown(byName: string): boolean {
    const at = this.#known.get(byName);
    return at !== undefined && this.#monotonic() - at < loginThrottleLimits.knownMs;
  }
}
