// I2: a grant that no worker ever reports on is requeued, or found to be running, within a time limit. A heartbeat that does not list the attempt is not
// a report on it. While the holder's session is alive the limit is the ack deadline, otherwise its lease; it starts anew whenever a scheduler or
// the store was disturbed, because no lease ends within one period after a scheduler was away.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import {
  dispatchesIn,
  heldAttemptsIn,
  type ObservedDispatch,
  type ObservedFrame,
  taskReportsIn,
} from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** For polling, latency and queued work. */
const slackMs = 1_000;
const leaseSlackMs = 15_000;

export class UnackedGrantsAreTakenBack extends Checker {
  /** Grants without a report, by `<task>#<fence>`. */
  readonly #unreportedGrants = new Map<
    string,
    { readonly tenant: string; readonly task: string; readonly fence: number; readonly since: TrueTime }
  >();
  readonly #reportedGrants = new Set<string>();
  readonly #unackedDispatches = new UnackedFrames<ObservedDispatch>();
  /** The last session of each worker that was accepted, and when. */
  readonly #acceptedSessions = new Map<string, { readonly connection: string; readonly at: TrueTime }>();

  override onFact({ type, data, readAt, tenant }: ObservedFact): void {
    const task = String(data["task"]);
    if (type === "task.granted") {
      const fence = Number(data["fence"]);
      this.checkedCount++;
      if (!this.#reportedGrants.has(`${task}#${fence}`))
        this.#unreportedGrants.set(`${task}#${fence}`, { tenant, task, fence, since: readAt });
      return;
    }
    const before = this.projection.task(task);
    if (before !== undefined && type !== "task.feedback" && type !== "task.refused")
      this.#unreportedGrants.delete(`${task}#${before.fence}`);
  }

  override onFrame(frame: ObservedFrame): void {
    const { observation } = frame;
    if (observation.toward === "worker" && observation.event === "sent") {
      const workerKey = frame.workerKey;
      // A renewed token is not a new session.
      if (frame.type === "control.session.accept" && this.#acceptedSessions.get(workerKey)?.connection !== observation.connection)
        this.#acceptedSessions.set(workerKey, { connection: observation.connection, at: observation.at });
      this.#unackedDispatches.recordSent(frame, dispatchesIn(frame));
    } else if (observation.toward === "scheduler" && observation.event === "delivered") {
      if (frame.type === "control.ack") this.#handleAck(frame);
      for (const { task, fence } of [...taskReportsIn(frame), ...(heldAttemptsIn(frame) ?? [])]) this.#recordReport(task, fence);
    }
  }

  override onTimePassed(): void {
    const { disturbedAt } = this.world;
    for (const { tenant, task, fence, since } of this.#unreportedGrants.values()) {
      const at = this.projection.completeReadAt.get(tenant) ?? 0;
      const holder = this.projection.task(task)?.worker ?? "nobody";
      if (at <= Math.max(since, disturbedAt) + this.#boundFor(holder, since)) continue;
      return this.reportViolation(`grant ${task}#${fence} to ${holder} was never acked and never taken back`, [task, holder]);
    }
  }

  #recordReport(task: string, fence: number): void {
    this.#reportedGrants.add(`${task}#${fence}`);
    this.#unreportedGrants.delete(`${task}#${fence}`);
  }

  #handleAck(frame: ObservedFrame): void {
    // The oldest dialect acks by frame id, and the id of a dispatch names the task and the fence.
    const [task, fence] = String(frame.payload["for"]).split("#");
    if (task !== undefined && fence !== undefined && this.world.isLegacyWorker(frame.observation.worker))
      this.#recordReport(task, Number(fence));
    for (const { task, fence } of this.#unackedDispatches.takeAcked(frame)) this.#recordReport(task, fence);
  }

  #boundFor(holder: string, since: TrueTime): number {
    const { ackDeadlineMs = 0, leaseMs = 0, idleMs = 0 } = this.world.setup?.guarantees ?? {};
    const acceptedSession = this.#acceptedSessions.get(holder);
    // A worker that joined after the grant has settled it with its register; the log is only read later.
    const hasSession =
      acceptedSession !== undefined &&
      acceptedSession.at < since &&
      this.world.connections.get(acceptedSession.connection)?.isOpen === true;
    return hasSession ? ackDeadlineMs + 2 * idleMs + slackMs : ackDeadlineMs + 2 * leaseMs + leaseSlackMs;
  }
}
