// I19, resets: results that were sent in a session and never acked are sent again in the next session. A result may be dropped only when its task has
// moved on: it was cancelled there, or granted to that worker again.

import { Checker } from "../../checking/checker.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import { dispatchesIn, type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import type { TrueTime } from "../../observation/observation.ts";

interface UnackedResult {
  readonly task: string;
  readonly fence: number;
  readonly name: string;
  /** The process and the session that sent it last. */
  boot: string;
  stream: string;
}

interface AcceptedSession {
  readonly stream: string;
  readonly connection: string;
  readonly boot: string;
  readonly at: TrueTime;
}

/** How long an accepted worker may take to resend unacked results: the disk may have to be read, and the window may be small. */
const resendMsMax = 20_000;

export class UnackedResultsAreResent extends Checker {
  /** By machine: results that were sent and not acked. */
  readonly #unacked = new Map<string, Map<string, UnackedResult>>();
  /** Names of the results in each unacked frame. */
  readonly #unackedNames = new UnackedFrames<string>();
  /** The last fence of each task, by machine, that is over there. */
  readonly #over = new Map<string, number>();
  readonly #sessions = new Map<string, AcceptedSession>();

  override onFrame(frame: ObservedFrame): void {
    const { observation, sessionKey } = frame;
    if (observation.toward === "scheduler" && observation.event === "sent") this.#recordSentResults(frame);
    if (observation.toward !== "worker" || observation.event !== "delivered") return;
    if (frame.type === "control.session.accept")
      this.#sessions.set(observation.worker, {
        stream: sessionKey,
        connection: observation.connection,
        boot: observation.boot,
        at: observation.at,
      });
    if (frame.type === "control.ack") this.#handleAck(frame);
    if (frame.type === "biz.exec.cancel")
      this.#forgetUpTo(observation.worker, String(frame.payload["task_id"]), Number(frame.payload["fence"]));
    for (const { task, fence } of dispatchesIn(frame)) this.#forgetUpTo(observation.worker, task, fence - 1);
  }

  override onTimePassed(): void {
    for (const [worker, session] of this.#sessions) this.#check(worker, session);
  }

  #recordSentResults(frame: ObservedFrame): void {
    const { observation, seq, sessionKey } = frame;
    const results = taskReportsIn(frame).filter(({ of }) => of === "result");
    if (results.length === 0 || seq === null || this.world.isLegacyWorker(frame.workerKey)) return;
    const ownEntries = getOrCreate(this.#unacked, observation.worker, () => new Map<string, UnackedResult>());
    this.#unackedNames.recordSent(
      frame,
      results.map(({ task, fence }) => `${task}#${fence}`),
    );
    for (const { task, fence } of results) {
      const name = `${task}#${fence}`;
      // A result sent after its task moved on may be dropped.
      if (fence <= (this.#over.get(`${observation.worker} ${task}`) ?? 0)) continue;
      if (ownEntries.get(name)?.stream !== sessionKey) this.checkedCount++;
      ownEntries.set(name, { task, fence, name, boot: observation.boot, stream: sessionKey });
    }
  }

  #handleAck(frame: ObservedFrame): void {
    for (const name of this.#unackedNames.takeAcked(frame)) this.#unacked.get(frame.observation.worker)?.delete(name);
  }

  #forgetUpTo(worker: string, task: string, upToFence: number): void {
    const ownEntries = this.#unacked.get(worker);
    this.#over.set(`${worker} ${task}`, Math.max(upToFence, this.#over.get(`${worker} ${task}`) ?? 0));
    for (const [name, one] of ownEntries ?? []) if (one.task === task && one.fence <= upToFence) ownEntries?.delete(name);
  }

  #check(worker: string, { stream: sessionKey, connection, boot, at }: AcceptedSession): void {
    const isAlive = this.world.connections.get(connection)?.isOpen === true && this.world.isRunning(worker);
    const since = Math.max(at, this.world.disturbedAt, this.world.processes.get(worker)?.changedAt ?? 0);
    if (!isAlive || this.world.now <= since + resendMsMax) return;
    const hasDisk = this.world.setup?.workers.find((one) => one.worker === worker)?.hasDisk === true;
    for (const { name, task, boot: sender, stream: then } of this.#unacked.get(worker)?.values() ?? []) {
      if (!hasDisk && sender !== boot) continue;
      this.checkedCount++;
      if (then !== sessionKey)
        return this.reportViolation(
          `${worker} sent the result ${name} in ${then}, never received its ack, and does not send it in ${sessionKey}`,
          [task, worker],
        );
    }
  }
}
