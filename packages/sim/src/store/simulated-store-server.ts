// The store as a machine of its own: the weak memory store with a clock, latencies and injected faults. There is one for the whole world; a scheduler
// reaches it through store-connection.ts.

import { MemoryCluster, type StoreMutant, type StorePausePoint } from "@astraflow/store";
import { FaultIntensity } from "../kernel/fault-intensity.ts";
import type { MachineClock } from "../kernel/machine-clock.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";

export interface SimulatedStoreOptions {
  readonly timeline: Timeline;
  readonly random: SeededRandom;
  readonly clock: MachineClock;
  readonly latencyMs: number;
  readonly mutant: StoreMutant | null;
  /** A replica runs turn after turn without any reason. */
  readonly onTurnLoop: (replica: string, message: string) => void;
}

export class SimulatedStoreServer {
  readonly cluster: MemoryCluster;
  readonly #rates = { busy: 0, fail: 0, unknown: 0 };
  readonly busy = new FaultIntensity((share) => void (this.#rates.busy = share));
  readonly fail = new FaultIntensity((share) => void (this.#rates.fail = share));
  readonly unknown = new FaultIntensity((share) => void (this.#rates.unknown = share));
  /** Added to every step, up to so many milliseconds. */
  readonly slow = new FaultIntensity();
  /** Faults under way during which nothing goes on. */
  #stallCount = 0;
  #waitingForStallEnd: (() => void)[] = [];
  readonly #timeline: Timeline;
  readonly #random: SeededRandom;
  readonly #latencyMs: number;
  readonly #turnLoopDetector: TurnLoopDetector;

  constructor(options: SimulatedStoreOptions) {
    const { timeline, random, clock, mutant } = options;
    this.#timeline = timeline;
    this.#random = random.fork("latency");
    this.#latencyMs = options.latencyMs;
    this.#turnLoopDetector = new TurnLoopDetector(timeline, options.onTurnLoop);
    this.cluster = new MemoryCluster({
      mode: "weak",
      random: random.fork("fate"),
      clock: { mono: () => clock.mono(), wall: () => clock.wall() },
      rates: this.#rates,
      pauseAt: (at) => this.#delayStep(at),
      ...(mutant !== null && { mutant }),
    });
  }

  stallAll(): () => void {
    this.#stallCount++;
    return () => {
      this.#stallCount--;
      if (this.#stallCount > 0) return;
      const waiting = this.#waitingForStallEnd;
      this.#waitingForStallEnd = [];
      for (const go of waiting) this.#timeline.after(this.#delayMs(), go);
    };
  }

  #delayStep({ step, replica }: StorePausePoint): Promise<void> {
    if (step === "begin") this.#turnLoopDetector.recordTurn(replica);
    return new Promise((resolve) => {
      if (this.#stallCount > 0) this.#waitingForStallEnd.push(resolve);
      else this.#timeline.after(this.#delayMs() + (step === "late" ? this.#lateCommitMs() : 0), resolve);
    });
  }

  /** A commit whose answer was lost may stay open for a while: longer than most, shorter than calm takes to come. */
  #lateCommitMs(): number {
    return this.#latencyMs * this.#random.logUniform(1, 200);
  }

  #delayMs(): number {
    return this.#latencyMs * this.#random.logUniform(0.3, 3) + this.slow.level * this.#random.random();
  }
}

/** More turns than this in a second of true time. Store latencies alone allow a few thousand, so this is a loop that never rests. */
const turnsMax = 2_500;
const windowMs = 1_000;

/** Detects an engine that runs turn after turn without any reason. */
export class TurnLoopDetector {
  readonly #timeline: Timeline;
  readonly #onDetected: (replica: string, message: string) => void;
  readonly #turns = new Map<string, { since: number; count: number }>();

  constructor(timeline: Timeline, onDetected: (replica: string, message: string) => void) {
    this.#timeline = timeline;
    this.#onDetected = onDetected;
  }

  recordTurn(replica: string): void {
    const { now } = this.#timeline;
    const seen = this.#turns.get(replica);
    if (seen === undefined || now - seen.since > windowMs) this.#turns.set(replica, { since: now, count: 1 });
    else if (++seen.count === turnsMax) this.#onDetected(replica, `${turnsMax} turns in ${Math.round(now - seen.since)} ms`);
  }
}
