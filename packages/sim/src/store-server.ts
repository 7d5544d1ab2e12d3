// The store as a machine of its own: the weak memory store behind a clock, latencies and moods that faults switch on. One for the
// whole world; how one scheduler reaches it is store-access.ts.

import { type MemoryCluster, memoryCluster, type Plant, type Step } from "@astraflow/store";
import type { Dice } from "./dice.ts";
import { FaultLevel } from "./fault-level.ts";
import type { MachineClock } from "./machine-clock.ts";
import type { Timeline } from "./timeline.ts";

export interface StoreServerOptions {
  readonly timeline: Timeline;
  readonly dice: Dice;
  readonly clock: MachineClock;
  readonly latencyMs: number;
  readonly plant: Plant | null;
  /** Called at every begin: who asks for turns without end is found out here. */
  readonly turnBegins: (replica: string) => void;
}

export class StoreServer {
  readonly cluster: MemoryCluster;
  readonly #rates = { busy: 0, fail: 0, unknown: 0 };
  #slowMs = 0;
  readonly busy = new FaultLevel((share) => void (this.#rates.busy = share));
  readonly fail = new FaultLevel((share) => void (this.#rates.fail = share));
  readonly unknown = new FaultLevel((share) => void (this.#rates.unknown = share));
  readonly slow = new FaultLevel((ms) => void (this.#slowMs = ms));
  /** Faults under way during which nothing goes on. */
  #stalls = 0;
  #stalled: (() => void)[] = [];
  readonly #timeline: Timeline;
  readonly #dice: Dice;
  readonly #latencyMs: number;
  readonly #turnBegins: (replica: string) => void;

  constructor(options: StoreServerOptions) {
    const { timeline, dice, clock, plant } = options;
    this.#timeline = timeline;
    this.#dice = dice.fork("latency");
    this.#latencyMs = options.latencyMs;
    this.#turnBegins = options.turnBegins;
    this.cluster = memoryCluster({
      mode: "weak",
      dice: dice.fork("fate"),
      clock: { mono: () => clock.mono(), wall: () => clock.wall() },
      rates: this.#rates,
      gate: (at) => this.#gate(at),
      ...(plant !== null && { plant }),
    });
  }

  stall(): () => void {
    this.#stalls++;
    return () => {
      this.#stalls--;
      if (this.#stalls > 0) return;
      const waiting = this.#stalled;
      this.#stalled = [];
      for (const go of waiting) this.#timeline.after(this.#delayMs(), go);
    };
  }

  #gate({ step, replica }: Step): Promise<void> {
    if (step === "begin") this.#turnBegins(replica);
    return new Promise((resolve) => {
      if (this.#stalls > 0) this.#stalled.push(resolve);
      // A commit whose answer was lost may stay open for a while: longer than most, shorter than calm takes to come.
      else this.#timeline.after(this.#delayMs() + (step === "late" ? this.#latencyMs * this.#dice.scale(1, 200) : 0), resolve);
    });
  }

  #delayMs(): number {
    return this.#latencyMs * this.#dice.scale(0.3, 3) + this.#slowMs * this.#dice.roll();
  }
}
