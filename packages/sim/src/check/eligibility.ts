// I18: work goes only to a worker of its tenant that fits, is online and does not drain, and never beyond its slots. Judged between turns, as the
// order inside one is nobody's promise. Several turns may share an instant: a worker counts as draining or gone only if it was so before and after it.

import type { Bench, Checker } from "./checker.ts";
import type { Fact } from "./log-book.ts";
import { dispatchesIn } from "./wire.ts";

/** How long a word from scheduler to scheduler may take, beside a few looks of an idle engine. */
const hearsayMs = 5_000;

export function eligibility({ fail, lives, scene }: Bench): Checker {
  const before = new Map<string, { readonly isOnline: boolean; readonly isDraining: boolean }>();
  const accepted = new Set<string>();
  const reset = new Set<string>();
  let saw = 0;

  const judge = ({ data, tenant, position, at }: Fact): void => {
    const worker = String(data["worker"]);
    const id = String(data["task"]);
    const now = lives.workers.get(worker);
    const where = `${id} was granted at position ${position} of ${tenant} to ${worker}`;
    saw++;
    if (now === undefined || !worker.startsWith(`${tenant}/`)) return fail(`${where}, a stranger there`, [id, worker]);
    const then = before.get(worker) ?? { isOnline: false, isDraining: false };
    if (!then.isOnline && now.standing !== "online") return fail(`${where}, which is ${now.standing}`, [id, worker]);
    if (then.isDraining && now.isDraining) return fail(`${where}, which drains`, [id, worker]);
    // Whoever gives out work may not have heard yet that a middleware was answered elsewhere and takes its slot again.
    const answeredSince = at - hearsayMs - 4 * (scene.setUp?.promises.idleMs ?? 0);
    const held = lives.busyOf(worker, { answeredSince });
    if (held > now.slots) return fail(`${where}, which holds ${held} attempts and has ${now.slots} slots`, [id, worker]);
    const node = lives.task(id)?.node;
    const shape = scene.shapeOf(worker);
    if (node === undefined || node === null || shape === undefined) return;
    if (node.pool !== null && node.pool !== shape.pool)
      return fail(`${where}, which is in pool ${shape.pool}, not ${node.pool}`, [id, worker]);
    const limit = shape.perNodeLimits?.[node.type] ?? now.slots;
    if (lives.busyOf(worker, { nodeType: node.type, answeredSince }) > limit)
      return fail(`${where}, which takes ${limit} of ${node.type} at once`, [id, worker]);
    if (node.packageName !== shape.packageName || node.packageVersion !== shape.packageVersion)
      fail(`${where}, which does not have ${node.packageName} ${node.packageVersion}`, [id, worker]);
  };

  return {
    get saw() {
      return saw;
    },
    turn(_tenant, facts) {
      for (const fact of facts) if (fact.type === "task.granted") judge(fact);
      for (const { worker } of facts) {
        const life = worker === null ? undefined : lives.workers.get(worker);
        if (life !== undefined) before.set(life.id, { isOnline: life.standing === "online", isDraining: life.isDraining });
      }
    },
    frame(frame) {
      const { seen } = frame;
      // The oldest dialect knows no accept: who has registered may be given work.
      const isOldest = scene.shapeOf(`${seen.tenant}/${seen.instance}`)?.dialect === "v1";
      if (isOldest && frame.type === "control.register" && seen.event === "delivered") accepted.add(seen.connection);
      if (seen.toward !== "worker" || seen.event !== "sent") return;
      if (frame.type === "control.session.accept") accepted.add(seen.connection);
      if (frame.type === "control.reset") reset.add(seen.connection);
      for (const { task, run } of dispatchesIn(frame)) {
        saw++;
        const where = `${task} was sent to ${seen.worker} on ${seen.connection}`;
        if (!accepted.has(seen.connection)) return fail(`${where} before its session was accepted`, [task, seen.worker]);
        if (reset.has(seen.connection)) return fail(`${where} after its session was reset`, [task, seen.worker]);
        const owner = lives.run(run)?.tenant ?? seen.tenant;
        if (owner !== seen.tenant) return fail(`${where}, and the run is of tenant ${owner}`, [task, seen.worker]);
      }
    },
  };
}
