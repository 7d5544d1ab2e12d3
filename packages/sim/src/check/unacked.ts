// I2: a grant of which no worker ever said a word is taken back, or found to be running, within a bound. Heartbeats that do not name it
// are no word about it. While the holder's session lives the bound is the ack deadline, else its lease; it begins anew whenever a scheduler or
// the store was disturbed, as no lease ends within one period after a scheduler was away.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import { covers, dispatchesIn, heldIn, type Sent, type WireFrame, wordsIn } from "./wire.ts";

/** For looks, latency and work that waits. */
const slackMs = 1_000;
const leaseSlackMs = 15_000;

export function unacked({ fail, lives, scene }: Bench): Checker {
  /** Grants without a word, by `<task>#<fence>`. */
  const silent = new Map<
    string,
    { readonly tenant: string; readonly task: string; readonly fence: number; readonly since: TrueTime }
  >();
  const heard = new Set<string>();
  const sent = new Map<string, Map<number, readonly Sent[]>>();
  /** The last session of each worker that was accepted, and when. */
  const seats = new Map<string, { readonly connection: string; readonly at: TrueTime }>();
  let saw = 0;

  const hear = (task: string, fence: number): void => {
    heard.add(`${task}#${fence}`);
    silent.delete(`${task}#${fence}`);
  };

  const hearAck = (frame: WireFrame): void => {
    // The oldest dialect acks by name, and the name of a dispatch says which it is.
    const [task, fence] = String(frame.payload["for"]).split("#");
    if (task !== undefined && fence !== undefined && scene.isOlder(frame.seen.worker)) hear(task, Number(fence));
    const flight = sent.get(frame.stream);
    for (const [seq, items] of flight ?? [])
      if (covers(frame, seq)) {
        for (const { task, fence } of items) hear(task, fence);
        flight?.delete(seq);
      }
  };

  const boundFor = (holder: string, since: TrueTime): number => {
    const { ackDeadlineMs = 0, leaseMs = 0, idleMs = 0 } = scene.setUp?.promises ?? {};
    const seat = seats.get(holder);
    // Whoever joined after the grant has settled it by what it reports; the log is only read later.
    const isSeated = seat !== undefined && seat.at < since && scene.links.get(seat.connection)?.isOpen === true;
    return isSeated ? ackDeadlineMs + 2 * idleMs + slackMs : ackDeadlineMs + 2 * leaseMs + leaseSlackMs;
  };

  return {
    get saw() {
      return saw;
    },
    fact({ type, data, readAt, tenant }) {
      const task = String(data["task"]);
      if (type === "task.granted") {
        const fence = Number(data["fence"]);
        saw++;
        if (!heard.has(`${task}#${fence}`)) silent.set(`${task}#${fence}`, { tenant, task, fence, since: readAt });
        return;
      }
      const before = lives.task(task);
      if (before !== undefined && type !== "task.feedback" && type !== "task.refused") silent.delete(`${task}#${before.fence}`);
    },
    frame(frame) {
      const { seen } = frame;
      if (seen.toward === "worker" && seen.event === "sent") {
        const who = `${seen.tenant}/${seen.instance}`;
        // A renewed token seats nobody anew.
        if (frame.type === "control.session.accept" && seats.get(who)?.connection !== seen.connection)
          seats.set(who, { connection: seen.connection, at: seen.at });
        const items = dispatchesIn(frame);
        if (items.length === 0 || frame.seq === null) return;
        const flight = sent.get(frame.stream) ?? new Map<number, readonly Sent[]>();
        sent.set(frame.stream, flight.set(frame.seq, items));
      } else if (seen.toward === "scheduler" && seen.event === "delivered") {
        if (frame.type === "control.ack") hearAck(frame);
        for (const { task, fence } of [...wordsIn(frame), ...(heldIn(frame) ?? [])]) hear(task, fence);
      }
    },
    passes() {
      const { troubledAt } = scene;
      for (const { tenant, task, fence, since } of silent.values()) {
        const at = lives.knownAt.get(tenant) ?? 0;
        const holder = lives.task(task)?.worker ?? "nobody";
        if (at <= Math.max(since, troubledAt) + boundFor(holder, since)) continue;
        return fail(`grant ${task}#${fence} to ${holder} was never acked and never taken back`, [task, holder]);
      }
    },
  };
}
