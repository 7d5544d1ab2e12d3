// I19 across a reset: a session that cannot go on ends by a word, and what was sent in it and never acked is sent again in the next one.
// A result may be given up only when its task has moved on: cancelled there, or granted to that worker anew.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import { ackIn, dispatchesIn, type WireFrame, wordsIn } from "./wire.ts";

interface Said {
  readonly task: string;
  readonly fence: number;
  readonly name: string;
  /** The life and the session that said it last. */
  boot: string;
  stream: string;
}

interface Session {
  readonly stream: string;
  readonly connection: string;
  readonly boot: string;
  readonly at: TrueTime;
}

/** A worker that was accepted has so long to say again what nobody acked: the disk may have to be read, and the window may be small. */
const sayAgainMs = 20_000;

export function owed({ fail, scene }: Bench): Checker {
  /** By machine: what it said and no ack has reached it for. */
  const unacked = new Map<string, Map<string, Said>>();
  /** By session: the names under each number. */
  const flights = new Map<string, Map<number, readonly string[]>>();
  /** The last fence of each task, by machine, that is over there. */
  const over = new Map<string, number>();
  const sessions = new Map<string, Session>();
  let saw = 0;

  const say = (frame: WireFrame): void => {
    const { seen, seq, stream } = frame;
    const results = wordsIn(frame).filter(({ of }) => of === "result");
    if (results.length === 0 || seq === null || scene.isOlder(`${seen.tenant}/${seen.instance}`)) return;
    const mine = unacked.get(seen.worker) ?? new Map<string, Said>();
    unacked.set(seen.worker, mine);
    const flight = flights.get(stream) ?? new Map<number, readonly string[]>();
    const names = results.map(({ task, fence }) => `${task}#${fence}`);
    flights.set(stream, flight.set(seq, names));
    for (const { task, fence } of results) {
      const name = `${task}#${fence}`;
      // Said late, after its task had moved on, it may be given up.
      if (fence <= (over.get(`${seen.worker} ${task}`) ?? 0)) continue;
      if (mine.get(name)?.stream !== stream) saw++;
      mine.set(name, { task, fence, name, boot: seen.boot, stream });
    }
  };

  const hearAck = (frame: WireFrame): void => {
    const said = ackIn(frame);
    const flight = flights.get(frame.stream);
    if (said === null || flight === undefined) return;
    for (const [seq, names] of flight) {
      if (seq > said.upTo && !said.beyond.includes(seq)) continue;
      flight.delete(seq);
      for (const name of names) unacked.get(frame.seen.worker)?.delete(name);
    }
  };

  const forget = (worker: string, task: string, upToFence: number): void => {
    const mine = unacked.get(worker);
    over.set(`${worker} ${task}`, Math.max(upToFence, over.get(`${worker} ${task}`) ?? 0));
    for (const [name, one] of mine ?? []) if (one.task === task && one.fence <= upToFence) mine?.delete(name);
  };

  const judge = (worker: string, { stream, connection, boot, at }: Session): void => {
    const isLiving = scene.links.get(connection)?.isOpen === true && scene.isRunning(worker);
    const since = Math.max(at, scene.troubledAt, scene.processes.get(worker)?.changedAt ?? 0);
    if (!isLiving || scene.now <= since + sayAgainMs) return;
    const hasDisk = scene.setUp?.workers.find((one) => one.worker === worker)?.hasDisk === true;
    for (const { name, task, boot: sayer, stream: then } of unacked.get(worker)?.values() ?? []) {
      if (!hasDisk && sayer !== boot) continue;
      saw++;
      if (then !== stream)
        return fail(`${worker} sent the result ${name} in ${then}, never heard it acked, and does not send it in ${stream}`, [
          task,
          worker,
        ]);
    }
  };

  return {
    get saw() {
      return saw;
    },
    frame(frame) {
      const { seen, stream } = frame;
      if (seen.toward === "scheduler" && seen.event === "sent") say(frame);
      if (seen.toward !== "worker" || seen.event !== "delivered") return;
      if (frame.type === "control.session.accept")
        sessions.set(seen.worker, { stream, connection: seen.connection, boot: seen.boot, at: seen.at });
      if (frame.type === "control.ack") hearAck(frame);
      if (frame.type === "biz.exec.cancel") forget(seen.worker, String(frame.payload["task_id"]), Number(frame.payload["fence"]));
      for (const { task, fence } of dispatchesIn(frame)) forget(seen.worker, task, fence - 1);
    },
    passes() {
      for (const [worker, session] of sessions) judge(worker, session);
    },
  };
}
