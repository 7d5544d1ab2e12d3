// The tenants' logs, merged from the pages of several readers: every fact once, in commit order. log-has-no-gaps.ts checks that the readers agree;
// here the first page that shows a position counts.

import type { TenantLogPage, TrueTime } from "../observation/observation.ts";

export type TenantLogItem = TenantLogPage["items"][number];

export interface ObservedFact {
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

export class MergedLog {
  readonly #logs = new Map<string, { facts: ObservedFact[]; ahead: Map<number, TenantLogItem> }>();

  /** Takes a page in; gives the facts that are new, in order. Facts behind a hole wait for it to be filled. */
  addPage(tenant: string, page: TenantLogPage, readAt: TrueTime): ObservedFact[] {
    const log = this.#logOf(tenant);
    for (const entry of page.items) if (entry.position > log.facts.length) log.ahead.set(entry.position, entry);
    const fresh: ObservedFact[] = [];
    for (;;) {
      const entry = log.ahead.get(log.facts.length + 1);
      if (entry === undefined) return fresh;
      log.ahead.delete(entry.position);
      const fact = toFact(tenant, entry, readAt);
      log.facts.push(fact);
      fresh.push(fact);
    }
  }

  /** How far the log is known without a hole. */
  completeUpTo(tenant: string): number {
    return this.#logOf(tenant).facts.length;
  }

  factAt(tenant: string, position: number): ObservedFact | undefined {
    return this.#logOf(tenant).facts[position - 1];
  }

  #logOf(tenant: string): { facts: ObservedFact[]; ahead: Map<number, TenantLogItem> } {
    let log = this.#logs.get(tenant);
    if (log === undefined) this.#logs.set(tenant, (log = { facts: [], ahead: new Map() }));
    return log;
  }
}

function toFact(tenant: string, entry: TenantLogItem, readAt: TrueTime): ObservedFact {
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
