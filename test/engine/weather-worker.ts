// A worker in the weather: a process with boots, a connection, a table of what it holds, and moods. In the storm it forgets, repeats,
// lies and falls silent; in the calm it does what a good worker does. It knows only what it was sent.

import type { AttemptRef, Command, FaultData, SendDispatch, WorkerDescription } from "@astraflow/engine";
import { about } from "./harness.ts";
import type { Dice } from "./weather-dice.ts";
import type { Mortal } from "./weather-engine.ts";

/** How a worker reaches the scheduler it is connected to. */
export interface Wire {
  readonly dice: Dice;
  /** What happened at all, for the test that asks whether enough did. */
  readonly seen: Set<string>;
  nextId(): string;
  ask(to: Mortal, command: Command, heard?: (fault: FaultData | null) => void): void;
  /** A scheduler that lives. */
  somewhere(): Mortal | null;
}

interface Attempt extends AttemptRef {
  isAcked: boolean;
}

const retryLater = new Set(["E.STORE.BUSY", "E.SHUTTING_DOWN", "E.OVERLOADED"]);

const stormMoods = {
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

type AttemptMood =
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

export class WeatherWorker {
  readonly tenant: string;
  readonly id: string;
  readonly about: WorkerDescription;
  home: Mortal | null = null;
  session: string | null = null;
  readonly #name: string;
  readonly #wire: Wire;
  #boot = 1;
  #isNewProcess = true;
  #isJoining = false;
  #silentFor = 0;
  readonly #held = new Map<string, Attempt>();
  /** Dispatches of this session that were lost on their way: a resumed session gets them after all. */
  readonly #unseen = new Map<string, AttemptRef>();
  /** Tasks that were granted to it again while it ran them. */
  readonly #doubled = new Set<string>();
  /** Attempts that were its own once: material for late words. */
  readonly #old: AttemptRef[] = [];
  /** Connections it gave up without the scheduler's noticing. */
  readonly #ghosts: { home: Mortal; session: string }[] = [];

  constructor(wire: Wire, tenant: string, name: string, changes: Partial<WorkerDescription>) {
    this.#wire = wire;
    this.tenant = tenant;
    this.#name = name;
    this.id = `${tenant}/${name}`;
    this.about = about(changes);
  }

  /** What the scheduler sends on a session; a frame for another session reaches nobody. */
  receive(from: Mortal, { session, dispatch: { task, fence } }: SendDispatch, isLost: boolean): void {
    if (session !== this.session || from !== this.home) return;
    if (isLost) this.#unseen.set(task, { task, fence });
    else this.#start(from, session, { task, fence });
  }

  #start(home: Mortal, session: string, { task, fence }: AttemptRef): void {
    const running = this.#isQuiet ? this.#held.get(task) : undefined;
    if (running === undefined) {
      this.#held.set(task, { task, fence, isAcked: false });
      return;
    }
    // It knows no fences: a task that it runs is refused, and the outcome will name the dispatch that began it.
    this.#wire.seen.add(running.fence === fence ? "rechecked" : "granted again");
    if (running.fence !== fence) this.#doubled.add(task);
    this.#say(home, { type: "task.ack", session, held: [{ task, fence }] });
    this.#say(home, { type: "task.error", session, task, fence, code: "E.CMD.CONCURRENCY_VIOLATION", message: "still" });
  }

  stop(from: Mortal, session: string, one: AttemptRef): void {
    if (session !== this.session || from !== this.home) return;
    if (this.#unseen.get(one.task)?.fence === one.fence) this.#unseen.delete(one.task);
    // The older dialects cannot be told.
    if (!this.#isQuiet && this.#held.get(one.task)?.fence === one.fence) this.#drop(one.task);
  }

  get #isQuiet(): boolean {
    return this.about.dialect === "first";
  }

  /** The door closes the socket and says so to the engine. */
  reset(from: Mortal, session: string): void {
    if (session === this.session && from === this.home) this.hangUp();
  }

  /** Its scheduler died: the connection is gone and nobody is told. */
  cut(home: Mortal): void {
    if (this.home !== home) return;
    this.home = null;
    this.session = null;
    this.#isJoining = false;
  }

  hangUp(): void {
    const { home, session } = this;
    this.home = null;
    this.session = null;
    this.#isJoining = false;
    if (home !== null && session !== null) this.#say(home, { type: "worker.leave", session, reason: "closed" });
  }

  storm(): void {
    const { dice } = this.#wire;
    if (this.#silentFor > 0) this.#silentFor--;
    else if (this.home === null || this.session === null) {
      if (!this.#isJoining && dice.chance(0.5)) this.#join(dice.chance(0.15) ? this.#lie() : this.#inventory());
    } else this.#act(this.home, this.session, dice.weigh(stormMoods));
    if (dice.chance(0.1)) this.#layGhost();
  }

  /** Everything is answered, everything is named. */
  calm(): void {
    this.#silentFor = 0;
    while (this.#ghosts.length > 0) this.#layGhost();
    if (this.home === null || this.session === null) {
      if (!this.#isJoining) this.#join(this.#inventory());
      return;
    }
    const { home, session } = this;
    this.#ack(home, session);
    for (const attempt of this.#held.values()) this.#answer(home, session, attempt, "succeeded", { out: attempt.fence });
    this.#beat(home, session, true, this.#inventory());
  }

  /** A heartbeat that is refused tells the worker that its session is over. */
  #beat(home: Mortal, session: string, healthy: boolean, named: readonly AttemptRef[] | null, memPct = 10): void {
    const held = this.#isQuiet ? null : named;
    this.#say(home, { type: "worker.beat", session, healthy, held, memPct }, (fault) => {
      if (fault?.code === "E.SESSION.STALE_BINDING" && this.session === session) this.hangUp();
    });
  }

  #act(home: Mortal, session: string, mood: keyof typeof stormMoods): void {
    const { dice } = this.#wire;
    const attempt = this.#held.size === 0 ? null : dice.pick([...this.#held.values()]);
    switch (mood) {
      case "ack":
        return this.#ack(home, session);
      case "beat":
      case "beatNull":
      case "beatWrong":
      case "beatSick": {
        const held = mood === "beatNull" ? null : mood === "beatWrong" ? this.#lie() : this.#inventory();
        return this.#beat(home, session, mood !== "beatSick", held);
      }
      case "beatShort":
        return this.#beat(home, session, true, this.#inventory(), 95);
      case "resume":
      case "takeOver":
        if (this.#isQuiet) return this.hangUp();
        return this.#resume(home, session, mood === "resume");
      case "leave":
        return this.hangUp();
      case "supersede":
        return this.#join(this.#inventory());
      case "vanish":
        this.#ghosts.push({ home, session });
        return this.cut(home);
      case "reboot":
        this.hangUp();
        return this.#reboot();
      case "silence":
        this.#silentFor = 5 + dice.below(30);
        return;
      case "late": {
        const old = this.#old.length === 0 ? null : dice.pick(this.#old);
        if (old !== null) this.#result(home, session, old, "succeeded", { out: "late" });
        return;
      }
      case "stranger":
        return this.#result(home, session, { task: `${dice.below(9)}.0`, fence: 1 }, "succeeded", {});
      case "nothing":
        return;
      default:
        if (attempt !== null) this.#actOn(home, session, mood, attempt);
    }
  }

  /** Moods about an attempt it holds. */
  #actOn(home: Mortal, session: string, mood: AttemptMood, attempt: Attempt): void {
    const about = { session, task: attempt.task, fence: attempt.fence };
    switch (mood) {
      case "answer":
        return this.#answer(home, session, attempt, "succeeded", { out: attempt.fence });
      case "skip":
        return this.#answer(home, session, attempt, "skipped", {});
      case "fail":
        return this.#answer(home, session, attempt, "failed", { why: 1 });
      case "cancelled":
        return this.#answer(home, session, attempt, "cancelled", {});
      case "twice":
      case "differently":
        this.#answer(home, session, attempt, "succeeded", { out: 1 });
        return this.#result(home, session, attempt, "succeeded", { out: mood === "twice" ? 1 : 2 });
      case "error":
        return this.#say(home, { type: "task.error", ...about, code: "E.RUNNER.FAILURE", message: "broke" }, this.#ends(attempt));
      case "handBack":
        return this.#say(
          home,
          { type: "task.error", ...about, code: "E.RUNNER.CANCELLED", message: "going" },
          this.#ends(attempt),
        );
      case "busy":
        return this.#say(home, { type: "task.error", ...about, code: "E.CMD.CONCURRENCY_VIOLATION", message: "still" });
      case "feedback":
        return this.#say(home, { type: "task.feedback", ...about, data: { progress: 0.5 } });
    }
  }

  #join(running: readonly AttemptRef[]): void {
    const home = this.#wire.somewhere();
    if (home === null) return;
    if (this.home !== null && this.session !== null) this.#ghosts.push({ home: this.home, session: this.session });
    this.home = home;
    this.session = null;
    this.#isJoining = true;
    const session = `${this.id}:${this.#wire.nextId()}`;
    const join = { name: this.#name, boot: this.#bootId, session, about: this.about, running };
    // By the counter of its frames a process of an older dialect shows that it is a new one, until a join was answered.
    const quietJoin = { ...join, boot: this.#isNewProcess ? join.boot : null, running: null };
    this.#unseen.clear();
    this.#say(home, { type: "worker.join", ...(this.#isQuiet ? quietJoin : join) }, (fault) => {
      if (this.session !== session) return;
      this.#isJoining = false;
      if (fault !== null) this.cut(home);
      else this.#isNewProcess = false;
    });
    // Frames may follow the answer in the same breath, so the session listens from now on.
    this.session = session;
  }

  /** The same session on a new socket. Nothing that was sent on it is lost. */
  #resume(home: Mortal, session: string, hasLeft: boolean): void {
    if (hasLeft) this.#say(home, { type: "worker.leave", session, reason: "cut" });
    const held = [...this.#held.values()].filter((attempt) => !attempt.isAcked);
    const unacked = [...held, ...this.#unseen.values()].map(({ task, fence }) => ({ task, fence }));
    const join = { name: this.#name, boot: this.#bootId, session, about: this.about, running: null, resumed: { unacked } };
    this.#say(home, { type: "worker.join", ...join }, (fault) => {
      if (this.session !== session || this.home !== home) return;
      if (fault !== null) return this.cut(home);
      this.#wire.seen.add("resumed");
      for (const one of unacked) if (this.#unseen.delete(one.task)) this.#start(home, session, one);
    });
  }

  get #bootId(): string {
    return `${this.id}-${this.#boot}`;
  }

  #reboot(): void {
    this.#boot++;
    this.#isNewProcess = true;
    for (const task of [...this.#held.keys()]) this.#drop(task);
  }

  #inventory(): AttemptRef[] {
    return [...this.#held.values()].map(({ task, fence }) => ({ task, fence }));
  }

  #lie(): AttemptRef[] {
    const { dice } = this.#wire;
    return [
      ...this.#inventory().filter(() => dice.chance(0.5)),
      ...this.#old.filter(() => dice.chance(0.3)),
      { task: "x.0", fence: 3 },
    ];
  }

  #ack(home: Mortal, session: string): void {
    const held = [...this.#held.values()].filter((attempt) => !attempt.isAcked);
    if (held.length === 0) return;
    for (const attempt of held) attempt.isAcked = true;
    this.#say(home, { type: "task.ack", session, held: held.map(({ task, fence }) => ({ task, fence })) });
  }

  #answer(
    home: Mortal,
    session: string,
    attempt: Attempt,
    status: "succeeded" | "failed" | "cancelled" | "skipped",
    result: object,
  ) {
    this.#result(home, session, attempt, status, result, this.#ends(attempt));
  }

  #result(
    home: Mortal,
    session: string,
    { task, fence }: AttemptRef,
    status: "succeeded" | "failed" | "cancelled" | "skipped",
    result: object,
    heard?: (fault: FaultData | null) => void,
  ): void {
    const text = JSON.stringify(result);
    this.#say(home, { type: "task.result", session, task, fence, status, result: text, error: null, durationMs: null }, heard);
  }

  /** A word that was taken or refused for good is done with; one that could not be stored ends the session and comes again. */
  #ends(attempt: Attempt): (fault: FaultData | null) => void {
    const isDoubled = this.#doubled.has(attempt.task);
    // An older dialect keeps no outcome: what it has said once is over for it, heard or not.
    if (this.#isQuiet) this.#drop(attempt.task);
    return (fault) => {
      if (fault === null && isDoubled) this.#wire.seen.add("older outcome");
      if (fault !== null && retryLater.has(fault.code)) this.hangUp();
      else if (this.#held.get(attempt.task) === attempt) this.#drop(attempt.task);
    };
  }

  #drop(task: string): void {
    const attempt = this.#held.get(task);
    if (attempt !== undefined) this.#old.push({ task, fence: attempt.fence });
    this.#held.delete(task);
    this.#doubled.delete(task);
  }

  #layGhost(): void {
    const ghost = this.#ghosts.shift();
    if (ghost !== undefined) this.#say(ghost.home, { type: "worker.leave", session: ghost.session, reason: "noticed late" });
  }

  #say(home: Mortal, words: Words, heard?: (fault: FaultData | null) => void): void {
    this.#wire.ask(home, { tenant: this.tenant, worker: this.id, ...words } as Command, heard);
  }
}

type Words = Command extends infer C ? (C extends { worker: string } ? Omit<C, "tenant" | "worker"> : never) : never;
