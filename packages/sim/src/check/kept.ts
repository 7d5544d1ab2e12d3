// I9: a result that a worker has sent stays with it until it hears the ack: every later register names it, also that of a later process where
// the outbox is on a disk, so that a kill between finish and ack leads to saying it again and not to doing it again.

import type { Bench, Checker } from "./checker.ts";
import { covers, dispatchesIn, heldIn, type WireFrame, wordsIn } from "./wire.ts";

interface Said {
  readonly task: string;
  readonly fence: number;
  /** The life that said it last. */
  boot: string;
}

export function kept({ fail, scene }: Bench): Checker {
  /** By machine and `<task>#<fence>`: said, and no ack of it has come back. Of two machines with one name each keeps its own. */
  const unacked = new Map<string, Map<string, Said>>();
  /** What left under which number, by session. */
  const flights = new Map<string, Map<number, readonly string[]>>();
  /** The newest fence that came of each task, by machine. */
  const newest = new Map<string, number>();
  let saw = 0;

  const hearWords = (frame: WireFrame, worker: string): void => {
    const results = wordsIn(frame).filter(({ of }) => of === "result");
    if (results.length === 0 || frame.seq === null) return;
    const { boot } = frame.seen;
    const mine = unacked.get(worker) ?? new Map<string, Said>();
    unacked.set(worker, mine);
    const flight = flights.get(frame.stream) ?? new Map<number, readonly string[]>();
    const names = results.map(({ task, fence }) => `${task}#${fence}`);
    flights.set(frame.stream, flight.set(frame.seq, names));
    // Said late, after a newer attempt of its task had come, it is of no interest any more.
    for (const { task, fence } of results)
      if (fence >= (newest.get(`${worker} ${task}`) ?? 0)) mine.set(`${task}#${fence}`, { task, fence, boot });
  };

  const hearAck = (frame: WireFrame, worker: string): void => {
    const flight = flights.get(frame.stream);
    for (const [seq, names] of flight ?? []) {
      if (!covers(frame, seq)) continue;
      flight?.delete(seq);
      for (const name of names) unacked.get(worker)?.delete(name);
    }
  };

  const judge = (frame: WireFrame, worker: string): void => {
    const held = heldIn(frame);
    if (held === null) return;
    const named = new Set(held.map(({ task, fence }) => `${task}#${fence}`));
    const hasDisk = scene.setUp?.workers.find((one) => one.worker === worker)?.hasDisk === true;
    for (const [name, { task, boot }] of unacked.get(worker) ?? []) {
      if (!hasDisk && boot !== frame.seen.boot) continue;
      saw++;
      if (!named.has(name))
        return fail(
          `${worker} (boot ${frame.seen.boot}) comes back without ${name}, whose result it sent and never heard acked`,
          [task, worker],
        );
    }
  };

  return {
    get saw() {
      return saw;
    },
    frame(frame) {
      const { seen } = frame;
      const { worker } = seen;
      if (seen.toward === "scheduler" && seen.event === "sent") {
        if (frame.type === "control.register") judge(frame, worker);
        hearWords(frame, worker);
      }
      if (seen.toward !== "worker" || seen.event !== "delivered") return;
      if (frame.type === "control.ack") hearAck(frame, worker);
      // Of several attempts of one task a worker answers for the last alone.
      for (const { task, fence } of dispatchesIn(frame)) {
        newest.set(`${worker} ${task}`, Math.max(fence, newest.get(`${worker} ${task}`) ?? 0));
        for (const [name, one] of unacked.get(worker) ?? [])
          if (one.task === task && one.fence < fence) unacked.get(worker)?.delete(name);
      }
    },
  };
}
