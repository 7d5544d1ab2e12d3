// I21: what an end acknowledges never shrinks within a session, was sent, and had reached it on a socket that still counted. Whether the effect
// of an acked word is durable is judged by answers-are-durable.ts; here: what a worker has acked it names as held until it is over.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import { FrameDirections } from "../../checking/frame-directions.ts";
import { dispatchesIn, heldAttemptsIn, type ObservedFrame, readAck, taskReportsIn } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

interface AckedAttempt {
  readonly task: string;
  readonly fence: number;
  readonly boot: string;
  /** Since when it is not named. */
  missedAt: TrueTime;
}

const refusalWaitMs = 60_000;

export function checkAcksAreTruthful({ reportViolation, world }: CheckerContext): Checker {
  const directions = new FrameDirections();
  const highest = new Map<string, number>();
  /** Dispatches in flight, by direction and number; then what was acked of them, by boot and `<task>#<fence>`. */
  const offered = new Map<string, Map<number, readonly AckedAttempt[]>>();
  const held = new Map<string, Map<string, AckedAttempt>>();
  /** Dispatches that have come once: a repeat may come long after the end. */
  const known = new Set<string>();
  /** The last fence of a task that is over, by boot and task: the word that ends an attempt may come before its ack. */
  const over = new Map<string, number>();
  /** Ids of a process's frames that have come by a socket that counted. */
  const arrivedFrames = new Set<string>();
  const leaving = new Set<string>();
  const started = new Set<string>();
  const lastFrameAt = new Map<string, TrueTime>();
  let checkedCount = 0;

  /** Frames of workers have names of their own; those of schedulers may repeat from socket to socket. */
  const checkAckedName = ({ type, seen: observation, payload }: ObservedFrame): void => {
    const { for: id } = payload;
    if (type !== "control.ack" || observation.toward !== "worker" || typeof id !== "string") return;
    checkedCount++;
    if (!arrivedFrames.has(`${observation.boot} ${id}`))
      reportViolation(
        `${observation.connection}: the scheduler acked ${id} of ${observation.boot}, which has not come by a socket that counts`,
        [observation.worker, observation.connection],
      );
  };

  const checkAck = (frame: ObservedFrame): void => {
    const said = readAck(frame);
    // The first generation numbers frames before its session is accepted, and anew after that.
    const isLegacySender = frame.seen.toward === "worker" && world.isLegacyWorker(`${frame.seen.tenant}/${frame.seen.instance}`);
    if (said === null || isLegacySender) return;
    const direction = directions.directionAckedBy(frame);
    const { upTo, beyond } = said;
    const workerKey = `${frame.seen.connection}: the ${frame.seen.toward === "worker" ? "scheduler" : "worker"}`;
    const about = [frame.seen.worker, frame.seen.connection];
    const before = highest.get(direction.name) ?? Number.NEGATIVE_INFINITY;
    checkedCount++;
    if (upTo < before)
      return reportViolation(`${workerKey} acked up to ${upTo} of ${direction.name}, and had acked ${before}`, about);
    highest.set(direction.name, upTo);
    const top = Math.max(upTo, ...beyond);
    if (direction.itemsByNumber.size > 0 && top > direction.lastNumber)
      return reportViolation(`${workerKey} acked ${top} of ${direction.name}, which was never sent`, about);
    for (const seq of [upTo, ...beyond])
      if (seq >= direction.firstNumber && !hasArrived(direction, seq, seq === upTo))
        return reportViolation(
          `${workerKey} acked ${seq} of ${direction.name} and has it only up to ${direction.arrivedUpTo}`,
          about,
        );
    if (frame.seen.toward === "scheduler") recordTaken(frame, [...beyond, upTo]);
  };

  const hasArrived = (
    direction: ReturnType<FrameDirections["directionOf"]>,
    seq: number,
    hasNothingMissingBefore: boolean,
  ): boolean => (hasNothingMissingBefore ? seq <= direction.arrivedUpTo : direction.hasArrived(seq));

  /** The worker has taken these dispatches on. */
  const recordTaken = (frame: ObservedFrame, covered: readonly number[]): void => {
    const upTo = Math.min(...covered);
    const inFlightFrames = offered.get(frame.sessionKey);
    const ownEntries = held.get(frame.seen.boot) ?? new Map<string, AckedAttempt>();
    held.set(frame.seen.boot, ownEntries);
    for (const [seq, items] of inFlightFrames ?? []) {
      if (seq > upTo && !covered.includes(seq)) continue;
      inFlightFrames?.delete(seq);
      for (const one of items)
        if (one.boot === frame.seen.boot && one.fence > (over.get(`${one.boot} ${one.task}`) ?? 0))
          ownEntries.set(`${one.task}#${one.fence}`, one);
    }
  };

  /** A worker that hears nothing for long stops by itself what it holds, and need not say so. */
  const forgetSilent = (boot: string): void => {
    const { leaseMs = 0 } = world.setup?.guarantees ?? {};
    if (world.now - (lastFrameAt.get(boot) ?? world.now) > leaseMs / 2) held.delete(boot);
  };

  const checkHeldAttempts = (frame: ObservedFrame): void => {
    const named = heldAttemptsIn(frame);
    if (named === null || leaving.has(frame.seen.boot)) return;
    forgetSilent(frame.seen.boot);
    const names = new Set(named.map(({ task, fence }) => `${task}#${fence}`));
    for (const [name, one] of held.get(frame.seen.boot) ?? []) {
      checkedCount++;
      if (names.has(name)) one.missedAt = Number.POSITIVE_INFINITY;
      else one.missedAt = Math.min(one.missedAt, frame.seen.at);
      // One that it refused may wait for room to say so; one that it has begun may not be forgotten for a moment.
      const patienceMs = started.has(`${one.boot} ${name}`) ? 0 : refusalWaitMs;
      if (frame.seen.at >= one.missedAt + patienceMs)
        return reportViolation(`${frame.seen.boot} acked the dispatch of ${name}, never ended it, and does not name it as held`, [
          one.task,
          frame.seen.worker,
        ]);
    }
  };

  const release = (boot: string, task: string, upToFence: number): void => {
    const ownEntries = held.get(boot);
    over.set(`${boot} ${task}`, Math.max(upToFence, over.get(`${boot} ${task}`) ?? 0));
    for (const [name, one] of ownEntries ?? []) if (one.task === task && one.fence <= upToFence) ownEntries?.delete(name);
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onObservation(observation) {
      if (observation.kind === "link" && observation.event === "dialled")
        directions.recordDial(observation.boot, observation.connection);
      // One that leaves gives back what it has not begun.
      if (observation.kind === "process" && observation.event === "leaves") leaving.add(observation.boot);
      if (observation.kind === "handler" && observation.event === "starts")
        started.add(`${observation.boot} ${observation.task}#${observation.fence}`);
      // Stopped, by word or by the worker's own clock: it need not say more.
      if (observation.kind === "handler" && (observation.event === "told" || observation.event === "gone"))
        release(observation.boot, observation.task, observation.fence);
    },
    onFrame(frame) {
      directions.observeFrame(frame);
      const { seen: observation, seq } = frame;
      if (observation.event === "sent") {
        checkAck(frame);
        checkAckedName(frame);
      }
      if (observation.toward === "scheduler" && observation.event === "delivered" && directions.isFromCurrentSocket(frame))
        arrivedFrames.add(`${observation.boot} ${frame.id}`);
      if (observation.toward === "scheduler" && observation.event === "sent") {
        checkHeldAttempts(frame);
        for (const { of, task, fence } of taskReportsIn(frame)) if (of !== "feedback") release(observation.boot, task, fence);
      }
      if (observation.toward !== "worker" || observation.event !== "delivered") return;
      forgetSilent(observation.boot);
      lastFrameAt.set(observation.boot, observation.at);
      if (frame.type === "biz.exec.cancel")
        release(observation.boot, String(frame.payload["task_id"]), Number(frame.payload["fence"]));
      for (const { task, fence } of dispatchesIn(frame)) release(observation.boot, task, fence - 1);
      if (seq === null || !directions.isFromCurrentSocket(frame)) return;
      const items = dispatchesIn(frame).filter(({ task, fence }) => !known.has(`${observation.boot} ${task}#${fence}`));
      if (items.length === 0) return;
      for (const { task, fence } of items) known.add(`${observation.boot} ${task}#${fence}`);
      const inFlightFrames = offered.get(frame.sessionKey) ?? new Map<number, readonly AckedAttempt[]>();
      offered.set(
        frame.sessionKey,
        inFlightFrames.set(
          seq,
          items.map(({ task, fence }) => ({ task, fence, boot: observation.boot, missedAt: Number.POSITIVE_INFINITY })),
        ),
      );
    },
  };
}
