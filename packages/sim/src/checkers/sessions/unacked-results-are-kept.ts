// I9: a result that a worker has sent stays with it until it hears the ack: every later register names it, also that of a later process where
// the outbox is on a disk, so that a kill between finish and ack leads to saying it again and not to doing it again.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import { ackCovers, dispatchesIn, heldAttemptsIn, type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";

interface UnackedResult {
  readonly task: string;
  readonly fence: number;
  /** The life that said it last. */
  boot: string;
}

export function checkUnackedResultsAreKept({ reportViolation, world }: CheckerContext): Checker {
  /** By machine and `<task>#<fence>`: said, and no ack of it has come back. Of two machines with one name each keeps its own. */
  const unacked = new Map<string, Map<string, UnackedResult>>();
  /** What left under which number, by session. */
  const inFlightBySession = new Map<string, Map<number, readonly string[]>>();
  /** The newest fence that came of each task, by machine. */
  const newest = new Map<string, number>();
  let checkedCount = 0;

  const handleResults = (frame: ObservedFrame, worker: string): void => {
    const results = taskReportsIn(frame).filter(({ of }) => of === "result");
    if (results.length === 0 || frame.seq === null) return;
    const { boot } = frame.seen;
    const ownEntries = unacked.get(worker) ?? new Map<string, UnackedResult>();
    unacked.set(worker, ownEntries);
    const inFlightFrames = inFlightBySession.get(frame.sessionKey) ?? new Map<number, readonly string[]>();
    const names = results.map(({ task, fence }) => `${task}#${fence}`);
    inFlightBySession.set(frame.sessionKey, inFlightFrames.set(frame.seq, names));
    // Said late, after a newer attempt of its task had come, it is of no interest any more.
    for (const { task, fence } of results)
      if (fence >= (newest.get(`${worker} ${task}`) ?? 0)) ownEntries.set(`${task}#${fence}`, { task, fence, boot });
  };

  const handleAck = (frame: ObservedFrame, worker: string): void => {
    const inFlightFrames = inFlightBySession.get(frame.sessionKey);
    for (const [seq, names] of inFlightFrames ?? []) {
      if (!ackCovers(frame, seq)) continue;
      inFlightFrames?.delete(seq);
      for (const name of names) unacked.get(worker)?.delete(name);
    }
  };

  const check = (frame: ObservedFrame, worker: string): void => {
    const held = heldAttemptsIn(frame);
    if (held === null) return;
    const named = new Set(held.map(({ task, fence }) => `${task}#${fence}`));
    const hasDisk = world.setup?.workers.find((one) => one.worker === worker)?.hasDisk === true;
    for (const [name, { task, boot }] of unacked.get(worker) ?? []) {
      if (!hasDisk && boot !== frame.seen.boot) continue;
      checkedCount++;
      if (!named.has(name))
        return reportViolation(
          `${worker} (boot ${frame.seen.boot}) comes back without ${name}, whose result it sent and never heard acked`,
          [task, worker],
        );
    }
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame(frame) {
      const { seen: observation } = frame;
      const { worker } = observation;
      if (observation.toward === "scheduler" && observation.event === "sent") {
        if (frame.type === "control.register") check(frame, worker);
        handleResults(frame, worker);
      }
      if (observation.toward !== "worker" || observation.event !== "delivered") return;
      if (frame.type === "control.ack") handleAck(frame, worker);
      // Of several attempts of one task a worker answers for the last alone.
      for (const { task, fence } of dispatchesIn(frame)) {
        newest.set(`${worker} ${task}`, Math.max(fence, newest.get(`${worker} ${task}`) ?? 0));
        for (const [name, one] of unacked.get(worker) ?? [])
          if (one.task === task && one.fence < fence) unacked.get(worker)?.delete(name);
      }
    },
  };
}
