// The counter that older workers put at the end of their frame ids: one per process, from 0. The only sign by which they show a restart.
// Volatile and bounded: a scheduler that has not heard a worker before knows no better than the frame in front of it.

const workersMax = 20_000;

export class FrameCounters {
  /** Highest number heard, by worker; the one heard least recently at a handshake first. */
  readonly #heard = new Map<string, number>();

  /** A handshake. True when it must be of another process than what was heard before: a process only counts up. */
  restarts(worker: string, id: string): boolean {
    const count = countIn(id);
    if (count === null) return false;
    const before = this.#heard.get(worker);
    this.#heard.delete(worker);
    this.#heard.set(worker, count);
    if (this.#heard.size > workersMax) this.#forgetOldest();
    return count === 0 || (before !== undefined && count < before);
  }

  /** Any later frame of a worker whose handshake was heard. */
  hear(worker: string, id: string): void {
    const count = countIn(id);
    const before = this.#heard.get(worker);
    if (count !== null && before !== undefined && count > before) this.#heard.set(worker, count);
  }

  #forgetOldest(): void {
    for (const worker of this.#heard.keys()) {
      this.#heard.delete(worker);
      return;
    }
  }
}

function countIn(id: string): number | null {
  const digits = /-(0|[1-9][0-9]{0,14})$/.exec(id)?.[1];
  return digits === undefined ? null : Number(digits);
}
