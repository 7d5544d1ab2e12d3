// I12: every grant is counted before it leaves. A task is given out at most `maxDeliveries` times in a row without a verdict, then it fails,
// and not before; its attempts are numbered without a gap.

import type { Bench, Checker } from "./checker.ts";
import type { Fact } from "./log-book.ts";
import { isCarried, nodeOfTask } from "./plans.ts";

/** Between what and what the count must be: handing work back counts only where the worker was not leaving, which is not always seen. */
interface Count {
  least: number;
  most: number;
}

export function deliveries({ fail, lives, scene }: Bench): Checker {
  const counts = new Map<string, Count>();
  let saw = 0;

  const limitOf = (id: string, run: string): number => {
    const node = nodeOfTask(lives.run(run)?.plan ?? null, id);
    if (node === null) return Number.POSITIVE_INFINITY;
    return node.maxDeliveries ?? scene.setUp?.promises.maxDeliveries ?? Number.POSITIVE_INFINITY;
  };

  const judge = (id: string, run: string, { type, data, position, tenant }: Fact): void => {
    const count = counts.get(id) ?? { least: 0, most: 0 };
    counts.set(id, count);
    const limit = limitOf(id, run);
    const where = `${type} at position ${position} of ${tenant}`;
    if (type === "task.granted") {
      saw++;
      count.least++;
      count.most++;
      const before = lives.task(id)?.attempt ?? 0;
      if (data["attempt"] !== before + 1)
        return fail(`${where}: attempt ${String(data["attempt"])} of ${id} follows attempt ${before}`, [id]);
      if (count.least > limit) return fail(`${where}: ${id} was granted ${count.least} times in a row, ${limit} allowed`, [id]);
    }
    if (type === "task.requeued") {
      if (data["code"] === "E.RUNNER.CANCELLED") count.least = Math.max(0, count.least - 1);
      if (count.least >= limit)
        return fail(`${where}: ${id} stands in line again after ${count.least} grants, ${limit} allowed`, [id]);
    }
    if (type === "task.retrying") counts.delete(id);
    if (type === "task.failed") {
      const told = (data["error"] as { details?: { deliveries?: unknown } } | undefined)?.details?.deliveries;
      // A host that failed says what its middleware died of.
      if (typeof told !== "number" || isCarried(nodeOfTask(lives.run(run)?.plan ?? null, id), id)) return;
      saw++;
      if (told < count.least || told > count.most || (told < limit && limit !== Number.POSITIVE_INFINITY))
        fail(`${where}: ${id} failed after ${told} grants, counted ${count.least} to ${count.most}, ${limit} allowed`, [id]);
    }
  };

  return {
    get saw() {
      return saw;
    },
    fact(fact) {
      if (fact.run !== null && typeof fact.data["task"] === "string") judge(fact.data["task"], fact.run, fact);
    },
  };
}
