// Tells the engine of this scheduler which versions are withdrawn, so that work which does not name them is placed without them. Each scheduler
// does this for itself, since the engine keeps them in memory.

import { canonicalJson } from "@astraflow/graph";
import { RecordStore } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { type PackageVersionRecord, packageVersionCollection, withdrawnTerm } from "../packages/package-store.ts";

/** Withdrawn versions of a tenant that the engine is told of, the first by name. */
const versionsMax = 10_000;

export class WithdrawnVersions {
  readonly #context: ServiceContext;
  readonly #records: RecordStore<PackageVersionRecord>;
  /** By tenant, what the engine knows. */
  readonly #known = new Map<string, string>();

  constructor(context: ServiceContext) {
    this.#context = context;
    this.#records = new RecordStore(context, packageVersionCollection);
  }

  /** Says what is withdrawn, if it is not what was said before. */
  async step(tenant: string): Promise<void> {
    const versions = await this.#list(tenant);
    const text = canonicalJson(versions);
    if (text === (this.#known.get(tenant) ?? "[]")) return;
    await this.#context.engineClient.request({ type: "packages.withdrawn", tenant, versions });
    this.#known.set(tenant, text);
  }

  async #list(tenant: string): Promise<string[]> {
    const versions: string[] = [];
    for (let from: { after?: string } = {}; ; ) {
      const { items, next } = await this.#records.list({ tenant, search: withdrawnTerm, limit: 200, ...from });
      for (const { record } of items) if (record.status === "withdrawn") versions.push(`${record.name}@${record.version}`);
      if (next === null || versions.length >= versionsMax) return versions;
      from = { after: next };
    }
  }
}
