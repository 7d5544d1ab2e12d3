// Work that a document describes and that goes on by itself: every scheduler looks through the tenants for documents that are not done.

import type { ServiceContext } from "../environment/service-environment.ts";
import type { RecordStore, StoredRecord } from "./documents.ts";

export const roundLimits = {
  /** Tenants whose documents are looked through at once; where there are more they take turns. */
  tenantsPerRoundMax: 200,
  /** Documents read with one look at a tenant. */
  documentsPerTenantMax: 1_000,
} as const;

/** The word that documents which are not done are found by. */
export const runningTerm = "running";

export class TenantRounds {
  readonly #context: Pick<ServiceContext, "reader">;
  readonly #onFailure: (problem: unknown) => void;
  /** The tenant after whom the next round begins. */
  #lastTenant: string | null = null;

  constructor(context: Pick<ServiceContext, "reader">, onFailure: (problem: unknown) => void) {
    this.#context = context;
    this.#onFailure = onFailure;
  }

  /** Visits the next tenants and returns those where nothing failed: a failure for one does not stop the others. */
  async visitNext(visit: (tenant: string) => Promise<void>): Promise<ReadonlySet<string>> {
    const after = this.#lastTenant === null ? {} : { after: this.#lastTenant };
    const query = { page: "tenants", limit: roundLimits.tenantsPerRoundMax, ...after } as const;
    const { items: tenants, next } = await this.#context.reader.page(query);
    this.#lastTenant = next;
    const visited = new Set<string>();
    for (const tenant of tenants)
      try {
        await visit(tenant);
        visited.add(tenant);
      } catch (problem) {
        this.#onFailure(problem);
      }
    return visited;
  }
}

/** What is not done yet, oldest first, however much was ordered after it. */
export async function listRunningRecords<T extends { readonly id: string; readonly status: string }>(
  records: RecordStore<T>,
  tenant: string,
  isRunning: (record: T) => boolean,
): Promise<StoredRecord<T>[]> {
  const running: StoredRecord<T>[] = [];
  for (let from: { after?: string } = {}; ; ) {
    const { items, next } = await records.list({ tenant, search: runningTerm, order: "asc", limit: 100, ...from });
    running.push(...items.filter(({ record }) => isRunning(record)));
    if (next === null || running.length >= roundLimits.documentsPerTenantMax) return running;
    from = { after: next };
  }
}
