// Gives the loop back between requests: a round of it begins new ones for some milliseconds, the others wait for later rounds, tenants in turns.
// Hundreds of requests may come in one round, each of some milliseconds, and everybody else would wait for all of them.

import { fault } from "@astraflow/protocol";
import type { ServiceEnvironment } from "@astraflow/services";
import { TenantTurns, type TurnLimits } from "./tenant-turns.ts";

const MiB = 1024 * 1024;
export interface LoopTurnLimits extends TurnLimits {
  /** How long a round begins new requests. */
  readonly roundMs: number;
}
const loopTurnLimits: LoopTurnLimits = {
  roundMs: 10,
  itemsMax: 10_000,
  itemsPerTenantMax: 1_000,
  bytesMax: 256 * MiB,
  bytesPerTenantMax: 32 * MiB,
};

/** After so long there should be room again. */
const retryAfterMs = 1_000;

export class LoopTurns {
  readonly #limits: LoopTurnLimits;
  readonly #now: () => number;
  /** Absent: nothing else waits for the loop. */
  readonly #yieldLoop: (() => Promise<void>) | undefined;
  readonly #turns: TenantTurns<() => void>;
  /** When the current round began its first request; null before that. */
  #roundBegan: number | null = null;

  constructor({ clock, yieldLoop }: ServiceEnvironment, limits: Partial<LoopTurnLimits> = {}) {
    this.#limits = { ...loopTurnLimits, ...limits };
    this.#now = () => clock.monotonic();
    this.#yieldLoop = yieldLoop;
    this.#turns = new TenantTurns(this.#limits);
  }

  /** Null: the caller may begin at once. Otherwise resolves when it may, or rejects with E.OVERLOADED. */
  begin(tenant: string, bytes: number): Promise<void> | null {
    if (this.#yieldLoop === undefined) return null;
    if (this.#roundBegan === null) this.#openRound(this.#yieldLoop);
    // Nobody passes those that wait.
    if (this.#turns.size === 0 && !this.#isSpent()) return null;
    const { promise, resolve } = Promise.withResolvers<void>();
    const refusal = this.#turns.push(tenant, resolve, bytes);
    if (refusal === null) return promise;
    return Promise.reject(
      fault("E.OVERLOADED", `too many requests at once: ${refusal}; try again in a moment`, { retryAfterMs }),
    );
  }

  #isSpent(): boolean {
    return this.#roundBegan !== null && this.#now() - this.#roundBegan >= this.#limits.roundMs;
  }

  #openRound(yieldLoop: () => Promise<void>): void {
    this.#roundBegan = this.#now();
    void yieldLoop().then(() => {
      this.#roundBegan = null;
      if (this.#turns.size === 0) return;
      this.#openRound(yieldLoop);
      this.#beginNext();
    });
  }

  #beginNext(): void {
    if (this.#isSpent()) return;
    const begin = this.#turns.shift();
    if (begin === undefined) return;
    begin();
    // A tick from a microtask comes after all promises that wait for nothing outside: the request has done what it can do now.
    queueMicrotask(() => process.nextTick(() => this.#beginNext()));
  }
}
