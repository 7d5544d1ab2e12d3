// The tenants' logs as several readers have shown them, put together: every fact once, in the order of commits.
// Whether the readers agree is judged by truth.ts; here the first to show a position is believed.

import type { TailPage, TrueTime } from "../observation.ts";

export type Entry = TailPage["items"][number];

export interface Fact {
  readonly tenant: string;
  readonly position: number;
  /** Store time. */
  readonly at: number;
  /** When it was first read. It was committed before. */
  readonly readAt: TrueTime;
  /** The run's id, or null for a fact about a worker. */
  readonly run: string | null;
  /** `<tenant>/<instance>`, or null for a fact about a run. */
  readonly worker: string | null;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export class LogBook {
  readonly #tenants = new Map<string, { facts: Fact[]; ahead: Map<number, Entry> }>();

  /** Takes a page in; gives the facts that are new, in order. Facts behind a hole wait for it to be filled. */
  add(tenant: string, page: TailPage, readAt: TrueTime): Fact[] {
    const log = this.#log(tenant);
    for (const entry of page.items) if (entry.position > log.facts.length) log.ahead.set(entry.position, entry);
    const fresh: Fact[] = [];
    for (;;) {
      const entry = log.ahead.get(log.facts.length + 1);
      if (entry === undefined) return fresh;
      log.ahead.delete(entry.position);
      const fact = factOf(tenant, entry, readAt);
      log.facts.push(fact);
      fresh.push(fact);
    }
  }

  /** How far the log is known without a hole. */
  knownTo(tenant: string): number {
    return this.#log(tenant).facts.length;
  }

  factAt(tenant: string, position: number): Fact | undefined {
    return this.#log(tenant).facts[position - 1];
  }

  #log(tenant: string): { facts: Fact[]; ahead: Map<number, Entry> } {
    let log = this.#tenants.get(tenant);
    if (log === undefined) this.#tenants.set(tenant, (log = { facts: [], ahead: new Map() }));
    return log;
  }
}

function factOf(tenant: string, entry: Entry, readAt: TrueTime): Fact {
  const { subject } = entry;
  return {
    tenant,
    position: entry.position,
    at: entry.at,
    readAt,
    run: subject.startsWith("run/") ? subject.slice(4) : null,
    worker: subject.startsWith("worker/") ? subject.slice(7) : null,
    type: entry.type,
    data: entry.data,
  };
}
