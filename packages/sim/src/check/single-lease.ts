// I3: at each version of the store at most one grant of a task is in force, and its fences rise strictly: with every grant, and with every
// taking back in the very fact that tells of it. On the wire one fence of a task goes to one life of one worker.

import type { Bench, Checker } from "./checker.ts";
import { dispatchesIn } from "./wire.ts";

export function singleLease({ fail, lives, scene }: Bench): Checker {
  const sentTo = new Map<string, string>();
  let saw = 0;

  return {
    get saw() {
      return saw;
    },
    fact({ type, data, position, tenant }) {
      if (type !== "task.granted" && type !== "task.requeued") return;
      const id = String(data["task"]);
      const fence = Number(data["fence"]);
      const task = lives.task(id);
      const where = `at position ${position} of ${tenant}`;
      saw++;
      if (!(fence > (task?.fence ?? 0)))
        return fail(`the fence of ${id} did not rise with ${type} ${where}: ${task?.fence}, then ${fence}`, [id]);
      if (type === "task.granted" && task !== undefined && task.worker !== null)
        return fail(`${id} was granted to ${String(data["worker"])} while ${task.worker} still held it, ${where}`, [id]);
      if (type === "task.requeued" && task?.worker !== data["from"])
        fail(`${id} was taken back from ${String(data["from"])} while ${task?.worker ?? "nobody"} held it, ${where}`, [id]);
    },
    frame(frame) {
      const { seen } = frame;
      if (seen.toward !== "worker" || seen.event !== "sent") return;
      for (const { task, fence } of dispatchesIn(frame)) {
        const to = `${seen.tenant}/${seen.instance} (boot ${seen.boot})`;
        const first = sentTo.get(`${task}#${fence}`) ?? to;
        sentTo.set(`${task}#${fence}`, first);
        saw++;
        // A process without a boot id is known by its first frame alone; where that one was lost, the next process passes for the last.
        if (first !== to && !scene.isOlder(`${seen.tenant}/${seen.instance}`))
          return fail(`${task} was sent under fence ${fence} to ${first} and to ${to}`, [task]);
      }
    },
  };
}
