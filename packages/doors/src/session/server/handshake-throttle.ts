// Slows down addresses that guess tokens or open sockets without a handshake. A handshake that has to wait is held, not refused: one with the right
// token is admitted all the same, at most a few seconds later. Workers that joined from an address before do not wait for what others do there, so that
// the many workers behind one gateway are not slowed down by one of them.

import { createHash } from "node:crypto";
import { LruMap } from "@astraflow/protocol";
import { addressBlockOf, FailureThrottle, type ServiceEnvironment } from "@astraflow/services";

export const handshakeThrottleLimits = {
  /** For one worker's name from one address. */
  worker: { freeFailures: 5, delayMsMax: 5_000 },
  /** For everything from one address: different wrong tokens, and sockets without a handshake. */
  address: { freeFailures: 20, delayMsMax: 5_000 },
  sizes: { entriesMax: 20_000, forgetMs: 600_000 },
  /** Workers and addresses that have joined, and how long that counts. */
  knownMax: 20_000,
  knownMs: 30 * 86_400_000,
  /** Wrong tokens that are remembered: a worker that repeats its own, or a fleet with an expired one, is no guesser. */
  wrongTokensMax: 20_000,
  /** Sockets of a slowed address that may wait without a session: with the delay they bound its guesses. */
  placesWhenSlowed: 16,
  placesWhenSlowedAndKnown: 100,
} as const;

/** Who a handshake claims to be, and from where. */
export interface HandshakeOrigin {
  readonly address: string;
  readonly tenant: string;
  readonly instance: string;
}

export class HandshakeThrottle {
  readonly #monotonic: () => number;
  readonly #throttle: FailureThrottle;
  /** By address, and by address and worker: when somebody joined last. Only a success adds one, so failures drop none. */
  readonly #known = new LruMap<string, number>({ entriesMax: handshakeThrottleLimits.knownMax, touchOnGet: false });
  /** By address and digest. */
  readonly #wrongTokens = new LruMap<string, true>({ entriesMax: handshakeThrottleLimits.wrongTokensMax });

  constructor({ clock }: Pick<ServiceEnvironment, "clock">) {
    this.#monotonic = () => clock.monotonic();
    this.#throttle = new FailureThrottle(this.#monotonic, handshakeThrottleLimits.sizes);
  }

  /** How long a handshake has to wait before it is looked at; 0: not at all. */
  waitMs(origin: HandshakeOrigin): number {
    const worker = workerKey(origin);
    return Math.max(this.#throttle.waitMs(worker), this.#isKnown(worker) ? 0 : this.addressWaitMs(origin.address));
  }

  addressWaitMs(address: string): number {
    return this.#throttle.waitMs(addressKey(address));
  }

  /** How many sockets of an address may be open without a session. */
  placesOf(address: string, usual: number): number {
    if (this.addressWaitMs(address) === 0) return usual;
    const { placesWhenSlowed, placesWhenSlowedAndKnown } = handshakeThrottleLimits;
    return Math.min(usual, this.#isKnown(addressKey(address)) ? placesWhenSlowedAndKnown : placesWhenSlowed);
  }

  /** A handshake was refused. `token`: what it showed. */
  countRefusal(origin: HandshakeOrigin, token: string | null): void {
    this.#throttle.countFailure(workerKey(origin), handshakeThrottleLimits.worker);
    const key = `${addressKey(origin.address)} ${createHash("sha256")
      .update(token ?? "")
      .digest("base64url")}`;
    if (token !== null && this.#wrongTokens.get(key) === true) return;
    this.#wrongTokens.set(key, true);
    this.countSilence(origin.address);
  }

  /** A socket ended without a handshake, or with a first frame that is none. */
  countSilence(address: string): void {
    this.#throttle.countFailure(addressKey(address), handshakeThrottleLimits.address);
  }

  recordSuccess(origin: HandshakeOrigin): void {
    const worker = workerKey(origin);
    const now = this.#monotonic();
    this.#known.set(worker, now);
    this.#known.set(addressKey(origin.address), now);
    // The address stays as slow as it is: a token of one's own must not be a way to guess at others for ever.
    this.#throttle.forget(worker);
  }

  #isKnown(key: string): boolean {
    const at = this.#known.get(key);
    return at !== undefined && this.#monotonic() - at < handshakeThrottleLimits.knownMs;
  }
}

const addressKey = (address: string): string => `address ${addressBlockOf(address)}`;
const workerKey = ({ address, tenant, instance }: HandshakeOrigin): string =>
  `worker ${addressBlockOf(address)} ${tenant.slice(0, 100)}/${instance.slice(0, 200)}`;
