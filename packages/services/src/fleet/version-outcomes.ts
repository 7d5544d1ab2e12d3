// How tasks of one version of a package ended, from the tenant's log.

import { type LoggedFact, nodeAt, type StoreReader, taskPathOf } from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import { isRecord, LruMap } from "@astraflow/protocol";
import { cachedPlanOf } from "../presentation/plan-cache.ts";

export interface OutcomeQuery {
  readonly tenant: string;
  readonly packageName: string;
  readonly version: string;
  readonly after: number;
}

export interface VersionOutcomeCounts {
  readonly succeeded: number;
  readonly failed: number;
  /** Where the next look begins. */
  readonly cursor: number;
  /** Everything that the log held was looked at. */
  readonly isAtEnd: boolean;
}

const outcomeLimits = { factsPerLook: 500, runsMax: 64 } as const;
/** An attempt that failed and is made again counts as failed too. */
const outcomeTypes = ["task.succeeded", "task.failed", "task.retrying"] as const;
/** The worker, the caller or the scheduler was at fault, not the package. */
const foreignCodes = /^E\.(WORKER\.LOST|DISPATCH\.|RESOURCE\.|PARAMS\.INVALID|RUNNER\.CANCELLED)/;

export class VersionOutcomes {
  readonly #reader: StoreReader;
  /** Plans of runs that were looked at; null: the run is gone. */
  readonly #plans = new LruMap<string, Plan | null>({ entriesMax: outcomeLimits.runsMax });

  constructor(reader: StoreReader) {
    this.#reader = reader;
  }

  async count({ tenant, packageName, version, after }: OutcomeQuery): Promise<VersionOutcomeCounts> {
    const query = { tenant, after, types: outcomeTypes, limit: outcomeLimits.factsPerLook };
    const { items, next, head, floor } = await this.#reader.events(query);
    let [succeeded, failed] = [0, 0];
    for (const fact of items) {
      if (!isVerdict(fact) || !(await this.#ranVersion(tenant, fact, packageName, version))) continue;
      if (fact.type === "task.succeeded") succeeded += 1;
      else failed += 1;
    }
    // Facts below the floor were removed, and are not counted.
    const cursor = Math.max(next, Math.min(floor, head));
    return { succeeded, failed, cursor, isAtEnd: cursor >= head };
  }

  /** The fact names the version only where it is not the one that the workflow names. */
  async #ranVersion(tenant: string, { subject, data }: LoggedFact, packageName: string, version: string): Promise<boolean> {
    const { task, version: granted } = data;
    if (typeof task !== "string" || (granted !== undefined && granted !== version)) return false;
    const run = subject.slice("run/".length);
    const plan = await this.#planOf(tenant, run);
    const node = plan === null ? null : nodeAt(plan, taskPathOf({ id: task, run }));
    return node?.packageName === packageName && (granted ?? node.packageVersion) === version;
  }

  async #planOf(tenant: string, run: string): Promise<Plan | null> {
    const known = this.#plans.get(`${tenant}/${run}`);
    if (known !== undefined) return known;
    const { detail } = await this.#reader.page({ page: "run", tenant, run, tasksMax: 0 });
    const plan = detail === null ? null : cachedPlanOf(detail.workflow);
    this.#plans.set(`${tenant}/${run}`, plan);
    return plan;
  }
}

/** Whether the fact tells anything about the package: it ran, and what ended it was its own. */
function isVerdict({ type, subject, data }: LoggedFact): boolean {
  if (!subject.startsWith("run/") || data["frame"] !== undefined) return false;
  // A task that was never granted has no worker; a retry names none, but is about an attempt.
  if (type !== "task.retrying" && typeof data["worker"] !== "string") return false;
  const { error } = data;
  return type === "task.succeeded" || !isRecord(error) || !foreignCodes.test(String(error["code"]));
}
