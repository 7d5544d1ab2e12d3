// I43: a container runs its body as often as it should and ends when that is done. Frames are numbered as they are opened, a list is gone through
// in order and at most so many at once; nothing moves inside a frame before it is opened or after it has ended; a frame ends well
// only when everything inside has, and its container only with one good frame for each iteration.

import type { Bench, Checker } from "./checker.ts";
import { isPhase, type RunLife, type TaskLife } from "./lives.ts";
import type { Fact } from "./log-book.ts";
import { type NodePlan, nodeOfTask, nodesIn, placeOf, taskIn } from "./plans.ts";

interface Frame {
  readonly index: number;
  status: string | null;
}

const isGood = (end: string | null | undefined): boolean => end === "succeeded" || end === "skipped";

export function frames({ fail, lives }: Bench): Checker {
  /** By container, in the order of their numbers. */
  const framesOf = new Map<string, Frame[]>();
  let saw = 0;

  const open = (run: RunLife, frame: string, { data, position }: Fact): void => {
    const container = frame.slice(0, frame.lastIndexOf("*"));
    const all = framesOf.get(container) ?? [];
    framesOf.set(container, all);
    const { frame: number } = placeOf(frame);
    const index = Number(data["index"]);
    const where = `frame.opened at position ${position}: ${frame}`;
    const life = run.tasks.get(container);
    saw++;
    if (life?.isHosting !== true) return fail(`${where}, and its container is ${life?.end ?? "not under way"}`, [container]);
    if (number !== all.length) return fail(`${where} follows ${all.length} frames`, [container]);
    const again = all.filter((one) => one.index === index);
    if (again.some(({ status }) => status === null || status === "succeeded"))
      return fail(`${where} is another try of iteration ${index}, which has not failed`, [container]);
    const box = nodeOfTask(run.plan, frame)?.box ?? null;
    if (box !== null && again.length >= box.maxAttempts)
      return fail(`${where} is try ${again.length + 1} of iteration ${index}, ${box.maxAttempts} allowed`, [container]);
    all.push({ index, status: null });
    const unended = all.filter(({ status }) => status === null).length;
    if (box !== null && unended > box.parallelism)
      return fail(`${where} is the ${unended}. open one, ${box.parallelism} allowed`, [container]);
    const isInTurn = index === 0 || all.some((one) => one.index === index - 1 && one.status === "succeeded");
    if (box !== null && (box.mode === "forEach" || box.mode === "while") && !isInTurn)
      fail(`${where} is iteration ${index}, and the one before it is not done`, [container]);
  };

  const end = (run: RunLife, frame: string, { data, position }: Fact): void => {
    const { frame: number } = placeOf(frame);
    const one = framesOf.get(frame.slice(0, frame.lastIndexOf("*")))?.[number ?? -1];
    const where = `frame.ended at position ${position}: ${frame}`;
    const status = String(data["status"]);
    saw++;
    if (one === undefined || one.status !== null) return fail(`${where} was ${one?.status ?? "never opened"}`, [frame]);
    if (one.index !== data["index"]) return fail(`${where} was iteration ${one.index} and is ${String(data["index"])}`, [frame]);
    one.status = status;
    // A run that is ended is swept from the outside in.
    const left = status === "cancelled" ? undefined : insideOf(run, `${frame}/`).find((task) => task.end === null);
    if (left !== undefined) return fail(`${where} ends as ${status} while ${left.id} inside is open`, [frame, left.id]);
    if (status !== "succeeded" || run.plan === null) return;
    const slot = frame.slice(run.id.length + 1);
    for (const node of nodesIn(run.plan, slot) ?? [])
      if (node.host === null && !isGood(run.tasks.get(taskIn(run.id, slot, node.ordinal))?.end))
        return fail(`${where} ends well, and node ${node.ordinal} inside is not done`, [frame]);
  };

  const insideOf = (run: RunLife, prefix: string): TaskLife[] =>
    [...run.tasks.values()].filter(({ id }) => id.startsWith(prefix));

  /** Something moves: all frames and containers around it are open. */
  const judgeAround = (run: RunLife, task: string, { type, position }: Fact): void => {
    const { scope } = placeOf(task);
    if (scope === "" || type === "task.cancelled") return;
    saw++;
    const frame = `${run.id}.${scope}`;
    const life = run.tasks.get(frame);
    // A frame that is cancelled is swept after it was called so, some tasks a turn; until then its workers may still speak.
    if (life === undefined || (life.end !== null && life.end !== "cancelled"))
      fail(`${type} at position ${position}: ${task} moves, and ${frame} around it is ${life?.end ?? "not opened"}`, [task]);
  };

  const judgeContainer = (run: RunLife, container: string, node: NodePlan, { type, position }: Fact): void => {
    const all = framesOf.get(container) ?? [];
    const where = `${type} at position ${position}: ${container}`;
    saw++;
    if (all.some(({ status }) => status === null)) return fail(`${where} ends while a frame of it is open`, [container]);
    if (type !== "task.succeeded" || node.box === null || run.tasks.get(container)?.isHosting !== true) return;
    const good = all.filter(({ status }) => status === "succeeded").map(({ index }) => index);
    const ordered = good.toSorted((a, b) => a - b);
    if (ordered.some((index, at) => index !== at)) return fail(`${where} has good frames for ${ordered.join()}`, [container]);
    if (node.box.count !== null && good.length !== node.box.count)
      fail(`${where} has ${good.length} good frames of ${node.box.count}`, [container]);
  };

  return {
    get saw() {
      return saw;
    },
    fact(fact) {
      const run = fact.run === null ? undefined : lives.run(fact.run);
      const { task } = fact.data;
      if (run === undefined || typeof task !== "string" || !isPhase(fact.type)) return;
      if (fact.type === "frame.opened") open(run, task, fact);
      if (fact.type === "frame.ended") return end(run, task, fact);
      judgeAround(run, task, fact);
      const node = nodeOfTask(run.plan, task);
      const isBox = node !== null && node.box !== null && (node.chain.length === 0 || placeOf(task).call !== null);
      if (isBox && /^task\.(succeeded|failed|skipped)$/.test(fact.type)) judgeContainer(run, task, node, fact);
    },
  };
}
