// A simulated worker with boots, a connection, a table of its attempts and random behaviour. In the fault phase it forgets, repeats, sends
// wrong reports and goes silent; in the fault-free phase it behaves correctly. It knows only what it was sent.

import type { AttemptRef, Command, FaultData, SendDispatch, WorkerDescription } from "@astraflow/engine";
import { describeWorker } from "../harness/engine-harness.ts";
import type { FuzzRandom } from "../harness/fuzz-random.ts";
import type { KillableEngine } from "./killable-engine.ts";

/** How a worker reaches the scheduler it is connected to. */
export interface FuzzWorkerLink {
  readonly random: FuzzRandom;
  /** What happened at all, for the test that asks whether enough did. */
  readonly occurrences: Set<string>;
  nextId(): string;
  send(to: KillableEngine, command: Command, onAnswer?: (fault: FaultData | null) => void): void;
  /** A scheduler that lives. */
  pickEngine(): KillableEngine | null;
}

interface FuzzAttempt extends AttemptRef {
  isAcked: boolean;
}

const retryableFaults = new Set(["E.STORE.BUSY", "E.SHUTTING_DOWN", "E.OVERLOADED"]);

const actionWeights = {
  ack: 10,
  answer: 8,
  twice: 1.5,
  differently: 1,
  fail: 2,
  error: 2,
  cancelled: 0.5,
  skip: 1,
  handBack: 1,
  busy: 0.5,
  feedback: 1,
  beat: 6,
  beatNull: 1,
  beatWrong: 1,
  beatSick: 0.4,
  beatShort: 0.6,
  resume: 1.5,
  takeOver: 0.7,
  late: 2,
  stranger: 1,
  leave: 1,
  vanish: 1,
  supersede: 0.7,
  silence: 0.7,
  reboot: 0.8,
  nothing: 4,
} as const;

type AttemptAction =
  | "answer"
  | "skip"
  | "fail"
  | "cancelled"
  | "twice"
  | "differently"
  | "error"
  | "handBack"
  | "busy"
  | "feedback";

export class FuzzWorker {
  readonly tenant: string;
  readonly id: string;
  readonly about: WorkerDescription;
  engine: KillableEngine | null = null;
  session: string | null = null;
  readonly #name: string;
  readonly #link: FuzzWorkerLink;
  #boot = 1;
  #isNewProcess = true;
  #isJoining = false;
  #silentSteps = 0;
  readonly #held = new Map<string, FuzzAttempt>();
  /** Dispatches of this session that were lost on their way: a resumed session gets them after all. */
  readonly #lostDispatches = new Map<string, AttemptRef>();
  /** Tasks that were granted to it again while it ran them. */
  readonly #grantedAgain = new Set<string>();
  /** Attempts that were its own once: material for late reports. */
  readonly #formerAttempts: AttemptRef[] = [];
  /** Connections it gave up without the scheduler's noticing. */
  readonly #abandonedSessions: { home: KillableEngine; session: string }[] = [];

  constructor(link: FuzzWorkerLink, tenant: string, name: string, changes: Partial<WorkerDescription>) {
    this.#link = link;
    this.tenant = tenant;
    this.#name = name;
    this.id = `${tenant}/${name}`;
    this.about = describeWorker(changes);
  }

  /** What the scheduler sends on a session; a frame for another session reaches nobody. */
  receiveDispatch(from: KillableEngine, { session, dispatch: { task, fence } }: SendDispatch, isLost: boolean): void {
    if (session !== this.session || from !== this.engine) return;
    if (isLost) this.#lostDispatches.set(task, { task, fence });
    else this.#start(from, session, { task, fence });
  }

  #start(killable: KillableEngine, session: string, { task, fence }: AttemptRef): void {
    const running = this.#isOlderDialect ? this.#held.get(task) : undefined;
    if (running === undefined) {
      this.#held.set(task, { task, fence, isAcked: false });
      return;
    }
    // It knows no fences: a task that it runs is refused, and the outcome will name the dispatch that began it.
    this.#link.occurrences.add(running.fence === fence ? "rechecked" : "granted again");
    if (running.fence !== fence) this.#grantedAgain.add(task);
    this.#send(killable, { type: "task.ack", session, held: [{ task, fence }] });
    this.#send(killable, { type: "task.error", session, task, fence, code: "E.CMD.CONCURRENCY_VIOLATION", message: "still" });
  }

  receiveStop(from: KillableEngine, session: string, one: AttemptRef): void {
    if (session !== this.session || from !== this.engine) return;
    if (this.#lostDispatches.get(one.task)?.fence === one.fence) this.#lostDispatches.delete(one.task);
    // The older dialects have no frame for it.
    if (!this.#isOlderDialect && this.#held.get(one.task)?.fence === one.fence) this.#forgetAttempt(one.task);
  }

  get #isOlderDialect(): boolean {
    return this.about.dialect === "first";
  }

  /** The door closes the socket and reports that to the engine. */
  receiveReset(from: KillableEngine, session: string): void {
    if (session === this.session && from === this.engine) this.disconnect();
  }

  /** Its scheduler died: the connection is gone and no engine is notified. */
  loseConnection(killable: KillableEngine): void {
    if (this.engine !== killable) return;
    this.engine = null;
    this.session = null;
    this.#isJoining = false;
  }

  disconnect(): void {
    const { engine: killable, session } = this;
    this.engine = null;
    this.session = null;
    this.#isJoining = false;
    if (killable !== null && session !== null)
      this.#send(killable, { type: "worker.leave", session, reason: "closed", isOrderly: true });
  }

  actRandomly(): void {
    const { random } = this.#link;
    if (this.#silentSteps > 0) this.#silentSteps--;
    else if (this.engine === null || this.session === null) {
      if (!this.#isJoining && random.chance(0.5)) this.#join(random.chance(0.15) ? this.#falseInventory() : this.#inventory());
    } else this.#perform(this.engine, this.session, random.pickWeighted(actionWeights));
    if (random.chance(0.1)) this.#reportAbandonedSession();
  }

  /** Everything is answered, everything is named. */
  actCorrectly(): void {
    this.#silentSteps = 0;
    while (this.#abandonedSessions.length > 0) this.#reportAbandonedSession();
    if (this.engine === null || this.session === null) {
      if (!this.#isJoining) this.#join(this.#inventory());
      return;
    }
    const { engine: killable, session } = this;
    this.#sendAcks(killable, session);
    for (const attempt of this.#held.values()) this.#endAttempt(killable, session, attempt, "succeeded", { out: attempt.fence });
    this.#sendHeartbeat(killable, session, true, this.#inventory());
  }

  /** A worker whose heartbeat is refused ends its session. */
  #sendHeartbeat(
    killable: KillableEngine,
    session: string,
    healthy: boolean,
    named: readonly AttemptRef[] | null,
    memPct = 10,
  ): void {
    const held = this.#isOlderDialect ? null : named;
    this.#send(killable, { type: "worker.beat", session, healthy, held, memPct }, (fault) => {
      if (fault?.code === "E.SESSION.STALE_BINDING" && this.session === session) this.disconnect();
    });
  }

  #perform(killable: KillableEngine, session: string, action: keyof typeof actionWeights): void {
    const { random } = this.#link;
    const attempt = this.#held.size === 0 ? null : random.pick([...this.#held.values()]);
    switch (action) {
      case "ack":
        return this.#sendAcks(killable, session);
      case "beat":
      case "beatNull":
      case "beatWrong":
      case "beatSick": {
        const held = action === "beatNull" ? null : action === "beatWrong" ? this.#falseInventory() : this.#inventory();
        return this.#sendHeartbeat(killable, session, action !== "beatSick", held);
      }
      case "beatShort":
        return this.#sendHeartbeat(killable, session, true, this.#inventory(), 95);
      case "resume":
      case "takeOver":
        if (this.#isOlderDialect) return this.disconnect();
        return this.#resume(killable, session, action === "resume");
      case "leave":
        return this.disconnect();
      case "supersede":
        return this.#join(this.#inventory());
      case "vanish":
        this.#abandonedSessions.push({ home: killable, session });
        return this.loseConnection(killable);
      case "reboot":
        this.disconnect();
        return this.#reboot();
      case "silence":
        this.#silentSteps = 5 + random.integerBelow(30);
        return;
      case "late": {
        const old = this.#formerAttempts.length === 0 ? null : random.pick(this.#formerAttempts);
        if (old !== null) this.#sendResult(killable, session, old, "succeeded", { out: "late" });
        return;
      }
      case "stranger":
        return this.#sendResult(killable, session, { task: `${random.integerBelow(9)}.0`, fence: 1 }, "succeeded", {});
      case "nothing":
        return;
      default:
        if (attempt !== null) this.#performOnAttempt(killable, session, action, attempt);
    }
  }

  /** Performs an action on an attempt that it holds. */
  #performOnAttempt(killable: KillableEngine, session: string, action: AttemptAction, attempt: FuzzAttempt): void {
    const about = { session, task: attempt.task, fence: attempt.fence };
    switch (action) {
      case "answer":
        return this.#endAttempt(killable, session, attempt, "succeeded", { out: attempt.fence });
      case "skip":
        return this.#endAttempt(killable, session, attempt, "skipped", {});
      case "fail":
        return this.#endAttempt(killable, session, attempt, "failed", { why: 1 });
      case "cancelled":
        return this.#endAttempt(killable, session, attempt, "cancelled", {});
      case "twice":
      case "differently":
        this.#endAttempt(killable, session, attempt, "succeeded", { out: 1 });
        return this.#sendResult(killable, session, attempt, "succeeded", { out: action === "twice" ? 1 : 2 });
      case "error":
        return this.#send(
          killable,
          { type: "task.error", ...about, code: "E.RUNNER.FAILURE", message: "broke" },
          this.#onAttemptAnswer(attempt),
        );
      case "handBack":
        return this.#send(
          killable,
          { type: "task.error", ...about, code: "E.RUNNER.CANCELLED", message: "going" },
          this.#onAttemptAnswer(attempt),
        );
      case "busy":
        return this.#send(killable, { type: "task.error", ...about, code: "E.CMD.CONCURRENCY_VIOLATION", message: "still" });
      case "feedback":
        return this.#send(killable, { type: "task.feedback", ...about, data: { progress: 0.5 } });
    }
  }

  #join(running: readonly AttemptRef[]): void {
    const killable = this.#link.pickEngine();
    if (killable === null) return;
    if (this.engine !== null && this.session !== null) this.#abandonedSessions.push({ home: this.engine, session: this.session });
    this.engine = killable;
    this.session = null;
    this.#isJoining = true;
    const session = `${this.id}:${this.#link.nextId()}`;
    const join = { name: this.#name, boot: this.#bootId, session, about: this.about, running };
    // By the counter of its frames a process of an older dialect shows that it is a new one, until a join was answered.
    const quietJoin = { ...join, boot: this.#isNewProcess ? join.boot : null, running: null };
    this.#lostDispatches.clear();
    this.#send(killable, { type: "worker.join", ...(this.#isOlderDialect ? quietJoin : join) }, (fault) => {
      if (this.session !== session) return;
      this.#isJoining = false;
      if (fault !== null) this.loseConnection(killable);
      else this.#isNewProcess = false;
    });
    // Frames may follow the answer at once, so the session receives from now on.
    this.session = session;
  }

  /** The same session on a new socket. Nothing that was sent on it is lost. */
  #resume(killable: KillableEngine, session: string, hasLeft: boolean): void {
    if (hasLeft) this.#send(killable, { type: "worker.leave", session, reason: "cut" });
    const held = [...this.#held.values()].filter((attempt) => !attempt.isAcked);
    const unacked = [...held, ...this.#lostDispatches.values()].map(({ task, fence }) => ({ task, fence }));
    const join = { name: this.#name, boot: this.#bootId, session, about: this.about, running: null, resumed: { unacked } };
    this.#send(killable, { type: "worker.join", ...join }, (fault) => {
      if (this.session !== session || this.engine !== killable) return;
      if (fault !== null) return this.loseConnection(killable);
      this.#link.occurrences.add("resumed");
      for (const one of unacked) if (this.#lostDispatches.delete(one.task)) this.#start(killable, session, one);
    });
  }

  get #bootId(): string {
    return `${this.id}-${this.#boot}`;
  }

  #reboot(): void {
    this.#boot++;
    this.#isNewProcess = true;
    for (const task of [...this.#held.keys()]) this.#forgetAttempt(task);
  }

  #inventory(): AttemptRef[] {
    return [...this.#held.values()].map(({ task, fence }) => ({ task, fence }));
  }

  #falseInventory(): AttemptRef[] {
    const { random } = this.#link;
    return [
      ...this.#inventory().filter(() => random.chance(0.5)),
      ...this.#formerAttempts.filter(() => random.chance(0.3)),
      { task: "x.0", fence: 3 },
    ];
  }

  #sendAcks(killable: KillableEngine, session: string): void {
    const held = [...this.#held.values()].filter((attempt) => !attempt.isAcked);
    if (held.length === 0) return;
    for (const attempt of held) attempt.isAcked = true;
    this.#send(killable, { type: "task.ack", session, held: held.map(({ task, fence }) => ({ task, fence })) });
  }

  #endAttempt(
    killable: KillableEngine,
    session: string,
    attempt: FuzzAttempt,
    status: "succeeded" | "failed" | "cancelled" | "skipped",
    result: object,
  ) {
    this.#sendResult(killable, session, attempt, status, result, this.#onAttemptAnswer(attempt));
  }

  #sendResult(
    killable: KillableEngine,
    session: string,
    { task, fence }: AttemptRef,
    status: "succeeded" | "failed" | "cancelled" | "skipped",
    result: object,
    onAnswer?: (fault: FaultData | null) => void,
  ): void {
    const text = JSON.stringify(result);
    this.#send(
      killable,
      { type: "task.result", session, task, fence, status, result: text, error: null, durationMs: null },
      onAnswer,
    );
  }

  /** A report that was accepted or refused for good is done with; one that could not be stored ends the session and is sent again. */
  #onAttemptAnswer(attempt: FuzzAttempt): (fault: FaultData | null) => void {
    const isDoubled = this.#grantedAgain.has(attempt.task);
    // An older dialect keeps no outcome: it sends each one once and forgets it, received or not.
    if (this.#isOlderDialect) this.#forgetAttempt(attempt.task);
    return (fault) => {
      if (fault === null && isDoubled) this.#link.occurrences.add("older outcome");
      if (fault !== null && retryableFaults.has(fault.code)) this.disconnect();
      else if (this.#held.get(attempt.task) === attempt) this.#forgetAttempt(attempt.task);
    };
  }

  #forgetAttempt(task: string): void {
    const attempt = this.#held.get(task);
    if (attempt !== undefined) this.#formerAttempts.push({ task, fence: attempt.fence });
    this.#held.delete(task);
    this.#grantedAgain.delete(task);
  }

  #reportAbandonedSession(): void {
    const abandoned = this.#abandonedSessions.shift();
    if (abandoned !== undefined)
      this.#send(abandoned.home, { type: "worker.leave", session: abandoned.session, reason: "noticed late" });
  }

  #send(killable: KillableEngine, words: WorkerCommandBody, onAnswer?: (fault: FaultData | null) => void): void {
    this.#link.send(killable, { tenant: this.tenant, worker: this.id, ...words } as Command, onAnswer);
  }
}

type WorkerCommandBody = Command extends infer C ? (C extends { worker: string } ? Omit<C, "tenant" | "worker"> : never) : never;
