// I21: acks within a session never go back, and cover only frames that were sent and that arrived on the current socket. A dispatch that a worker
// has acked appears in its list of held attempts until it ends. Whether an acked report is durable is checked by answers-are-durable.ts.

import { Checker } from "../../checking/checker.ts";
import type { ObservedAttempt, ObservedFrame } from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { Observation, TrueTime } from "../../observation/observation.ts";

interface AckedAttempt extends ObservedAttempt {
  readonly boot: string;
  /** Since when it is not listed. */
  missedAt: TrueTime;
}

const refusalWaitMs = 60_000;

export class AcksAreTruthful extends Checker {
  readonly #highest = new Map<string, number>();
  /** Dispatches in flight, by direction and number; then what was acked of them, by boot and attempt. */
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
    // A stopping worker hands back what it has not started.
    if (observation.kind === "process" && observation.event === "leaves") this.#leaving.add(observation.boot);
    if (observation.kind !== "handler") return;
    const { event, boot, task, fence } = observation;
    if (event === "starts") this.#started.add(`${boot} ${task}#${fence}`);
    // Stopped, by a frame or by the worker's own clock: no report is needed.
    if (event === "told" || event === "gone") this.#release(boot, task, fence);
  }

  override onSentToScheduler(frame: ObservedFrame): void {
    this.#checkAck(frame);
    this.#checkHeldAttempts(frame);
    for (const { of, task, fence } of frame.reports) if (of !== "feedback") this.#release(frame.boot, task, fence);
  }

  override onSentToWorker(frame: ObservedFrame): void {
    this.#checkAck(frame);
    this.#checkAckedName(frame);
  }

  override onDeliveredToScheduler(frame: ObservedFrame): void {
    if (this.sessions.isFromCurrentSocket(frame)) this.#arrivedFrames.add(`${frame.boot} ${frame.id}`);
  }

  override onDeliveredToWorker(frame: ObservedFrame): void {
    const { boot, dispatches, payload } = frame;
    this.#forgetSilent(boot);
    this.#lastFrameAt.set(boot, frame.at);
    if (frame.type === "biz.exec.cancel") this.#release(boot, String(payload["task_id"]), Number(payload["fence"]));
    for (const { task, fence } of dispatches) this.#release(boot, task, fence - 1);
    if (frame.seq === null || !this.sessions.isFromCurrentSocket(frame)) return;
    const arrived = dispatches.filter(({ attempt }) => !this.#known.has(`${boot} ${attempt}`));
    for (const { attempt } of arrived) this.#known.add(`${boot} ${attempt}`);
    const acked = arrived.map((one) => ({ ...one, boot, missedAt: Number.POSITIVE_INFINITY }));
    this.#unackedDispatches.recordSent(frame, acked);
  }

  /** Frame ids of workers are unique; those of schedulers may repeat from socket to socket. */
  #checkAckedName({ type, boot, connection, worker, payload }: ObservedFrame): void {
    const { for: id } = payload;
    if (type !== "control.ack" || typeof id !== "string") return;
    this.checkedCount++;
    if (!this.#arrivedFrames.has(`${boot} ${id}`))
      this.fail(
        `${connection}: the scheduler acked ${id} of ${boot}, which has not arrived on a current socket`,
        worker,
        connection,
      );
  }

  #checkAck(frame: ObservedFrame): void {
    const { ack, toward, connection, worker } = frame;
    // The first generation numbers frames before its session is accepted, and anew after that.
    if (ack === null || (toward === "worker" && this.world.isLegacyWorker(frame.workerKey))) return;
    const direction = this.sessions.directionAckedBy(frame);
    const { upTo, beyond } = ack;
    const sender = `${connection}: the ${toward === "worker" ? "scheduler" : "worker"}`;
    const before = this.#highest.get(direction.name) ?? Number.NEGATIVE_INFINITY;
    this.checkedCount++;
    if (upTo < before)
      return this.fail(`${sender} acked up to ${upTo} of ${direction.name}, and had acked ${before}`, worker, connection);
    this.#highest.set(direction.name, upTo);
    const top = Math.max(upTo, ...beyond);
    if (direction.itemsByNumber.size > 0 && top > direction.lastNumber)
      return this.fail(`${sender} acked ${top} of ${direction.name}, which was never sent`, worker, connection);
    for (const seq of [upTo, ...beyond]) {
      const hasArrived = seq === upTo ? seq <= direction.arrivedUpTo : direction.hasArrived(seq);
      if (seq >= direction.firstNumber && !hasArrived)
        return this.fail(
          `${sender} acked ${seq} of ${direction.name} and has it only up to ${direction.arrivedUpTo}`,
          worker,
          connection,
        );
    }
    if (toward === "scheduler") this.#recordTaken(frame);
  }

  /** The worker has acked these dispatches. */
  #recordTaken(frame: ObservedFrame): void {
    const { boot } = frame;
    const held = getOrCreate(this.#held, boot, () => new Map<string, AckedAttempt>());
    for (const one of this.#unackedDispatches.takeAcked(frame))
      if (one.boot === boot && one.fence > (this.#over.get(`${boot} ${one.task}`) ?? 0)) held.set(one.attempt, one);
  }

  /** A worker without contact stops what it holds by itself, and need not report it. */
  #forgetSilent(boot: string): void {
    const { leaseMs = 0 } = this.world.setup?.guarantees ?? {};
    if (this.world.now - (this.#lastFrameAt.get(boot) ?? this.world.now) > leaseMs / 2) this.#held.delete(boot);
  }

  #checkHeldAttempts({ heldAttempts, boot, at, worker }: ObservedFrame): void {
    if (heldAttempts === null || this.#leaving.has(boot)) return;
    this.#forgetSilent(boot);
    const listed = new Set(heldAttempts.map(({ attempt }) => attempt));
    for (const one of this.#held.get(boot)?.values() ?? []) {
      this.checkedCount++;
      one.missedAt = listed.has(one.attempt) ? Number.POSITIVE_INFINITY : Math.min(one.missedAt, at);
      // The refusal of a dispatch may have to wait for the window; a started one must always be listed.
      const patienceMs = this.#started.has(`${boot} ${one.attempt}`) ? 0 : refusalWaitMs;
      if (at >= one.missedAt + patienceMs)
        return this.fail(
          `${boot} acked the dispatch of ${one.attempt}, never ended it, and does not list it as held`,
          one.task,
          worker,
        );
    }
  }

  #release(boot: string, task: string, upToFence: number): void {
    const held = this.#held.get(boot);
    this.#over.set(`${boot} ${task}`, Math.max(upToFence, this.#over.get(`${boot} ${task}`) ?? 0));
    for (const one of held?.values() ?? []) if (one.task === task && one.fence <= upToFence) held?.delete(one.attempt);
  }
}
