// The tenants' logs, merged from the pages of several readers: every fact once, in commit order. log-has-no-gaps.ts checks that the readers agree;
// here the first page that shows a position counts.

import { getOrCreate } from "../kernel/get-or-create.ts";
import type { TenantLogPage, TrueTime } from "../observation/observation.ts";

type TenantLogItem = TenantLogPage["items"][number];

export interface ObservedFact extends Omit<TenantLogItem, "subject"> {
  readonly tenant: string;
  /** When it was first read. It was committed before. */
  readonly readAt: TrueTime;
  /** The run's id, or null for a fact about a worker. */
  readonly run: string | null;
  /** `<tenant>/<instance>`, or null for a fact about a run. */
  readonly worker: string | null;
  /** Of a fact about a task, and `<task>#<fence>`. */
  readonly task: string;
  readonly fence: number;
  readonly attempt: string;
  /** Its type and position, as violations name them. */
  readonly where: string;
}

interface TenantLog {
  readonly facts: ObservedFact[];
  /** By position: what was read beyond a hole. */
  readonly ahead: Map<number, TenantLogItem>;
}

export class MergedLog {
  readonly #logs = new Map<string, TenantLog>();

  /** Takes a page in; gives the facts that are new, in order. Facts behind a hole wait for it to be filled. */
  addPage(tenant: string, page: TenantLogPage, readAt: TrueTime): ObservedFact[] {
    const log = this.#logOf(tenant);
    for (const entry of page.items) if (entry.position > log.facts.length) log.ahead.set(entry.position, entry);
    const knownCount = log.facts.length;
    for (let next = log.ahead.get(knownCount + 1); next !== undefined; next = log.ahead.get(log.facts.length + 1)) {
      log.ahead.delete(next.position);
      log.facts.push(toFact(tenant, next, readAt));
    }
    return log.facts.slice(knownCount);
  }

  /** How far the log is known without a hole. */
  completeUpTo(tenant: string): number {
    return this.#logOf(tenant).facts.length;
  }

  #logOf(tenant: string): TenantLog {
    return getOrCreate(this.#logs, tenant, () => ({ facts: [], ahead: new Map<number, TenantLogItem>() }));
  }
}

function toFact(tenant: string, { subject, ...entry }: TenantLogItem, readAt: TrueTime): ObservedFact {
  const run = subject.startsWith("run/") ? subject.slice(4) : null;
  const worker = subject.startsWith("worker/") ? subject.slice(7) : null;
  const task = String(entry.data["task"]);
  const fence = Number(entry.data["fence"]);
  const where = `${entry.type} at position ${entry.position} of ${tenant}`;
  return { ...entry, tenant, readAt, run, worker, task, fence, attempt: `${task}#${fence}`, where };
}
