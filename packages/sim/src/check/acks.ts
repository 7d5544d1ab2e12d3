// I21: what an end acknowledges never shrinks within a session, was sent, and had reached it on a socket that still counted. Whether the effect
// of an acked word is durable is judged by durable.ts; here: what a worker has acked it names as held until it is over.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import { Ways } from "./ways.ts";
import { ackIn, dispatchesIn, heldIn, type WireFrame, wordsIn } from "./wire.ts";

interface Held {
  readonly task: string;
  readonly fence: number;
  readonly boot: string;
  /** Since when it is not named. */
  missedAt: TrueTime;
}

const refusalMs = 60_000;

export function acks({ fail, scene }: Bench): Checker {
  const ways = new Ways();
  const highest = new Map<string, number>();
  /** Dispatches in flight, by direction and number; then what was acked of them, by boot and `<task>#<fence>`. */
  const offered = new Map<string, Map<number, readonly Held[]>>();
  const held = new Map<string, Map<string, Held>>();
  /** Dispatches that have come once: a repeat may come long after the end. */
  const known = new Set<string>();
  /** The last fence of a task that is over, by boot and task: the word that ends an attempt may come before its ack. */
  const over = new Map<string, number>();
  /** Ids of a process's frames that have come by a socket that counted. */
  const came = new Set<string>();
  const leaving = new Set<string>();
  const started = new Set<string>();
  const heardAt = new Map<string, TrueTime>();
  let saw = 0;

  /** Frames of workers have names of their own; those of schedulers may repeat from socket to socket. */
  const judgeName = ({ type, seen, payload }: WireFrame): void => {
    const { for: id } = payload;
    if (type !== "control.ack" || seen.toward !== "worker" || typeof id !== "string") return;
    saw++;
    if (!came.has(`${seen.boot} ${id}`))
      fail(`${seen.connection}: the scheduler acked ${id} of ${seen.boot}, which has not come by a socket that counts`, [
        seen.worker,
        seen.connection,
      ]);
  };

  const judgeAck = (frame: WireFrame): void => {
    const said = ackIn(frame);
    // The first generation numbers frames before its session is accepted, and anew after that.
    const isMuddled = frame.seen.toward === "worker" && scene.isOlder(`${frame.seen.tenant}/${frame.seen.instance}`);
    if (said === null || isMuddled) return;
    const way = ways.ackedBy(frame);
    const { upTo, beyond } = said;
    const who = `${frame.seen.connection}: the ${frame.seen.toward === "worker" ? "scheduler" : "worker"}`;
    const about = [frame.seen.worker, frame.seen.connection];
    const before = highest.get(way.name) ?? Number.NEGATIVE_INFINITY;
    saw++;
    if (upTo < before) return fail(`${who} acked up to ${upTo} of ${way.name}, and had acked ${before}`, about);
    highest.set(way.name, upTo);
    const top = Math.max(upTo, ...beyond);
    if (way.sent.size > 0 && top > way.last) return fail(`${who} acked ${top} of ${way.name}, which was never sent`, about);
    for (const seq of [upTo, ...beyond])
      if (seq >= way.first && !isThere(way, seq, seq === upTo))
        return fail(`${who} acked ${seq} of ${way.name} and has it only up to ${way.upTo}`, about);
    if (frame.seen.toward === "scheduler") take(frame, [...beyond, upTo]);
  };

  const isThere = (way: ReturnType<Ways["of"]>, seq: number, isWhole: boolean): boolean =>
    isWhole ? seq <= way.upTo : way.has(seq);

  /** The worker has taken these dispatches on. */
  const take = (frame: WireFrame, covered: readonly number[]): void => {
    const upTo = Math.min(...covered);
    const flight = offered.get(frame.stream);
    const mine = held.get(frame.seen.boot) ?? new Map<string, Held>();
    held.set(frame.seen.boot, mine);
    for (const [seq, items] of flight ?? []) {
      if (seq > upTo && !covered.includes(seq)) continue;
      flight?.delete(seq);
      for (const one of items)
        if (one.boot === frame.seen.boot && one.fence > (over.get(`${one.boot} ${one.task}`) ?? 0))
          mine.set(`${one.task}#${one.fence}`, one);
    }
  };

  /** A worker that hears nothing for long stops by itself what it holds, and need not say so. */
  const forgetSilent = (boot: string): void => {
    const { leaseMs = 0 } = scene.setUp?.promises ?? {};
    if (scene.now - (heardAt.get(boot) ?? scene.now) > leaseMs / 2) held.delete(boot);
  };

  const judgeHeld = (frame: WireFrame): void => {
    const named = heldIn(frame);
    if (named === null || leaving.has(frame.seen.boot)) return;
    forgetSilent(frame.seen.boot);
    const names = new Set(named.map(({ task, fence }) => `${task}#${fence}`));
    for (const [name, one] of held.get(frame.seen.boot) ?? []) {
      saw++;
      if (names.has(name)) one.missedAt = Number.POSITIVE_INFINITY;
      else one.missedAt = Math.min(one.missedAt, frame.seen.at);
      // One that it refused may wait for room to say so; one that it has begun may not be forgotten for a moment.
      const patienceMs = started.has(`${one.boot} ${name}`) ? 0 : refusalMs;
      if (frame.seen.at >= one.missedAt + patienceMs)
        return fail(`${frame.seen.boot} acked the dispatch of ${name}, never ended it, and does not name it as held`, [
          one.task,
          frame.seen.worker,
        ]);
    }
  };

  const release = (boot: string, task: string, upToFence: number): void => {
    const mine = held.get(boot);
    over.set(`${boot} ${task}`, Math.max(upToFence, over.get(`${boot} ${task}`) ?? 0));
    for (const [name, one] of mine ?? []) if (one.task === task && one.fence <= upToFence) mine?.delete(name);
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if (seen.kind === "link" && seen.event === "dialled") ways.dialled(seen.boot, seen.connection);
      // One that leaves gives back what it has not begun.
      if (seen.kind === "process" && seen.event === "leaves") leaving.add(seen.boot);
      if (seen.kind === "handler" && seen.event === "starts") started.add(`${seen.boot} ${seen.task}#${seen.fence}`);
      // Stopped, by word or by the worker's own clock: it need not say more.
      if (seen.kind === "handler" && (seen.event === "told" || seen.event === "gone")) release(seen.boot, seen.task, seen.fence);
    },
    frame(frame) {
      ways.hear(frame);
      const { seen, seq } = frame;
      if (seen.event === "sent") {
        judgeAck(frame);
        judgeName(frame);
      }
      if (seen.toward === "scheduler" && seen.event === "delivered" && ways.counts(frame)) came.add(`${seen.boot} ${frame.id}`);
      if (seen.toward === "scheduler" && seen.event === "sent") {
        judgeHeld(frame);
        for (const { of, task, fence } of wordsIn(frame)) if (of !== "feedback") release(seen.boot, task, fence);
      }
      if (seen.toward !== "worker" || seen.event !== "delivered") return;
      forgetSilent(seen.boot);
      heardAt.set(seen.boot, seen.at);
      if (frame.type === "biz.exec.cancel") release(seen.boot, String(frame.payload["task_id"]), Number(frame.payload["fence"]));
      for (const { task, fence } of dispatchesIn(frame)) release(seen.boot, task, fence - 1);
      if (seq === null || !ways.counts(frame)) return;
      const items = dispatchesIn(frame).filter(({ task, fence }) => !known.has(`${seen.boot} ${task}#${fence}`));
      if (items.length === 0) return;
      for (const { task, fence } of items) known.add(`${seen.boot} ${task}#${fence}`);
      const flight = offered.get(frame.stream) ?? new Map<number, readonly Held[]>();
      offered.set(
        frame.stream,
        flight.set(
          seq,
          items.map(({ task, fence }) => ({ task, fence, boot: seen.boot, missedAt: Number.POSITIVE_INFINITY })),
        ),
      );
    },
  };
}
