// I21: acks within a session never go back, and cover only frames that were sent and that arrived on the current socket. A dispatch that a worker
// has acked appears in its list of held attempts until it ends. Whether an acked report is durable is checked by answers-are-durable.ts.

import { Checker } from "../../checking/checker.ts";
import { FrameDirections } from "../../checking/frame-directions.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import { dispatchesIn, heldAttemptsIn, type ObservedFrame, readAck, taskReportsIn } from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import type { Observation, TrueTime } from "../../observation/observation.ts";

interface AckedAttempt {
  readonly task: string;
  readonly fence: number;
  readonly boot: string;
  /** Since when it is not listed. */
  missedAt: TrueTime;
}

const refusalWaitMs = 60_000;

export class AcksAreTruthful extends Checker {
  readonly #directions = new FrameDirections();
  readonly #highest = new Map<string, number>();
  /** Dispatches in flight, by direction and number; then what was acked of them, by boot and `<task>#<fence>`. */
  readonly #unackedDispatches = new UnackedFrames<AckedAttempt>();
  readonly #held = new Map<string, Map<string, AckedAttempt>>();
  /** Dispatches that arrived once: a repeat may arrive long after the end. */
  readonly #known = new Set<string>();
  /** The last ended fence of a task, by boot and task: the report that ends an attempt may precede its ack. */
  readonly #over = new Map<string, number>();
  /** Ids of a process's frames that arrived on a current socket. */
  readonly #arrivedFrames = new Set<string>();
  readonly #leaving = new Set<string>();
  readonly #started = new Set<string>();
  readonly #lastFrameAt = new Map<string, TrueTime>();

  override onObservation(observation: Observation): void {
    if (observation.kind === "link" && observation.event === "dialled")
      this.#directions.recordDial(observation.boot, observation.connection);
    // A stopping worker hands back what it has not started.
    if (observation.kind === "process" && observation.event === "leaves") this.#leaving.add(observation.boot);
    if (observation.kind === "handler" && observation.event === "starts")
      this.#started.add(`${observation.boot} ${observation.task}#${observation.fence}`);
    // Stopped, by a frame or by the worker's own clock: no report is needed.
    if (observation.kind === "handler" && (observation.event === "told" || observation.event === "gone"))
      this.#release(observation.boot, observation.task, observation.fence);
  }

  override onFrame(frame: ObservedFrame): void {
    this.#directions.observeFrame(frame);
    const { observation, seq } = frame;
    if (observation.event === "sent") {
      this.#checkAck(frame);
      this.#checkAckedName(frame);
    }
    if (observation.toward === "scheduler" && observation.event === "delivered" && this.#directions.isFromCurrentSocket(frame))
      this.#arrivedFrames.add(`${observation.boot} ${frame.id}`);
    if (observation.toward === "scheduler" && observation.event === "sent") {
      this.#checkHeldAttempts(frame);
      for (const { of, task, fence } of taskReportsIn(frame)) if (of !== "feedback") this.#release(observation.boot, task, fence);
    }
    if (observation.toward !== "worker" || observation.event !== "delivered") return;
    this.#forgetSilent(observation.boot);
    this.#lastFrameAt.set(observation.boot, observation.at);
    if (frame.type === "biz.exec.cancel")
      this.#release(observation.boot, String(frame.payload["task_id"]), Number(frame.payload["fence"]));
    for (const { task, fence } of dispatchesIn(frame)) this.#release(observation.boot, task, fence - 1);
    if (seq === null || !this.#directions.isFromCurrentSocket(frame)) return;
    const items = dispatchesIn(frame).filter(({ task, fence }) => !this.#known.has(`${observation.boot} ${task}#${fence}`));
    for (const { task, fence } of items) this.#known.add(`${observation.boot} ${task}#${fence}`);
    this.#unackedDispatches.recordSent(
      frame,
      items.map(({ task, fence }) => ({ task, fence, boot: observation.boot, missedAt: Number.POSITIVE_INFINITY })),
    );
  }

  /** Frame ids of workers are unique; those of schedulers may repeat from socket to socket. */
  #checkAckedName({ type, observation, payload }: ObservedFrame): void {
    const { for: id } = payload;
    if (type !== "control.ack" || observation.toward !== "worker" || typeof id !== "string") return;
    this.checkedCount++;
    if (!this.#arrivedFrames.has(`${observation.boot} ${id}`))
      this.reportViolation(
        `${observation.connection}: the scheduler acked ${id} of ${observation.boot}, which has not arrived on a current socket`,
        [observation.worker, observation.connection],
      );
  }

  #checkAck(frame: ObservedFrame): void {
    const said = readAck(frame);
    // The first generation numbers frames before its session is accepted, and anew after that.
    const isLegacySender = frame.observation.toward === "worker" && this.world.isLegacyWorker(frame.workerKey);
    if (said === null || isLegacySender) return;
    const direction = this.#directions.directionAckedBy(frame);
    const { upTo, beyond } = said;
    const workerKey = `${frame.observation.connection}: the ${frame.observation.toward === "worker" ? "scheduler" : "worker"}`;
    const about = [frame.observation.worker, frame.observation.connection];
    const before = this.#highest.get(direction.name) ?? Number.NEGATIVE_INFINITY;
    this.checkedCount++;
    if (upTo < before)
      return this.reportViolation(`${workerKey} acked up to ${upTo} of ${direction.name}, and had acked ${before}`, about);
    this.#highest.set(direction.name, upTo);
    const top = Math.max(upTo, ...beyond);
    if (direction.itemsByNumber.size > 0 && top > direction.lastNumber)
      return this.reportViolation(`${workerKey} acked ${top} of ${direction.name}, which was never sent`, about);
    for (const seq of [upTo, ...beyond])
      if (seq >= direction.firstNumber && !this.#hasArrived(direction, seq, seq === upTo))
        return this.reportViolation(
          `${workerKey} acked ${seq} of ${direction.name} and has it only up to ${direction.arrivedUpTo}`,
          about,
        );
    if (frame.observation.toward === "scheduler") this.#recordTaken(frame);
  }

  #hasArrived(direction: ReturnType<FrameDirections["directionOf"]>, seq: number, hasNothingMissingBefore: boolean): boolean {
    return hasNothingMissingBefore ? seq <= direction.arrivedUpTo : direction.hasArrived(seq);
  }

  /** The worker has acked these dispatches. */
  #recordTaken(frame: ObservedFrame): void {
    const { boot } = frame.observation;
    const held = getOrCreate(this.#held, boot, () => new Map<string, AckedAttempt>());
    for (const one of this.#unackedDispatches.takeAcked(frame))
      if (one.boot === boot && one.fence > (this.#over.get(`${boot} ${one.task}`) ?? 0))
        held.set(`${one.task}#${one.fence}`, one);
  }

  /** A worker without contact stops what it holds by itself, and need not report it. */
  #forgetSilent(boot: string): void {
    const { leaseMs = 0 } = this.world.setup?.guarantees ?? {};
    if (this.world.now - (this.#lastFrameAt.get(boot) ?? this.world.now) > leaseMs / 2) this.#held.delete(boot);
  }

  #checkHeldAttempts(frame: ObservedFrame): void {
    const named = heldAttemptsIn(frame);
    if (named === null || this.#leaving.has(frame.observation.boot)) return;
    this.#forgetSilent(frame.observation.boot);
    const names = new Set(named.map(({ task, fence }) => `${task}#${fence}`));
    for (const [name, one] of this.#held.get(frame.observation.boot) ?? []) {
      this.checkedCount++;
      if (names.has(name)) one.missedAt = Number.POSITIVE_INFINITY;
      else one.missedAt = Math.min(one.missedAt, frame.observation.at);
      // The refusal of a dispatch may have to wait for the window; a started one must always be listed.
      const patienceMs = this.#started.has(`${one.boot} ${name}`) ? 0 : refusalWaitMs;
      if (frame.observation.at >= one.missedAt + patienceMs)
        return this.reportViolation(
          `${frame.observation.boot} acked the dispatch of ${name}, never ended it, and does not list it as held`,
          [one.task, frame.observation.worker],
        );
    }
  }

  #release(boot: string, task: string, upToFence: number): void {
    const ownEntries = this.#held.get(boot);
    this.#over.set(`${boot} ${task}`, Math.max(upToFence, this.#over.get(`${boot} ${task}`) ?? 0));
    for (const [name, one] of ownEntries ?? []) if (one.task === task && one.fence <= upToFence) ownEntries?.delete(name);
  }
}
