// I18: a task is granted only to a worker of its tenant that fits, is online, is not draining and has a free slot. This is checked between turns, because
// the order within a turn is not guaranteed. Several turns may share an instant: a worker counts as draining or gone only if it was so before and
// after it.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";

/** How long a message between schedulers may take, beside a few polls of an idle engine. */
const replicaMessageMsMax = 5_000;

export class GrantsGoToEligibleWorkers extends Checker {
  readonly #before = new Map<string, { readonly isOnline: boolean; readonly isDraining: boolean }>();
  readonly #accepted = new Set<string>();
  readonly #reset = new Set<string>();

  override onTurn(_tenant: string, facts: readonly ObservedFact[]): void {
    for (const fact of facts) if (fact.type === "task.granted") this.#check(fact);
    for (const { worker } of facts) {
      const projected = worker === null ? undefined : this.projection.workers.get(worker);
      if (projected !== undefined)
        this.#before.set(projected.id, { isOnline: projected.presence === "online", isDraining: projected.isDraining });
    }
  }

  override onDeliveredToScheduler({ type, workerKey, connection }: ObservedFrame): void {
    // The oldest dialect has no accept: a registered worker may get work.
    if (type === "control.register" && this.world.workerSpecOf(workerKey)?.dialect === "v1") this.#accepted.add(connection);
  }

  override onSentToWorker({ type, connection, worker, tenant, dispatches }: ObservedFrame): void {
    if (type === "control.session.accept") this.#accepted.add(connection);
    if (type === "control.reset") this.#reset.add(connection);
    for (const { task, run } of dispatches) {
      this.checkedCount++;
      const where = `${task} was sent to ${worker} on ${connection}`;
      if (!this.#accepted.has(connection)) return this.fail(`${where} before its session was accepted`, task, worker);
      if (this.#reset.has(connection)) return this.fail(`${where} after its session was reset`, task, worker);
      const owner = this.projection.runs.get(run)?.tenant ?? tenant;
      if (owner !== tenant) return this.fail(`${where}, and the run is of tenant ${owner}`, task, worker);
    }
  }

  #check({ data, tenant, position, at, task: id }: ObservedFact): void {
    const worker = String(data["worker"]);
    const now = this.projection.workers.get(worker);
    const where = `${id} was granted at position ${position} of ${tenant} to ${worker}`;
    this.checkedCount++;
    if (now === undefined || !worker.startsWith(`${tenant}/`))
      return this.fail(`${where}, which is not a worker of this tenant`, id, worker);
    const then = this.#before.get(worker) ?? { isOnline: false, isDraining: false };
    if (!then.isOnline && now.presence !== "online") return this.fail(`${where}, which is ${now.presence}`, id, worker);
    if (then.isDraining && now.isDraining) return this.fail(`${where}, which is draining`, id, worker);
    // The granting scheduler may not know yet that a middleware was answered elsewhere and takes its slot again.
    const answeredSince = at - replicaMessageMsMax - 4 * (this.world.setup?.guarantees.idleMs ?? 0);
    const held = this.projection.countBusySlots(worker, { answeredSince });
    if (held > now.slots) return this.fail(`${where}, which holds ${held} attempts and has ${now.slots} slots`, id, worker);
    const node = this.projection.task(id)?.node;
    const spec = this.world.workerSpecOf(worker);
    if (node === undefined || node === null || spec === undefined) return;
    const { pool } = node.policy;
    if (pool !== undefined && pool !== spec.pool)
      return this.fail(`${where}, which is in pool ${spec.pool}, not ${pool}`, id, worker);
    const limit = spec.perNodeLimits?.[node.type] ?? now.slots;
    if (this.projection.countBusySlots(worker, { nodeType: node.type, answeredSince }) > limit)
      return this.fail(`${where}, which takes ${limit} of ${node.type} at once`, id, worker);
    const { name, version } = node.package;
    if (name !== spec.packageName || version !== spec.packageVersion)
      this.fail(`${where}, which does not have ${name} ${version}`, id, worker);
  }
}
