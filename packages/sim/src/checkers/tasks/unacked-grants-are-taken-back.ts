// I2: a grant of which no worker ever said a word is taken back, or found to be running, within a bound. Heartbeats that do not name it
// are no word about it. While the holder's session lives the bound is the ack deadline, else its lease; it begins anew whenever a scheduler or
// the store was disturbed, as no lease ends within one period after a scheduler was away.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import {
  ackCovers,
  dispatchesIn,
  heldAttemptsIn,
  type ObservedDispatch,
  type ObservedFrame,
  taskReportsIn,
} from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** For looks, latency and work that waits. */
const slackMs = 1_000;
const leaseSlackMs = 15_000;

export function checkUnackedGrantsAreTakenBack({ reportViolation, projection, world }: CheckerContext): Checker {
  /** Grants without a word, by `<task>#<fence>`. */
  const unreportedGrants = new Map<
    string,
    { readonly tenant: string; readonly task: string; readonly fence: number; readonly since: TrueTime }
  >();
  const reportedGrants = new Set<string>();
  const sent = new Map<string, Map<number, readonly ObservedDispatch[]>>();
  /** The last session of each worker that was accepted, and when. */
  const acceptedSessions = new Map<string, { readonly connection: string; readonly at: TrueTime }>();
  let checkedCount = 0;

  const recordReport = (task: string, fence: number): void => {
    reportedGrants.add(`${task}#${fence}`);
    unreportedGrants.delete(`${task}#${fence}`);
  };

  const handleAck = (frame: ObservedFrame): void => {
    // The oldest dialect acks by name, and the name of a dispatch says which it is.
    const [task, fence] = String(frame.payload["for"]).split("#");
    if (task !== undefined && fence !== undefined && world.isLegacyWorker(frame.seen.worker)) recordReport(task, Number(fence));
    const inFlightFrames = sent.get(frame.sessionKey);
    for (const [seq, items] of inFlightFrames ?? [])
      if (ackCovers(frame, seq)) {
        for (const { task, fence } of items) recordReport(task, fence);
        inFlightFrames?.delete(seq);
      }
  };

  const boundFor = (holder: string, since: TrueTime): number => {
    const { ackDeadlineMs = 0, leaseMs = 0, idleMs = 0 } = world.setup?.guarantees ?? {};
    const acceptedSession = acceptedSessions.get(holder);
    // Whoever joined after the grant has settled it by what it reports; the log is only read later.
    const isSeated =
      acceptedSession !== undefined &&
      acceptedSession.at < since &&
      world.connections.get(acceptedSession.connection)?.isOpen === true;
    return isSeated ? ackDeadlineMs + 2 * idleMs + slackMs : ackDeadlineMs + 2 * leaseMs + leaseSlackMs;
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFact({ type, data, readAt, tenant }) {
      const task = String(data["task"]);
      if (type === "task.granted") {
        const fence = Number(data["fence"]);
        checkedCount++;
        if (!reportedGrants.has(`${task}#${fence}`))
          unreportedGrants.set(`${task}#${fence}`, { tenant, task, fence, since: readAt });
        return;
      }
      const before = projection.task(task);
      if (before !== undefined && type !== "task.feedback" && type !== "task.refused")
        unreportedGrants.delete(`${task}#${before.fence}`);
    },
    onFrame(frame) {
      const { seen: observation } = frame;
      if (observation.toward === "worker" && observation.event === "sent") {
        const workerKey = `${observation.tenant}/${observation.instance}`;
        // A renewed token seats nobody anew.
        if (frame.type === "control.session.accept" && acceptedSessions.get(workerKey)?.connection !== observation.connection)
          acceptedSessions.set(workerKey, { connection: observation.connection, at: observation.at });
        const items = dispatchesIn(frame);
        if (items.length === 0 || frame.seq === null) return;
        const inFlightFrames = sent.get(frame.sessionKey) ?? new Map<number, readonly ObservedDispatch[]>();
        sent.set(frame.sessionKey, inFlightFrames.set(frame.seq, items));
      } else if (observation.toward === "scheduler" && observation.event === "delivered") {
        if (frame.type === "control.ack") handleAck(frame);
        for (const { task, fence } of [...taskReportsIn(frame), ...(heldAttemptsIn(frame) ?? [])]) recordReport(task, fence);
      }
    },
    onTimePassed() {
      const { disturbedAt } = world;
      for (const { tenant, task, fence, since } of unreportedGrants.values()) {
        const at = projection.completeReadAt.get(tenant) ?? 0;
        const holder = projection.task(task)?.worker ?? "nobody";
        if (at <= Math.max(since, disturbedAt) + boundFor(holder, since)) continue;
        return reportViolation(`grant ${task}#${fence} to ${holder} was never acked and never taken back`, [task, holder]);
      }
    },
  };
}
