// I19 across a reset: a session that cannot go on ends by a word, and what was sent in it and never acked is sent again in the next one.
// A result may be given up only when its task has moved on: cancelled there, or granted to that worker anew.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import { dispatchesIn, type ObservedFrame, readAck, taskReportsIn } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

interface UnackedResult {
  readonly task: string;
  readonly fence: number;
  readonly name: string;
  /** The life and the session that said it last. */
  boot: string;
  stream: string;
}

interface AcceptedSession {
  readonly stream: string;
  readonly connection: string;
  readonly boot: string;
  readonly at: TrueTime;
}

/** A worker that was accepted has so long to say again what nobody acked: the disk may have to be read, and the window may be small. */
const resendMsMax = 20_000;

export function checkUnackedResultsAreResent({ reportViolation, world }: CheckerContext): Checker {
  /** By machine: what it said and no ack has reached it for. */
  const unacked = new Map<string, Map<string, UnackedResult>>();
  /** By session: the names under each number. */
  const inFlightBySession = new Map<string, Map<number, readonly string[]>>();
  /** The last fence of each task, by machine, that is over there. */
  const over = new Map<string, number>();
  const sessions = new Map<string, AcceptedSession>();
  let checkedCount = 0;

  const recordSentResults = (frame: ObservedFrame): void => {
    const { seen: observation, seq, sessionKey } = frame;
    const results = taskReportsIn(frame).filter(({ of }) => of === "result");
    if (results.length === 0 || seq === null || world.isLegacyWorker(`${observation.tenant}/${observation.instance}`)) return;
    const ownEntries = unacked.get(observation.worker) ?? new Map<string, UnackedResult>();
    unacked.set(observation.worker, ownEntries);
    const inFlightFrames = inFlightBySession.get(sessionKey) ?? new Map<number, readonly string[]>();
    const names = results.map(({ task, fence }) => `${task}#${fence}`);
    inFlightBySession.set(sessionKey, inFlightFrames.set(seq, names));
    for (const { task, fence } of results) {
      const name = `${task}#${fence}`;
      // Said late, after its task had moved on, it may be given up.
      if (fence <= (over.get(`${observation.worker} ${task}`) ?? 0)) continue;
      if (ownEntries.get(name)?.stream !== sessionKey) checkedCount++;
      ownEntries.set(name, { task, fence, name, boot: observation.boot, stream: sessionKey });
    }
  };

  const handleAck = (frame: ObservedFrame): void => {
    const said = readAck(frame);
    const inFlightFrames = inFlightBySession.get(frame.sessionKey);
    if (said === null || inFlightFrames === undefined) return;
    for (const [seq, names] of inFlightFrames) {
      if (seq > said.upTo && !said.beyond.includes(seq)) continue;
      inFlightFrames.delete(seq);
      for (const name of names) unacked.get(frame.seen.worker)?.delete(name);
    }
  };

  const forgetUpTo = (worker: string, task: string, upToFence: number): void => {
    const ownEntries = unacked.get(worker);
    over.set(`${worker} ${task}`, Math.max(upToFence, over.get(`${worker} ${task}`) ?? 0));
    for (const [name, one] of ownEntries ?? []) if (one.task === task && one.fence <= upToFence) ownEntries?.delete(name);
  };

  const check = (worker: string, { stream: sessionKey, connection, boot, at }: AcceptedSession): void => {
    const isAlive = world.connections.get(connection)?.isOpen === true && world.isRunning(worker);
    const since = Math.max(at, world.disturbedAt, world.processes.get(worker)?.changedAt ?? 0);
    if (!isAlive || world.now <= since + resendMsMax) return;
    const hasDisk = world.setup?.workers.find((one) => one.worker === worker)?.hasDisk === true;
    for (const { name, task, boot: sender, stream: then } of unacked.get(worker)?.values() ?? []) {
      if (!hasDisk && sender !== boot) continue;
      checkedCount++;
      if (then !== sessionKey)
        return reportViolation(
          `${worker} sent the result ${name} in ${then}, never heard it acked, and does not send it in ${sessionKey}`,
          [task, worker],
        );
    }
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame(frame) {
      const { seen: observation, sessionKey } = frame;
      if (observation.toward === "scheduler" && observation.event === "sent") recordSentResults(frame);
      if (observation.toward !== "worker" || observation.event !== "delivered") return;
      if (frame.type === "control.session.accept")
        sessions.set(observation.worker, {
          stream: sessionKey,
          connection: observation.connection,
          boot: observation.boot,
          at: observation.at,
        });
      if (frame.type === "control.ack") handleAck(frame);
      if (frame.type === "biz.exec.cancel")
        forgetUpTo(observation.worker, String(frame.payload["task_id"]), Number(frame.payload["fence"]));
      for (const { task, fence } of dispatchesIn(frame)) forgetUpTo(observation.worker, task, fence - 1);
    },
    onTimePassed() {
      for (const [worker, session] of sessions) check(worker, session);
    },
  };
}
