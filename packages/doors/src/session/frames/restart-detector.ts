// The counter that older workers put at the end of their frame ids: one per process, from 0. The only sign by which they show a restart.
// Volatile and bounded: a scheduler that has not heard a worker before knows no better than the frame in front of it.

const workersMax = 20_000;

export class RestartDetector {
  /** Highest number heard, by worker; the one heard least recently at a handshake first. */
  readonly #highestCounters = new Map<string, number>();

  /** A handshake. True when it must be of another process than what was heard before: a process only counts up. */
  isRestart(worker: string, id: string): boolean {
    const count = parseCounter(id);
    if (count === null) return false;
    const before = this.#highestCounters.get(worker);
    this.#highestCounters.delete(worker);
    this.#highestCounters.set(worker, count);
    if (this.#highestCounters.size > workersMax) this.#evictOldest();
    return count === 0 || (before !== undefined && count < before);
  }

  /** Any later frame of a worker whose handshake was heard. */
  recordFrame(worker: string, id: string): void {
    const count = parseCounter(id);
    const before = this.#highestCounters.get(worker);
    if (count !== null && before !== undefined && count > before) this.#highestCounters.set(worker, count);
  }

  #evictOldest(): void {
    for (const worker of this.#highestCounters.keys()) {
      this.#highestCounters.delete(worker);
      return;
    }
  }
}

function parseCounter(id: string): number | null {
  const digits = /-(0|[1-9][0-9]{0,14})$/.exec(id)?.[1];
  return digits === undefined ? null : Number(digits);
}
