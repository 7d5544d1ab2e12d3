// I4: only the holder's word under the current fence changes anything, and it is the word of the life it was granted to. A word that came too
// late is answered with the stale code on the connection it came by.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import { Lineage } from "./lineage.ts";
import type { Fact } from "./log-book.ts";
import { isCarried, nodeOfTask } from "./plans.ts";
import { covers, type WireFrame, wordsIn } from "./wire.ts";

/** Facts that only a worker's word can bring about, and the words that can. */
const causes: Readonly<Record<string, readonly string[]>> = {
  "task.succeeded": ["SUCCEEDED"],
  "task.skipped": ["SKIPPED"],
  "task.feedback": ["feedback"],
};

/** How long after its ack a stale word may wait for the order to stop. */
const answerMs = 3_000;

interface Late {
  readonly task: string;
  readonly fence: number;
  /** By which it came, and when: the session is its stream. */
  readonly frame: WireFrame;
  readonly seq: number;
  ackedAt: TrueTime;
}

export function fencing({ fail, lives, scene }: Bench): Checker {
  /** Who has said what about an attempt, delivered at a scheduler: `<task>#<fence>` to `<what> <worker> <boot>`. */
  const said = new Map<string, Set<string>>();
  const lineage = new Lineage();
  const announced = new Set<string>();
  const stopped = new Set<string>();
  let late: Late[] = [];
  let saw = 0;

  const judgeWord = (fact: Fact): void => {
    const { type, data, position } = fact;
    const id = String(data["task"]);
    const task = lives.task(id);
    const fence = Number(data["fence"]);
    saw++;
    const where = `${type} at position ${position} of ${fact.tenant}`;
    if (data["isLate"] === true) return judgeLate(where, id, fence);
    // Given, left out by an operator, or the sum of what others did: no worker's word.
    if (
      data["worker"] === null &&
      (data["why"] !== undefined || isCarried(nodeOfTask(lives.run(runOf(fact))?.plan ?? null, id), id))
    )
      return;
    if (type === "task.skipped" && data["why"] !== undefined) return;
    if (task === undefined || task.worker === null) return fail(`${where}: nobody held ${id}`, [id]);
    if (task.fence !== fence) return fail(`${where}: ${id} is under fence ${task.fence}, not ${fence}`, [id]);
    if (data["worker"] !== undefined && data["worker"] !== task.worker)
      return fail(`${where}: ${task.worker} held ${id}, not ${String(data["worker"])}`, [id]);
    const words = said.get(`${id}#${fence}`) ?? new Set();
    const granted = lives.grants.get(`${id}#${fence}`)?.boot;
    const isSaid = (causes[type] ?? []).some(
      (what) => words.has(`${what} ${task.worker} ${task.boot}`) || words.has(`${what} ${task.worker} ${granted}`),
    );
    // A dialect without fences names the dispatch it answers, which may be an earlier one of the same task.
    const isSaidFirst =
      scene.isOlder(task.worker) && (causes[type] ?? []).some((what) => said.get(id)?.has(`${what} ${task.worker}`));
    if (!isSaid && !isSaidFirst) fail(`${where}: ${task.worker} (boot ${task.boot}) never said so of ${id}#${fence}`, [id]);
  };

  /** Overtaken by the result: nobody holds the task any more, but the attempt that ended it must have said this. */
  const judgeLate = (where: string, id: string, fence: number): void => {
    const last = lives.task(id)?.fence;
    if (last !== fence) return fail(`${where}: ${id} ended under fence ${last ?? "none"}, not ${fence}`, [id]);
    const isSaid = [...(said.get(`${id}#${fence}`) ?? [])].some((word) => word.startsWith("feedback "));
    if (!isSaid) fail(`${where}: nobody ever said so of ${id}#${fence}`, [id]);
  };

  const hearWorker = (frame: WireFrame): void => {
    const { seen } = frame;
    const worker = `${seen.tenant}/${seen.instance}`;
    if (frame.type === "control.register" && JSON.stringify(frame.payload).includes('"cancel"')) announced.add(seen.connection);
    for (const { of, task, fence, says } of wordsIn(frame)) {
      const words = said.get(`${task}#${fence}`) ?? new Set<string>();
      said.set(`${task}#${fence}`, words.add(`${says} ${worker} ${seen.boot}`));
      if (scene.isOlder(worker)) said.set(task, (said.get(task) ?? new Set<string>()).add(`${says} ${worker}`));
      // The log may lag behind, so what it calls stale surely is. A life that another has followed is not answered any more.
      const isStale = (lives.task(task)?.fence ?? 0) > fence;
      if (isStale && of !== "feedback" && frame.seq !== null && lineage.isNewest(frame))
        late.push({ task, fence, frame, seq: frame.seq, ackedAt: Number.POSITIVE_INFINITY });
    }
  };

  return {
    get saw() {
      return saw;
    },
    fact(fact) {
      if (causes[fact.type] !== undefined) judgeWord(fact);
    },
    frame(frame) {
      const { seen } = frame;
      lineage.hear(frame);
      if (seen.toward === "scheduler" && seen.event === "delivered") hearWorker(frame);
      if (seen.toward !== "worker" || seen.event !== "sent") return;
      if (frame.type === "biz.exec.cancel")
        stopped.add(`${frame.stream} ${String(frame.payload["task_id"])}#${Number(frame.payload["fence"])}`);
      if (frame.type === "control.ack")
        for (const one of late)
          if (one.frame.stream === frame.stream && covers(frame, one.seq)) one.ackedAt = Math.min(one.ackedAt, seen.at);
    },
    passes(at) {
      const waiting: Late[] = [];
      for (const one of late) {
        const { stream, seen } = one.frame;
        const link = scene.links.get(seen.connection);
        const isDeaf = link?.isOpen !== true || !scene.isRunning(link.scheduler) || !announced.has(lineage.originOf(stream));
        if (isDeaf || stopped.has(`${stream} ${one.task}#${one.fence}`)) continue;
        if (at <= one.ackedAt + answerMs) waiting.push(one);
        else if (lineage.isNewest(one.frame) && scene.troubledAt < one.ackedAt)
          return fail(`a late word about ${one.task}#${one.fence} was acked and not answered as stale`, [one.task]);
      }
      late = waiting;
    },
  };
}

const runOf = ({ run }: Fact): string => run ?? "";
