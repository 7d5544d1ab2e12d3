// I47: a resource kept at a worker is used there. An attempt that refers to one is granted only to the worker that has it according to the log, and to
// no worker after that worker has reported it gone. Tasks with the same sticky key go to one worker until that worker is lost or an operator
// moves them.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { JsonPayload, ObservedDispatch, ObservedFrame } from "../../checking/observed-frame.ts";

export class PinnedWorkRunsAtItsWorker extends Checker {
  /** Who has each resource, by tenant and name. */
  readonly #ownerOfResource = new Map<string, string>();
  /** Who has each sticky key, by tenant and key. */
  readonly #keys = new Map<string, string>();
  /** Dispatches with a resource; checked once the log shows where the resource is. */
  readonly #sent: (ObservedDispatch & { readonly tenant: string; readonly worker: string; readonly resource: string })[] = [];
  /** From which position on a worker's report says that a resource is gone, until one of that name is stored again. */
  readonly #gone = new Map<string, { readonly from: number; to: number }[]>();
  /** Positions of grants, by attempt. */
  readonly #grants = new Map<string, number>();
  /** Keys that an operator may have moved: a run that was rebound takes its keys along. */
  readonly #wasRebound = new Set<string>();

  override onSentToWorker({ type, payload, dispatches, workerKey, tenant }: ObservedFrame): void {
    const items = type === "biz.exec.dispatch" ? [payload] : ((payload["items"] ?? []) as readonly JsonPayload[]);
    for (const [at, dispatch] of dispatches.entries())
      for (const resource of resourceIdsIn(items[at]?.["parameters"]))
        this.#sent.push({ ...dispatch, tenant, worker: workerKey, resource });
  }

  override onFact(fact: ObservedFact): void {
    const { type, data, tenant } = fact;
    if (type === "task.artifact") {
      const name = `${tenant}/${String(data["resource"])}`;
      this.#ownerOfResource.set(name, String(data["worker"]));
      const last = this.#gone.get(name)?.at(-1);
      if (last !== undefined) last.to = Math.min(last.to, fact.position);
    }
    // One that only its time has ended may still be there: its worker is asked.
    if (type === "artifact.removed" && data["worker"] !== undefined) {
      const name = `${tenant}/${String(data["resource"])}`;
      this.#gone.set(name, [...(this.#gone.get(name) ?? []), { from: fact.position, to: Number.POSITIVE_INFINITY }]);
    }
    if (type === "task.granted") this.#grants.set(`${String(data["task"])}#${String(data["fence"])}`, fact.position);
    if (type === "worker.lost" || type === "worker.gone")
      for (const [name, owner] of this.#keys) if (owner === fact.worker) this.#keys.delete(name);
    if (type === "run.rebound")
      for (const name of this.#keys.keys()) if (name.startsWith(`${tenant}/`)) this.#wasRebound.add(name);
  }

  override onTurn(_tenant: string, facts: readonly ObservedFact[]): void {
    for (const fact of facts) if (fact.type === "task.granted") this.#checkKey(fact);
  }

  override onEnd(): void {
    for (const { tenant, worker, task, attempt, resource } of this.#sent) {
      const owner = this.#ownerOfResource.get(`${tenant}/${resource}`);
      this.checkedCount++;
      if (owner !== worker)
        return this.fail(`${task} was sent to ${worker}, and ${resource} lies with ${owner ?? "nobody"}`, task, worker);
      const granted = this.#grants.get(attempt) ?? Number.NaN;
      const gone = this.#gone.get(`${tenant}/${resource}`)?.find(({ from, to }) => from < granted && granted < to);
      if (gone !== undefined)
        return this.fail(
          `position ${granted} grants ${task}, and position ${gone.from} says that ${resource} is gone`,
          task,
          worker,
        );
    }
  }

  #checkKey({ data, tenant, position }: ObservedFact): void {
    const task = this.projection.task(String(data["task"]));
    const affinity = task?.node?.policy.affinity;
    if (task === undefined || affinity === undefined) return;
    const { key, mode = "sticky" } = affinity;
    const worker = String(data["worker"]);
    const name = `${tenant}/${key}`;
    const owner = this.#keys.get(name) ?? worker;
    // What it refers to comes before its key.
    if (task.node?.isPinned === true) {
      this.#keys.set(name, owner);
      return;
    }
    const isFree =
      owner === worker ||
      this.projection.workers.get(owner)?.presence === "lost" ||
      task.run.isRebound ||
      this.#wasRebound.has(name);
    this.checkedCount++;
    if (mode === "sticky" && !isFree)
      return this.fail(
        `position ${position} of ${tenant} grants ${task.id} to ${worker}, and key ${key} is with ${owner}`,
        task.id,
        worker,
      );
    if (mode === "sticky" || isFree) this.#keys.set(name, worker);
  }
}

/** Names of the resources that some parameters refer to. */
function resourceIdsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    key === "resourceRef" ? [String((inner as { resourceId?: unknown }).resourceId)] : resourceIdsIn(inner),
  );
}
